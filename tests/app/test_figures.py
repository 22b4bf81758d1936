"""One specification as a page, a PNG, an SVG and JSON."""

import json
import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.figures.reading import estimate
from tests.makers import make_plan
from trainfare.app.figures import (
    Figure,
    draw_batches,
    draw_epochs,
    draw_time_cost,
    require_drawable,
    save_figure,
    stack,
)
from trainfare.errors import UsageError
from trainfare.figures.time_cost import time_cost_figure
from trainfare.model.plan import Goal
from trainfare.recommender.crossovers import winning_ranges

CHEAP, FAST = estimate("g4dn.xlarge", hours=4, usd=2), estimate("p3.2xlarge", hours=1.5, usd=5)
SPEC = time_cost_figure([CHEAP, FAST], chosen=CHEAP, front=[FAST, CHEAP])
LABEL = "aws p3.2xlarge · T4"


def test_a_png_has_twice_the_pixels(tmp_path: Path) -> None:
    content = save_figure(SPEC, tmp_path / "fare.png").read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    assert content.startswith(b"\x89PNG\r\n")
    assert 1100 <= width <= 1210
    assert height > 700


def test_an_svg_has_its_labels_as_text(tmp_path: Path) -> None:
    content = save_figure(SPEC, tmp_path / "fare.SVG").read_text()
    drawn = ET.fromstring(content)  # noqa: S314 # the file is our own
    words = {each.text for each in drawn.iter() if each.tag.endswith(("text", "tspan"))}
    assert {LABEL, "aws g4dn.xlarge", "4 h, $2.00", "time", "cost", "2 h", "$2"} <= words


def test_a_page_opens_without_a_network_and_has_both_widths(tmp_path: Path) -> None:
    figure = draw_time_cost(make_plan(chosen=CHEAP, runners_up=(), front=(FAST, CHEAP)), [CHEAP, FAST])
    figure.save(tmp_path / "fare.html")
    page = (tmp_path / "fare.html").read_text()
    assert not re.search(r"<script[^>]*src|<link|<iframe", page)
    assert "@import" not in page
    assert LABEL in page
    assert json.dumps(figure.spec, ensure_ascii=False) in page
    assert json.dumps(figure.narrow, ensure_ascii=False) in page
    assert page.count("</script>") == 2


def test_a_label_cannot_end_the_script_of_a_page(tmp_path: Path) -> None:
    script = estimate("</script><b>")
    spec = time_cost_figure([script], chosen=script)
    page = save_figure(spec, tmp_path / "fare.html").read_text()
    assert page.count("</script>") == 2
    assert "<title>aws &lt;/script&gt;" in page


def test_the_specification_can_be_saved(tmp_path: Path) -> None:
    assert json.loads(save_figure(SPEC, tmp_path / "fare.json").read_text()) == SPEC


@pytest.mark.parametrize("name", ["fare.pdf", "fare", "nowhere/fare.png"])
def test_an_unknown_format_is_an_error_that_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.png, \.svg or \.json|there is no folder"):
        require_drawable(tmp_path / name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fare.png").mkdir()
    with pytest.raises(UsageError, match="it is a folder"):
        require_drawable(tmp_path / "fare.png")


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    figure = stack(
        [
            draw_time_cost(plan, [CHEAP, FAST]),
            draw_epochs(plan, once, twice, fastest=won[0], cheapest=won[1]),
            draw_batches(plan, sizes),
        ]
    )
    assert len(figure.spec["vconcat"]) == 5
    drawn = save_figure(figure.spec, tmp_path / "all.svg").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert all(words in drawn for words in ("aws p3.2xlarge", "bold where no other machine", "Time by batch size"))
