"""Figures as files, in notebooks and on pages, all from one Vega-Lite specification."""

import html
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfare.errors import UsageError
from trainfare.figures.accuracy import accuracy_figure
from trainfare.figures.batches import batches_figure
from trainfare.figures.costs import costs_figure
from trainfare.figures.epochs import epochs_figure
from trainfare.figures.look import NARROW, WIDE, Spec
from trainfare.figures.stacked import stack_figures
from trainfare.figures.time_cost import time_cost_figure
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.options import Rankable
from trainfare.runner.accuracy import Accuracy
from trainfare.runner.charges import CostGroup, CostRow

VEGA_LITE = "5.21"
"""The last version of the renderer with the schema that specifications and notebooks name."""

SCALE = 2.0
"""Pixels of a PNG per pixel of the figure: sharp on a high-resolution screen and on paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A specification, and the same at the width of a phone; it displays itself in a notebook."""

    spec: Spec
    narrow: Spec | None = None

    def save(self, path: str | Path) -> None:
        save_figure(self.spec, path, narrow=self.narrow)

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        """Notebooks that support Vega-Lite draw the specification; the others show the PNG."""
        import base64

        return {
            "application/vnd.vegalite.v5+json": self.spec,
            "image/png": base64.b64encode(_png(self.spec, None)).decode(),
            "text/plain": str(self.spec.get("description", "a figure")),
        }


def draw_time_cost(plan: Plan, estimates: Sequence[Estimate]) -> Figure:
    """The figure of time and cost; `estimates` are the alternatives, best first, one per machine and market."""

    def at(width: int) -> Spec:
        return time_cost_figure(
            estimates,
            chosen=plan.chosen,
            front=plan.front,
            knee=plan.knee,
            goal=plan.goal,
            width=width,
        )

    return _at_both_widths(at)


def draw_epochs(
    plan: Plan,
    once: Sequence[Rankable],
    twice: Sequence[Rankable],
    *,
    fastest: Sequence[WinningRange],
    cheapest: Sequence[WinningRange],
) -> Figure:
    """The figure of time and cost by number of epochs: the same candidates, best first, for one epoch and for two, as
    `Workload.unrounded` gives them, and the ranges in which each wins."""

    def at(width: int) -> Spec:
        return epochs_figure(
            once,
            twice,
            chosen=plan.chosen.candidate,
            epochs=plan.chosen.epochs,
            fastest=fastest,
            cheapest=cheapest,
            width=width,
        )

    return _at_both_widths(at)


def draw_batches(plan: Plan, estimates: Sequence[Estimate]) -> Figure:
    """The figure of time and cost by batch size, for the chosen machine and others at several sizes."""

    def at(width: int) -> Spec:
        return batches_figure(estimates, chosen=plan.chosen, confidence=plan.goal.confidence, width=width)

    return _at_both_widths(at)


def draw_accuracy(accuracy: Accuracy) -> Figure:
    """The figure of predicted against observed times."""
    return _at_both_widths(lambda width: accuracy_figure(accuracy, width=width))


def draw_costs(rows: Sequence[CostRow], by: CostGroup) -> Figure:
    """The figure of what runs have cost."""
    return _at_both_widths(lambda width: costs_figure(rows, by, width=width))


def stack(figures: Sequence[Figure]) -> Figure:
    """The figures below each other, in one file."""
    return Figure(
        spec=stack_figures([figure.spec for figure in figures]),
        narrow=stack_figures([figure.narrow or figure.spec for figure in figures]),
    )


def _at_both_widths(at: Callable[[int], Spec]) -> Figure:
    return Figure(spec=at(WIDE), narrow=at(NARROW))


def require_drawable(path: str | Path) -> Path:
    """The path if a figure can be written there; checked before anything is computed."""
    path = Path(path)
    if path.suffix.lower() not in RENDERERS:
        *most, last = RENDERERS
        raise UsageError(f"{path} cannot be drawn: its name must end in {', '.join(most)} or {last}.")
    if not path.parent.is_dir():
        raise UsageError(f"{path} cannot be drawn: there is no folder {path.parent}.")
    if path.is_dir():
        raise UsageError(f"{path} cannot be drawn: it is a folder.")
    return path


def save_figure(spec: Spec, path: str | Path, *, narrow: Spec | None = None) -> Path:
    """Write the figure in the format of the file name: a page that needs no network, a picture, or the specification.

    A page shows `narrow` if the window is narrower than the figure. The file is written completely or not at all.
    """
    path = require_drawable(path)
    _write_atomically(path, RENDERERS[path.suffix.lower()](spec, narrow))
    return path


def _html(spec: Spec, narrow: Spec | None) -> bytes:
    """A page with everything in it: the libraries, the specification and its narrow variant."""
    import vl_convert

    width = spec.get("usermeta", {}).get("width", 0)
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    page = _PAGE.format(
        title=html.escape(_title(spec)),
        library=library,
        wide=_json_in_script(spec),
        narrow=_json_in_script(narrow or spec),
        width=width,
    )
    return page.encode()


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0; background: white }} #figure svg {{ max-width: 100%; height: auto }}</style>
<script>{library}</script>
</head>
<body>
<div id="figure"></div>
<script>
const wide = {wide};
const narrow = {narrow};
let shown = null;
function show() {{
  const fitting = window.innerWidth < {width} ? narrow : wide;
  if (fitting === shown) return;
  shown = fitting;
  vegaEmbed("#figure", fitting, {{renderer: "svg", actions: false}}).catch(console.error);
}}
window.addEventListener("resize", show);
show();
</script>
</body>
</html>
"""


def _json_in_script(spec: Spec) -> str:
    """JSON in which no text can end the script."""
    return json.dumps(spec, ensure_ascii=False).replace("</", "<\\/")


def _title(spec: Mapping[str, Any]) -> str:
    title = spec.get("title")
    if isinstance(title, dict) and isinstance(title.get("text"), list):
        return " ".join(title["text"])
    return str(spec.get("description", "trainfare"))


def _png(spec: Spec, _narrow: Spec | None) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=SCALE, allowed_base_urls=[])


def _svg(spec: Spec, _narrow: Spec | None) -> bytes:
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_renumber_clips(drawn)}'.encode()


def _renumber_clips(drawn: str) -> str:
    """The SVG with its clips numbered from 0, so that equal figures are equal files; the renderer goes on counting."""
    numbers: dict[str, int] = {}
    return re.sub(
        r"(?<=[\"#])clip(\d+)(?=[\")])", lambda found: f"clip{numbers.setdefault(found[1], len(numbers))}", drawn
    )


def _json(spec: Spec, _narrow: Spec | None) -> bytes:
    return (json.dumps(spec, ensure_ascii=False, indent=1) + "\n").encode()


RENDERERS: Mapping[str, Callable[[Spec, Spec | None], bytes]] = {
    ".html": _html,
    ".png": _png,
    ".svg": _svg,
    ".json": _json,
}


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file first and rename it, so that the path always has the old or the new file."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error


def _umask() -> int:
    """The umask of the process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
