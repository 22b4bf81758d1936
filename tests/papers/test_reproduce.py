import pytest

import trainfare
from trainfare.errors import NotFoundError
from trainfare.papers import DOCUMENTS, select_tables
from trainfare.papers.judge import Misprint, judge_number, judge_text, not_recomputable
from trainfare.papers.printed import PrintedNumber
from trainfare.papers.row import Row


def test_only_the_requested_tables_are_made_in_the_order_of_documents() -> None:
    rows = trainfare.reproduce(["malta-5.2", "malta-4.1"])
    assert list(dict.fromkeys(row.table for row in rows)) == ["malta-4.1", "malta-5.2"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_has_exactly_its_registered_tables(document: str) -> None:
    rows = trainfare.reproduce([document])
    assert tuple(dict.fromkeys(row.table for row in rows)) == DOCUMENTS[document]
    assert len({(row.table, row.row) for row in rows}) == len(rows)


def test_without_names_all_tables_are_selected() -> None:
    assert select_tables(()) == tuple(name for names in DOCUMENTS.values() for name in names)


def test_a_table_is_found_in_any_spelling() -> None:
    assert select_tables(["MALTA-a.1", " malta-A.1"]) == ("malta-A.1",)


def test_an_unknown_table_is_named_with_the_nearest() -> None:
    with pytest.raises(NotFoundError, match=r"no table malta-5\.44\. Did you mean malta-5\.4\?.*trainfare reproduce"):
        trainfare.reproduce(["malta-5.44"])


def verdict(printed: str, ours: str, **known: str) -> Row:
    misprints = {("t", "r"): Misprint(why=known["why"])} if known else {}
    return judge_number("t", "r", printed, PrintedNumber.read(ours), method="so", misprints=misprints)


def test_an_agreeing_number_is_equal_even_if_a_misprint_is_listed() -> None:
    assert verdict("1.5", "1.52", why="a slip").verdict == "equal"


def test_a_disagreeing_number_is_a_misprint_only_with_a_known_reason() -> None:
    assert verdict("1.5", "1.72").verdict == "differs"
    found = verdict("1.5", "1.72", why="A slip")
    assert (found.verdict, found.why) == ("misprint", "so. A slip")


def test_a_number_that_agrees_only_by_rounding_gives_the_range() -> None:
    assert verdict("1.5", "1.52").why == "so"
    wide = judge_number("t", "r", "170.3", PrintedNumber(179.1, 168.8, 189.4), method="so", misprints={})
    assert (wide.verdict, wide.why) == ("equal", "so; the rounding of its inputs allows 168.8 to 189.4")


def test_texts_are_equal_if_they_are_the_same() -> None:
    known = {("t", "r"): Misprint(why="A slip")}
    verdicts = [
        judge_text("t", "r", "each epoch", ours, method="so", misprints=misprints).verdict
        for ours, misprints in (("each epoch", known), ("all epochs", known), ("all epochs", {}))
    ]
    assert verdicts == ["equal", "misprint", "differs"]


def test_a_row_keeps_the_digits_of_the_page() -> None:
    row = verdict("0.50", "0.45")
    assert (row.published, row.printed) == (0.5, "0.50")
    assert row.difference == pytest.approx(-0.1)


def test_texts_and_missing_numbers_can_be_not_recomputable() -> None:
    assert not_recomputable("t", "r", "each epoch", "said").published == "each epoch"
    assert not_recomputable("t", "r", "", "not in the text").published == ""


def test_a_row_without_our_number_must_be_not_recomputable() -> None:
    with pytest.raises(ValueError, match="only a number that cannot be recomputed"):
        Row(table="t", row="r", published=1.0, ours=None, verdict="equal", why="so")
