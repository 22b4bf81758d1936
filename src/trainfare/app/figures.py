"""From a figure to a file, a notebook or a page: one specification for all."""

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
from trainfare.figures.batches import batches_figure
from trainfare.figures.epochs import Won, epochs_figure
from trainfare.figures.look import NARROW, WIDE, Spec
from trainfare.figures.time_cost import time_cost_figure
from trainfare.figures.stacked import stack_figures
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.recommender.names import machine_name

VEGA_LITE = "5.21"
"""Of those that the renderer has, the last of the schema that specifications and notebooks name."""

SCALE = 2.0
"""Pixels of a PNG for one of the figure: sharp on a good screen and on paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A specification, and the same at the width of a phone; shows itself in a notebook."""

    spec: Spec
    narrow: Spec | None = None

    def save(self, path: str | Path) -> None:
        save_figure(self.spec, path, narrow=self.narrow)

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        """Notebooks that know Vega-Lite draw it themselves; the picture is for the others."""
        import base64

        return {
            "application/vnd.vegalite.v5+json": self.spec,
            "image/png": base64.b64encode(_png(self.spec, None)).decode(),
            "text/plain": str(self.spec.get("description", "a figure")),
        }


def fare_of(plan: Plan, estimates: Sequence[Estimate]) -> Figure:
    """Time against cost: `estimates` are what there was to choose from, best first, one a machine and market."""

    def at(width: int) -> Spec:
        return time_cost_figure(
            estimates,
            chosen=plan.chosen,
            front=plan.front,
            knee=plan.knee,
            goal=plan.goal,
            named=machine_name,
            width=width,
        )

    return _at_both_widths(at)


def epochs_of(
    plan: Plan,
    once: Sequence[Estimate],
    twice: Sequence[Estimate],
    *,
    fastest: Sequence[Won],
    cheapest: Sequence[Won],
) -> Figure:
    """Time and cost against the number of epochs: of the same candidates, best first, for one epoch and for two, as
    `Workload.on_a_line` gives them; and who wins at how many."""

    def at(width: int) -> Spec:
        return epochs_figure(
            once,
            twice,
            chosen=plan.chosen.candidate,
            epochs=plan.chosen.epochs,
            fastest=fastest,
            cheapest=cheapest,
            named=machine_name,
            width=width,
        )

    return _at_both_widths(at)


def batches_of(plan: Plan, estimates: Sequence[Estimate]) -> Figure:
    """Time and cost against the batch size: of the chosen machine and of others, each at several sizes."""

    def at(width: int) -> Spec:
        return batches_figure(
            estimates, chosen=plan.chosen, named=machine_name, confidence=plan.goal.confidence, width=width
        )

    return _at_both_widths(at)


def all_of(figures: Sequence[Figure]) -> Figure:
    """Below each other, in one file."""
    return Figure(
        spec=stack_figures([figure.spec for figure in figures]),
        narrow=stack_figures([figure.narrow or figure.spec for figure in figures]),
    )


def _at_both_widths(at: Callable[[int], Spec]) -> Figure:
    return Figure(spec=at(WIDE), narrow=at(NARROW))


def require_drawable(path: str | Path) -> Path:
    """Before anything is computed: a typo should not cost the answer."""
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
    """By the end of its name: a page that opens without a network, a picture, or the specification itself.

    A page shows `narrow` instead where the window is not as wide as the figure. There is the whole file or none.
    """
    path = require_drawable(path)
    _write_whole(path, RENDERERS[path.suffix.lower()](spec, narrow))
    return path


def _html(spec: Spec, narrow: Spec | None) -> bytes:
    """Everything inside: the libraries, the specification, and as what it is shown where there is no room."""
    import vl_convert

    width = spec.get("usermeta", {}).get("width", 0)
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    page = _PAGE.format(
        title=html.escape(_title(spec)),
        library=library,
        wide=_in_script(spec),
        narrow=_in_script(narrow or spec),
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


def _in_script(spec: Spec) -> str:
    """JSON that no text in it can end the script with."""
    return json.dumps(spec, ensure_ascii=False).replace("</", "<\\/")


def _title(spec: Mapping[str, Any]) -> str:
    told = spec.get("title")
    if isinstance(told, dict) and isinstance(told.get("text"), list):
        return " ".join(told["text"])
    return str(spec.get("description", "trainfare"))


def _png(spec: Spec, _narrow: Spec | None) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=SCALE, allowed_base_urls=[])


def _svg(spec: Spec, _narrow: Spec | None) -> bytes:
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_renumbered(drawn)}'.encode()


def _renumbered(drawn: str) -> str:
    """The renderer counts its clips on from figure to figure; the same numbers are to give the same file."""
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


def _write_whole(path: Path, content: bytes) -> None:
    """Beside it first: who looks meanwhile, or after a crash, sees the old file or the new one."""
    beside = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            beside = Path(file.name)
            file.write(content)
        beside.chmod(0o666 & ~_umask())
        beside.replace(path)
    except OSError as error:
        if beside is not None:
            with suppress(OSError):
                beside.unlink()
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error


def _umask() -> int:
    """The system tells it only to who sets it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
