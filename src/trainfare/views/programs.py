"""Names of programs in a list: short, but different for different programs."""

from collections.abc import Sequence

from trainfare.model.program import Program


def distinct_names(programs: Sequence[Program]) -> list[str]:
    """The name of each program, with as many folders before it as tell it from others of the same name.

    `main.py` of two folders becomes `gpt/main.py` and `resnet/main.py`.
    """
    paths = {program.path: program.path.split("/") for program in programs}
    names: dict[str, str] = {}
    for path, parts in paths.items():
        others = [other for other in paths.values() if other != parts]
        length = next(
            (n for n in range(1, len(parts)) if not any(other[-n:] == parts[-n:] for other in others)), len(parts)
        )
        names[path] = "/".join(parts[-length:])
    return [names[program.path] for program in programs]
