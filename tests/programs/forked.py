"""Imports modules once and runs programs in forks of this process, one after another: their imports would take longer
than they do.

    python forked.py torch,lightning < runs

Each line of the input is a JSON list: the words of a program, and its additional environment. A line with the exit code
follows the output of each program.
"""

import importlib
import json
import os
import runpy
import sys


def main() -> None:
    for name in sys.argv[1].split(","):
        importlib.import_module(name)
    for line in sys.stdin.readlines():
        words, environment = json.loads(line)
        if not (child := os.fork()):
            os.environ.update(environment)
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
            return
        print(f"exit code {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)


if __name__ == "__main__":
    main()
