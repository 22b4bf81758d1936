"""Several figures as one."""

from collections.abc import Sequence

from trainfare.figures.look import Spec, page

_OF_A_PAGE = ("$schema", "description", "background", "padding", "usermeta", "config", "vconcat", "spacing")


def all_figures(specs: Sequence[Spec]) -> Spec:
    """Below each other, in this order; all of the same width."""
    if not specs:
        raise ValueError("no figure is nothing to look at")
    views = [view for spec in specs for view in spec.get("vconcat") or [_view(spec)]]
    return page(
        views,
        description=" ".join(spec["description"] for spec in specs),
        width=max(spec["usermeta"]["width"] for spec in specs),
    )


def _view(spec: Spec) -> Spec:
    return {key: value for key, value in spec.items() if key not in _OF_A_PAGE}
