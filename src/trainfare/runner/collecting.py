"""How far the results of a run have come on their way home, and what is said when they do not arrive."""

from dataclasses import dataclass

from trainfare.units import format_duration, format_size, plural

_NAMED = 3
"""The number of missing files that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The results of an attempt that are at home, and those that are not."""

    attempt: int
    files: int
    bytes: int
    whole_files: int = 0
    """Files that are at home and verified."""
    arrived_bytes: int = 0
    """Their size, and that of pieces of others."""
    missing: tuple[str, ...] = ()
    """Some of the files that are not whole yet."""
    received_bytes: int = 0
    """Bytes that came over the network, for whichever process."""
    seconds: float = 0.0
    """The time that they took."""

    @property
    def text(self) -> str:
        """`3 of 10 files, 1.2 GB of 5 GB`."""
        sizes = f"{format_size(self.arrived_bytes)} of {format_size(self.bytes)}"
        return f"{self.whole_files} of {plural(self.files, 'file')}, {sizes}"


def stuck_sentence(run_id: str, arrivals: Arrivals | None, *, stuck: float, left: float) -> str:
    """A warning about results that do not arrive, while they still can be fetched elsewhere."""
    return (
        f"Nothing of the results has arrived for {format_duration(stuck)}. {_missing(arrivals)} "
        f"If that lasts, the machine is ended in {format_duration(left)}. "
        f"To bring them to another folder before: trainfare results {run_id} FOLDER"
    )


def lost_sentence(run_id: str, arrivals: Arrivals | None, folder: str, *, stuck: float) -> str:
    """A sentence about results that are given up, and where the rest is."""
    words = [
        f"The results were given up, because nothing of them arrived for {format_duration(stuck)}.",
        _missing(arrivals),
    ]
    if arrivals is not None and arrivals.whole_files:
        there = f"{plural(arrivals.whole_files, 'file')} of {arrivals.files} arrived and can be had by"
        words.append(f"{there} trainfare results {run_id} FOLDER; they are in {folder}.")
    return " ".join(words)


def _missing(arrivals: Arrivals | None) -> str:
    if arrivals is None:
        return "Which files there are is not known."
    missing = arrivals.files - arrivals.whole_files
    names = ", ".join(arrivals.missing[:_NAMED]) + (", …" if missing > _NAMED else "")
    size = format_size(max(0, arrivals.bytes - arrivals.arrived_bytes))
    return f"Missing: {plural(missing, 'file')} ({names}), {size}."
