"""What power a board may draw: a GPU whose limit is low for its units does not keep their clock."""

from collections.abc import Mapping
from functools import cache

from trainfare.catalog.gpus import load_figures


@cache
def load_watts() -> Mapping[str, float]:
    """By the name of the GPU, of those whose figure is known; of a board with two chips, each has half."""
    return {
        name: float(figure.value)
        for name, figures in load_figures().items()
        for figure in figures
        if figure.fact == "board_watts"
    }
