"""The accuracy of every task and every baseline, on rows that were left out of the fit.

    python -m benchmarks.accuracy --fit DIR [--test DIR] [--task NAME…] [--json] [--page FILE]

DIR is a folder of public measurements, one folder per table (`trainfare calibrate --help` lists them). Without `--test`
complete models, families, GPUs or curves of the fit folder are held out; with it, everything is fitted to the first
folder and tested on the second. Errors are absolute percentages; coverage is the share of rows inside the 90% interval
and width its factor up and down.
"""

import argparse
import importlib
import json
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.page import accuracy_page, score_table

TASKS = (
    "other_vm",
    "larger_batch",
    "unseen_model",
    "unseen_gpu",
    "layers",
    "more_gpus",
    "language_models",
    "epochs_other_batch",
    "epochs_from_curve",
    "choice",
)


def judge(task: str, fit: Path, test: Path | None) -> Iterator[Judged]:
    """Run a task: a module of this package, or a package with one module per table."""
    yield from importlib.import_module(f"benchmarks.accuracy.{task}").judge(fit, test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fit", type=Path, required=True, metavar="DIR", help="the folder of measurements to fit on")
    parser.add_argument("--test", type=Path, metavar="DIR", help="a folder of the same layout to test on")
    parser.add_argument("--task", action="append", choices=TASKS, help="only this task (repeatable)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of the docs")
    options = parser.parse_args()
    for folder in (options.fit, options.test):
        if folder is not None and not folder.is_dir():
            parser.error(f"{folder} is not a folder")
    tasks: dict[str, Any] = {}
    failed: list[str] = []
    for task in options.task or TASKS:
        began = time.monotonic()
        try:
            for judged in judge(task, options.fit, options.test):
                tasks[judged.key] = judged.scores()
        except FileNotFoundError as error:
            print(f"{task}: skipped: {error}", file=sys.stderr)
        except Exception:  # noqa: BLE001 # the other tasks continue, and the exit code is 1
            failed.append(task)
            traceback.print_exc()
        print(f"{task}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if options.json:
        print(json.dumps({"tasks": tasks}, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print(score_table(tasks))
    if options.page:
        options.page.write_text(accuracy_page(tasks), encoding="utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
