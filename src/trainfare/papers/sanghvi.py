"""Sanghvi's table I and the predictions of its section VII: ResNet on CIFAR-10 on K80 and P100."""

from trainfare.estimator.cost.delta import TimeAndCost, relative_excess, time_and_cost, to_target
from trainfare.papers.judge import judge_number, not_recomputable
from trainfare.papers.printed import PrintedNumber, apply_to_ranges
from trainfare.papers.published import PublishedCell, tables
from trainfare.papers.row import Row

EPOCHS, PREDICTIONS = "sanghvi-I", "sanghvi-prediction"

NOT_PRINTED = {
    "$/h": "a price of that time",
    "epoch (s)": "measured: the median of ten epochs",
    "predicted epochs": "the fitted loss curve is a figure; neither its β nor the losses are printed",
    "real epochs": "measured",
    "error of the loss (%)": "the caption of figure 6; the compared losses are not printed",
}


def rows() -> tuple[Row, ...]:
    """Every number, in the order of the page."""
    page = tables("sanghvi")
    return tuple(_row(cell) for name in (EPOCHS, PREDICTIONS) for cell in page[name].cells.values())


def _row(cell: PublishedCell) -> Row:
    cell_name = f"{cell.row}: {cell.column}"
    found = _epoch(cell) if cell.table == EPOCHS else _prediction(cell)
    if found is None:
        return not_recomputable(cell.table, cell_name, cell.printed, NOT_PRINTED[cell.column])
    ours, method = found
    return judge_number(cell.table, cell_name, cell.printed, ours, method=method, misprints={})


def _epoch(cell: PublishedCell) -> tuple[PrintedNumber, str] | None:
    page = tables("sanghvi")[EPOCHS]
    if cell.column == "epoch ($)":
        price, seconds = page.number(cell.row, "$/h").value, page.number(cell.row, "epoch (s)")
        return apply_to_ranges(lambda s: time_and_cost(s, price).usd, seconds), "price × time of an epoch"
    if (cell.row, cell.column) == ("2 × K80", "$/h"):
        return page.number("1 × K80", "$/h") * 2, "twice the price of one K80"
    return None


def _prediction(cell: PublishedCell) -> tuple[PrintedNumber, str] | None:
    """The page multiplies its printed numbers, so they are taken as exact."""
    epochs, page = tables("sanghvi")[EPOCHS], tables("sanghvi")[PREDICTIONS]
    epoch = TimeAndCost(
        seconds=epochs.number(cell.row, "epoch (s)").value, usd=epochs.number(cell.row, "epoch ($)").value
    )
    predicted = page.number(cell.row, "predicted epochs").value
    real = page.number(cell.row, "real epochs").value
    match cell.column:
        case "predicted ($)":
            return PrintedNumber.exactly(to_target(epoch, epochs=predicted).usd), "epochs × cost of an epoch"
        case "predicted (s)":
            return PrintedNumber.exactly(to_target(epoch, epochs=predicted).seconds), "epochs × time of an epoch"
        case "real (s)":
            return PrintedNumber.exactly(to_target(epoch, epochs=real).seconds), "epochs × time of an epoch"
        case "error (%)":
            return PrintedNumber.exactly(100 * relative_excess(predicted, real)), "predicted epochs / real epochs − 1"
    return None
