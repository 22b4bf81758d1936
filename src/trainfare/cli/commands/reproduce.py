"""`trainfare reproduce`: the published tables, recomputed."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from trainfare import papers
from trainfare.cli.cards.figure import save_paper_figure
from trainfare.cli.cards.paper_row import computed_text, difference_text, published_text
from trainfare.cli.cards.reproduce_page import papers_page
from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json
from trainfare.errors import UsageError
from trainfare.papers.row import VERDICTS, Row, row_record

STYLES = {"equal": "green", "misprint": "yellow", "differs": "bold red", "not-recomputable": "dim"}


def reproduce(
    table: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="As the summary names them: malta-5.4, or malta for all tables of that document.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Draw the figures too, as PNG and SVG.", show_default=False),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/papers.md.")] = False,
) -> None:
    """Recompute the published tables, number by number."""

    if figures is not None:
        _make_folder(figures)
    rows = papers.reproduce(table or ())
    if json:
        print_json({"rows": [row_record(row) for row in rows]})
    elif markdown:
        typer.echo(papers_page(rows, papers.figures()), nl=False)
    else:
        _print_summary(rows)
        if table:
            _print_rows(rows)
        else:
            _print_hint()
    if figures is not None:
        _draw(figures)


def _print_summary(rows: Sequence[Row]) -> None:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.table, Counter())[row.verdict] += 1
    shown = new_table()
    shown.add_column("table", no_wrap=True)
    for verdict in VERDICTS:
        shown.add_column(verdict, justify="right", no_wrap=True, style=STYLES[verdict])
    for name, count in counts.items():
        shown.add_row(name, *(str(count[verdict] or "·") for verdict in VERDICTS))
    if len(counts) > 1:
        total = Counter(row.verdict for row in rows)
        shown.add_row("total", *(str(total[verdict]) for verdict in VERDICTS), style="bold")
    out().print(shown)


def _print_hint() -> None:
    out().print()
    out().print(
        "equal: within the rounding of the page · misprint: the page contradicts itself, and we know how · "
        "not-recomputable: its inputs are not printed · differs: not explained",
        style="dim",
        soft_wrap=False,
    )
    out().print("Number by number: trainfare reproduce malta-5.4", style="dim")


def _print_rows(rows: Sequence[Row]) -> None:
    for name in dict.fromkeys(row.table for row in rows):
        out().print()
        shown = new_table()
        shown.add_column(name, overflow="fold")
        for column in ("published", "ours", "difference"):
            shown.add_column(column, justify="right", no_wrap=True)
        shown.add_column("verdict", no_wrap=True)
        shown.add_column("why", overflow="fold")
        for row in rows:
            if row.table == name:
                cells = (row.row, published_text(row), computed_text(row), difference_text(row), row.verdict, row.why)
                shown.add_row(*map(Text, cells), style=STYLES[row.verdict] if row.verdict != "equal" else None)
        out().print(shown)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the folder {folder} cannot be written: {error.strerror}. Name another.", field="figures"
        ) from error


def _draw(folder: Path) -> None:
    for figure in papers.figures():
        if figure.drawable:
            written = save_paper_figure(figure, folder)
            print_note(f"{figure.name}: {' '.join(map(str, written))}")
        else:
            print_note(f"{figure.name}: not drawn, {figure.note}")
