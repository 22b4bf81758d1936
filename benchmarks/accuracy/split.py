"""Split a folder of tables by complete programs into two: one to fit on, and one to test on.

    python -m benchmarks.accuracy.split --data DIR --out DIR [--seed N] [--share 0.3]
    python -m benchmarks.accuracy --fit OUT/fit --test OUT/test

It shows the accuracy on programs that were not seen while models were designed: a program is in one part with all its
rows, in all files of its table. By table a program is

    cnn_on_ec2, seven_models, vision_models, torchvision_models, published_scaling    a model
    data_parallel_t4                                                                  a folder
    epochs_to_target                                                                  a benchmark
    rented_gpus                                                                       a GPU, in all systems
    single_layers                                                                     a layer, on all GPUs

Names are sorted by a hash of seed and name, and the first `share` of them are tested: at least one, and never all.
There are many layers, and each is assigned independently. A model has the same hash in every table, so a model in two
tables is mostly on one side. Tables without programs (prices, traces of jobs, availability) are linked into both.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from trainfare.measurements.gpu_names import find_gpu_name

Row = Mapping[str, str]
PARTS = ("fit", "test")
FOLDERS = "data_parallel_t4"
LAYERS = "single_layers_six_gpus"
NAMES: Mapping[str, Callable[[Row], str]] = {
    "cnn_on_ec2": lambda row: row["model"],
    "seven_models_k80_p100_v100": lambda row: row["model"],
    "vision_models_rtx3090": lambda row: row["model"],
    "torchvision_models_six_gpus": lambda row: row["model"],
    "published_scaling_1_to_16": lambda row: row["model"],
    "epochs_to_target": lambda row: row["bench"],
    "rented_gpus": lambda row: find_gpu_name(row["system"]),
}
"""The program of a row, by the folder of its table."""
TABLES = (".csv", ".csv.gz", ".jsonl.gz")


def place(seed: int, name: str) -> float:
    """A number from 0 to 1 that is the same on every machine."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def held_out(names: Iterable[str], *, seed: int, share: float) -> set[str]:
    """The names that are tested; none if there would be nothing to fit on."""
    ordered = sorted(set(names), key=lambda name: (place(seed, name), name))
    return set(ordered[: min(max(1, round(share * len(ordered))), len(ordered) - 1)])


def split(data: Path, out: Path, *, seed: int, share: float) -> dict[str, set[str]]:
    """Write `out`/fit and `out`/test, and return the tested programs by table. Empty parts are not written."""
    for part in PARTS:
        (out / part).mkdir(parents=True)
    found = {}
    for table in sorted(data.iterdir()):
        if table.name in NAMES:
            found[table.name] = _by_rows(table, out, NAMES[table.name], seed=seed, share=share)
        elif table.name == FOLDERS:
            found[table.name] = _by_folders(table, out, seed=seed, share=share)
        elif table.name == LAYERS:
            _by_layer(table, out, seed=seed, share=share)
        else:
            _link(table, out)
    return found


def _by_rows(table: Path, out: Path, name: Callable[[Row], str], *, seed: int, share: float) -> set[str]:
    files = {path: rows_of(path) for path in sorted(table.iterdir()) if path.name.endswith(TABLES)}
    chosen = held_out((name(row) for rows in files.values() for row in rows), seed=seed, share=share)
    for path, rows in files.items():
        _distribute(path, out, rows, lambda row: name(row) in chosen)
    for path in sorted(set(table.iterdir()) - set(files)):
        _link(path, out, table.name)
    return chosen


def _by_folders(table: Path, out: Path, *, seed: int, share: float) -> set[str]:
    programs = sorted(path for path in table.iterdir() if path.is_dir())
    chosen = held_out((path.name for path in programs), seed=seed, share=share)
    for path in programs:
        _link_into(path, out / PARTS[path.name in chosen] / table.name)
    return chosen


def _by_layer(table: Path, out: Path, *, seed: int, share: float) -> None:
    for path in sorted(table.iterdir()):
        _distribute(path, out, rows_of(path), lambda row: place(seed, layer(row)) < share)


def layer(row: Row) -> str:
    """The identity of a layer, without its times and its GPU."""
    return " ".join(f"{key}={row[key]}" for key in sorted(row) if key != "gpu" and not key.startswith("timeUsed"))


def _link(path: Path, out: Path, *under: str) -> None:
    for part in PARTS:
        _link_into(path, out.joinpath(part, *under))


def _link_into(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / path.name).symlink_to(path.resolve())


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table, or of JSON lines, whose text is in `line`."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".jsonl" in path.suffixes:
        return [{"model": json.loads(line)["model"], "line": line} for line in text.decode().splitlines()]
    return list(csv.DictReader(io.StringIO(text.decode(), newline="")))


def _distribute(path: Path, out: Path, rows: Sequence[dict[str, str]], is_tested: Callable[[Row], bool]) -> None:
    sides: tuple[list[dict[str, str]], ...] = ([], [])
    for row in rows:
        sides[is_tested(row)].append(row)
    for part, own in zip(PARTS, sides, strict=True):
        if own:
            to = out / part / path.parent.name / path.name
            to.parent.mkdir(parents=True, exist_ok=True)
            text = _as_text(path, own).encode()
            # Without the hour in it the same seed writes the same bytes.
            to.write_bytes(gzip.compress(text, compresslevel=4, mtime=0) if path.suffix == ".gz" else text)


def _as_text(path: Path, rows: Sequence[dict[str, str]]) -> str:
    if ".jsonl" in path.suffixes:
        return "".join(f"{row['line']}\n" for row in rows)
    written = io.StringIO(newline="")
    table = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return written.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the new fit/ and test/")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--share", type=float, default=0.3, help="share of the programs of each table that are tested")
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"{options.data} is not a folder")
    if not 0 < options.share < 1:
        parser.error(f"--share must lie between 0 and 1, got {options.share}")
    for part in PARTS:
        if (options.out / part).exists():
            parser.error(f"{options.out / part} already exists: remove it, or choose another folder")
    for table, names in split(options.data, options.out, seed=options.seed, share=options.share).items():
        print(f"{table}: {', '.join(sorted(names)) or 'nothing to test'}")


if __name__ == "__main__":
    main()
