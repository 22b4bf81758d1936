"""Options of measuring on named machines, the same for `probe` and `compare`."""

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from trainfare.app.probing.machines import ProbeTerms
from trainfare.app.profiling.options import ProfileOptions
from trainfare.cli.commands.run import AllowPrivate, Data, InstallWhat, Secret, SetupCommand
from trainfare.cli.parsing import parse_seconds, parse_whole_numbers, require_positive
from trainfare.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOptions:
    """The amount that is measured on each machine."""

    iterations: Annotated[
        int | None,
        typer.Option("--iterations", "-n", metavar="N", help="With --on: iterations to measure.", show_default=False),
    ] = None
    two_epochs: Annotated[bool, typer.Option("--two-epochs", help="With --on: measure two epochs.")] = False

    def profiling(self, max_seconds: float | None) -> ProfileOptions:
        """A number of iterations excludes a time to measure, so there the time is a limit alone."""
        epochs = 2 if self.two_epochs else None
        if self.iterations is None:
            return ProfileOptions(epochs=epochs, max_seconds=max_seconds)
        return ProfileOptions(iterations=self.iterations, epochs=epochs, most_seconds=max_seconds)

    def require_machines(self) -> None:
        """Without named machines, a probe measures what it needs."""
        for name, is_given in (("iterations", self.iterations is not None), ("two_epochs", self.two_epochs)):
            if is_given:
                raise UsageError("is only used on machines that are named.", field=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringOptions:
    """The measurements on each machine before machines are compared."""

    until_stable: Annotated[
        bool,
        typer.Option("--until-stable", help="With --on: until stable on the cheapest, two epochs elsewhere."),
    ] = False
    batch_sizes: Annotated[
        str | None, typer.Option(metavar="64,128,…", help="With --on: each of these sizes.", show_default=False)
    ] = None
    batch_flag: Annotated[
        str | None,
        typer.Option(metavar="'--batch-size {}'", help="How the command sets its batch size.", show_default=False),
    ] = None
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", "-n", metavar="N", help="With --on: iterations to measure.", show_default=False),
    ] = None
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --on: the most for one measurement.", show_default=False)
    ] = None
    budget: Annotated[
        float | None, typer.Option(metavar="USD", help="With --on: the most for all of them.", show_default=False)
    ] = None

    @property
    def sizes(self) -> list[int]:
        return [] if self.batch_sizes is None else parse_whole_numbers("batch_sizes", self.batch_sizes, "64,128")

    @property
    def max_seconds(self) -> float | None:
        return None if self.max_time is None else parse_seconds("max_time", self.max_time)

    def require_machines(self) -> None:
        """Profiles that exist are compared as they are."""
        for field in fields(self):
            if getattr(self, field.name) not in (None, False):
                raise UsageError("is only used on machines that are named.", field=field.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingOptions:
    """The needs of a program on a machine before it starts."""

    setup_command: SetupCommand = None
    install: InstallWhat = None
    secret: Secret = None
    data: Data = None
    allow_private: AllowPrivate = False

    def terms(self, budget: float | None) -> ProbeTerms:
        return ProbeTerms(
            budget_usd=None if budget is None else require_positive("budget", budget),
            setup=self.setup_command,
            install=self.install,
            secrets=tuple(self.secret or ()),
            data=tuple(self.data or ()),
            allow_private=self.allow_private,
        )
