"""One specification as a page, a picture, a drawing and itself."""

import json
import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.figures.reading import estimate, named
from tests.makers import make_plan
from trainfare.app.figures import Figure, all_of, batches_of, epochs_of, fare_of, require_drawable, save_figure
from trainfare.errors import UsageError
from trainfare.figures.time_cost import time_cost_figure
from trainfare.model.plan import Goal
from trainfare.recommender.crossovers import winning_ranges

CHEAP, FAST = estimate("g4dn.xlarge", hours=4, usd=2), estimate("p3.2xlarge", hours=1.5, usd=5)
SPEC = time_cost_figure([CHEAP, FAST], chosen=CHEAP, front=[FAST, CHEAP], named=named)
LABEL = "aws p3.2xlarge · T4"


def test_a_picture_has_twice_the_pixels(tmp_path: Path) -> None:
    content = save_figure(SPEC, tmp_path / "fare.png").read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    assert content.startswith(b"\x89PNG\r\n")
    assert 1100 <= width <= 1210
    assert height > 700


def test_a_drawing_has_its_words_as_text(tmp_path: Path) -> None:
    content = save_figure(SPEC, tmp_path / "fare.SVG").read_text()
    drawn = ET.fromstring(content)  # noqa: S314 our own
    words = {each.text for each in drawn.iter() if each.tag.endswith(("text", "tspan"))}
    assert {LABEL, "aws g4dn.xlarge", "4 h 00 min, 2.00 $", "time", "cost", "2 h", "2 $"} <= words


def test_a_page_opens_without_a_network_and_has_both_widths(tmp_path: Path) -> None:
    figure = fare_of(make_plan(chosen=CHEAP, runners_up=(), front=(FAST, CHEAP)), [CHEAP, FAST])
    figure.save(tmp_path / "fare.html")
    page = (tmp_path / "fare.html").read_text()
    assert not re.search(r"<script[^>]*src|<link|<iframe", page)
    assert "@import" not in page
    assert LABEL in page
    assert json.dumps(figure.spec, ensure_ascii=False) in page
    assert json.dumps(figure.narrow, ensure_ascii=False) in page
    assert page.count("</script>") == 2


def test_words_cannot_end_the_script_of_a_page(tmp_path: Path) -> None:
    spec = time_cost_figure([CHEAP], chosen=CHEAP, named=lambda _: "</script><b>")
    page = save_figure(spec, tmp_path / "fare.html").read_text()
    assert page.count("</script>") == 2
    assert "<title>&lt;/script&gt;" in page


def test_the_specification_itself_can_be_had(tmp_path: Path) -> None:
    assert json.loads(save_figure(SPEC, tmp_path / "fare.json").read_text()) == SPEC


@pytest.mark.parametrize("name", ["fare.pdf", "fare", "nowhere/fare.png"])
def test_what_cannot_be_drawn_is_said_with_what_can(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.png, \.svg or \.json|there is no folder"):
        require_drawable(tmp_path / name)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "fare.png").mkdir()
    with pytest.raises(UsageError, match="it is a folder"):
        require_drawable(tmp_path / "fare.png")


def test_a_file_that_cannot_be_written_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fare.json").write_text("the old one")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageError, match=r"fare\.json cannot be written: No space left on device"):
        save_figure(SPEC, tmp_path / "fare.json")
    assert [path.name for path in tmp_path.iterdir()] == ["fare.json"]
    assert (tmp_path / "fare.json").read_text() == "the old one"


def test_a_notebook_gets_the_specification_and_a_picture() -> None:
    shown = Figure(spec=SPEC)._repr_mimebundle_(include=None, exclude=None)
    assert shown["application/vnd.vegalite.v5+json"] == SPEC
    assert str(shown["image/png"]).startswith("iVBOR")
    assert "Chosen: aws g4dn.xlarge" in str(shown["text/plain"])


def test_all_views_of_a_plan_in_one_file(tmp_path: Path) -> None:
    plan = make_plan(chosen=CHEAP, runners_up=(), front=(FAST, CHEAP), knee=FAST)
    once = [estimate("g4dn.xlarge", hours=0.5, usd=0.3, epochs=1), estimate("p3.2xlarge", hours=0.6, usd=2, epochs=1)]
    twice = [
        estimate("g4dn.xlarge", hours=0.9, usd=0.5, epochs=2),
        estimate("p3.2xlarge", hours=0.7, usd=2.4, epochs=2),
    ]
    won = [winning_ranges(once, twice, Goal(kind=kind)) for kind in ("fastest", "cheapest")]
    sizes = [estimate("g4dn.xlarge", hours=100 / size, usd=50 / size, batch_size=size) for size in (32, 64, 128)]
    figure = all_of(
        [
            fare_of(plan, [CHEAP, FAST]),
            epochs_of(plan, once, twice, fastest=won[0], cheapest=won[1]),
            batches_of(plan, sizes),
        ]
    )
    assert len(figure.spec["vconcat"]) == 5
    drawn = save_figure(figure.spec, tmp_path / "all.svg").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert all(words in drawn for words in ("aws p3.2xlarge", "where a line is heavy", "Time against batch size"))
