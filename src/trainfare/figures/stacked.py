"""Several figures as one, stacked."""

from collections.abc import Sequence

from trainfare.figures.look import Spec, page

_PAGE_KEYS = ("$schema", "description", "background", "padding", "usermeta", "config", "vconcat", "spacing")


def stack_figures(specs: Sequence[Spec]) -> Spec:
    """The figures below each other, in this order; all have the same width."""
    if not specs:
        raise ValueError("at least one figure is needed")
    views = [view for spec in specs for view in spec.get("vconcat") or [_view(spec)]]
    return page(
        views,
        description=" ".join(spec["description"] for spec in specs),
        width=max(spec["usermeta"]["width"] for spec in specs),
    )


def _view(spec: Spec) -> Spec:
    return {key: value for key, value in spec.items() if key not in _PAGE_KEYS}
