"""The options that state how long a training is, the same in every command that takes epochs."""

from dataclasses import dataclass
from typing import Annotated, overload

import typer

from trainfare.app.stated import LengthKeywords
from trainfare.cli.options import IterationsPerEpoch
from trainfare.cli.parsing import parse_amount

Steps = Annotated[
    str | None, typer.Option(metavar="N", help="Iterations to train in all, instead of epochs.", show_default=False)
]
Tokens = Annotated[
    str | None, typer.Option(metavar="N", help="Tokens to train in all, such as 300B.", show_default=False)
]
Samples = Annotated[
    str | None, typer.Option(metavar="N", help="Samples of the training data, if unknown.", show_default=False)
]
ProfiledBatch = Annotated[
    int | None,
    typer.Option("--batch-size", min=1, metavar="B", help="Batch size of the profile, if unknown.", show_default=False),
]
Epochs = Annotated[
    float | None, typer.Option(metavar="N", help="Epochs to train, such as 90 or 1.5.", show_default=False)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthOptions:
    """The length of the training, and facts of the profile that were not measured."""

    epochs: Epochs = None
    steps: Steps = None
    tokens: Tokens = None
    samples: Samples = None
    batch_size: ProfiledBatch = None
    iterations_per_epoch: IterationsPerEpoch = None

    @property
    def keywords(self) -> LengthKeywords:
        """The arguments of the use case."""
        return {
            "epochs": whole(self.epochs),
            "steps": parse_whole_amount("steps", self.steps),
            "tokens": None if self.tokens is None else parse_amount("tokens", self.tokens),
            "samples": parse_whole_amount("samples", self.samples),
            "profiled_batch_size": self.batch_size,
            "iterations_per_epoch": self.iterations_per_epoch,
        }


@overload
def whole(number: float) -> float: ...


@overload
def whole(number: None) -> None: ...


def whole(number: float | None) -> float | None:
    """A whole number as an integer, so that it is printed and stored as one."""
    return int(number) if number is not None and number.is_integer() else number


def parse_whole_amount(field: str, text: str | None) -> int | None:
    """A whole number that may be written with a letter: 600k."""
    return None if text is None else round(parse_amount(field, text))
