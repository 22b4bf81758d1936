import pytest

import trainfare
from trainfare.errors import NotFoundError
from trainfare.papers import DOCUMENTS, selected
from trainfare.papers.judge import Misprint, judged, judged_words, not_recomputable
from trainfare.papers.printed import Printed
from trainfare.papers.row import Row


def test_only_the_tables_asked_for_are_made_in_the_order_of_the_register() -> None:
    rows = trainfare.reproduce(["malta-5.2", "malta-4.1"])
    assert list(dict.fromkeys(row.table for row in rows)) == ["malta-4.1", "malta-5.2"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_has_every_table_of_the_register_and_no_other(document: str) -> None:
    rows = trainfare.reproduce([document])
    assert tuple(dict.fromkeys(row.table for row in rows)) == DOCUMENTS[document]
    assert len({(row.table, row.row) for row in rows}) == len(rows)


def test_no_table_named_is_all_of_them() -> None:
    assert selected(()) == tuple(name for names in DOCUMENTS.values() for name in names)


def test_a_table_is_found_in_any_spelling() -> None:
    assert selected(["MALTA-a.1", " malta-A.1"]) == ("malta-A.1",)


def test_an_unknown_table_is_named_with_the_nearest() -> None:
    with pytest.raises(NotFoundError, match=r"no table malta-5\.44\. Did you mean malta-5\.4\?.*trainfare reproduce"):
        trainfare.reproduce(["malta-5.44"])


def verdict(printed: str, ours: str, **known: str) -> Row:
    misprints = {("t", "r"): Misprint(why=known["why"])} if known else {}
    return judged("t", "r", printed, Printed.read(ours), how="so", misprints=misprints)


def test_what_agrees_is_equal_even_where_a_misprint_is_listed() -> None:
    assert verdict("1.5", "1.52", why="a slip").verdict == "equal"


def test_what_disagrees_is_a_misprint_only_where_the_reason_is_known() -> None:
    assert verdict("1.5", "1.72").verdict == "differs"
    found = verdict("1.5", "1.72", why="A slip")
    assert (found.verdict, found.why) == ("misprint", "so. A slip")


def test_what_agrees_only_by_the_rounding_of_its_inputs_says_how_far_that_goes() -> None:
    assert verdict("1.5", "1.52").why == "so"
    wide = judged("t", "r", "170.3", Printed(179.1, 168.8, 189.4), how="so", misprints={})
    assert (wide.verdict, wide.why) == ("equal", "so; the rounding of what it is made from leaves 168.8 to 189.4")


def test_words_are_judged_by_being_the_same() -> None:
    known = {("t", "r"): Misprint(why="A slip")}
    verdicts = [
        judged_words("t", "r", "each epoch", ours, how="so", misprints=misprints).verdict
        for ours, misprints in (("each epoch", known), ("all epochs", known), ("all epochs", {}))
    ]
    assert verdicts == ["equal", "misprint", "differs"]


def test_a_row_keeps_the_digits_of_the_page() -> None:
    row = verdict("0.50", "0.45")
    assert (row.published, row.printed) == (0.5, "0.50")
    assert row.difference == pytest.approx(-0.1)


def test_a_word_and_a_missing_number_can_stand_for_what_is_not_recomputable() -> None:
    assert not_recomputable("t", "r", "each epoch", "said").published == "each epoch"
    assert not_recomputable("t", "r", "", "not in the text").published == ""


def test_ours_is_there_unless_it_cannot_be() -> None:
    with pytest.raises(ValueError, match="only what cannot be recomputed"):
        Row(table="t", row="r", published=1.0, ours=None, verdict="equal", why="so")
