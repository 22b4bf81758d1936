"""How plain the code is: the figures by which well-loved and feared code bases differ, for this one.

    python -m benchmarks.house [--against CHECKOUT]

Prints one row per figure, next to the same figures of published code bases and, with `--against`, of another checkout
of this project. The figures of the others were counted once, in the same way, on their released sources.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]

OTHER_FOLDERS = ("tests", "benchmarks", "examples")
"""Folders with code next to the package."""

OLD_WORDS = re.compile(
    r"\b(told|foretold|foreseen|reckon\w*|nobody|somebody|besides?|dear|dearer|dearest|likewise|thereof|purse|hiccup\w*|"
    r"asked[ _]wrongly|lean(?:s|ed|ing)?[ _]on|of those that|in[ _]brief|to be had|come to rest|aught)\b",
    re.IGNORECASE,
)
"""Words of the private dialect that this code once had; `tests/test_words.py` keeps them out."""

KEPT_WORDS = {
    ("views/catalog.py", "dearer"),
    ("views/prediction.py", "leans_on"),
    ("estimator/calibration/document.py", "beside"),
}
"""Old words that must stay: keys of `--json` and names in stored documents."""

FRAGMENT = re.compile(
    r"(Of|Those|Likewise|Where|Whether|Which|What|Who|When|How|As|So|Also|But|And|Or|None|Not|Nothing|Whatever|"
    r"Whichever|Than|Thereof|All that|All of)\b"
)
"""Openings of a docstring that is no sentence and needs the name before it to be understood."""

FOREIGN_FLAGS = {
    *("--batch-size", "--fork", "--resume"),
    *("--files-from", "--from0", "--times", "--perms", "--partial", "--protect-args", "--stats", "--no-human-readable"),
    *("--rsh", "--timeout", "--copy-links", "--no-links", "--query-gpu", "--format"),
    *("--requirement", "--constraint", "--editable", "--find-links", "--python", "--without-pip", "--no-input"),
    *("--disable-pip-version-check", "--progress-bar", "--no-progress", "--frozen", "--no-install-project"),
    *("--proto", "--quiet", "--kill-after"),
    *("--job-name", "--partition", "--nodes", "--ntasks-per-node", "--cpus-per-task", "--mem", "--gres", "--time"),
    *("--signal", "--output"),
    *("--account", "--chdir", "--comment", "--cpu-bind", "--exact", "--exclusive", "--jobid", "--kill-on-bad-exit"),
    *("--name", "--no-requeue", "--nodelist", "--noheader", "--ntasks", "--open-mode", "--overlap", "--parsable"),
    *("--states", "--user", "--version", "--wait"),
    *("--nnodes", "--node-rank", "--master-addr", "--master-port", "--nproc-per-node", "--no-python"),
    *("--num_machines", "--machine_rank", "--num_processes", "--main_process_ip", "--main_process_port"),
    *("--head", "--address", "--node-ip-address", "--port", "--include-dashboard", "--disable-usage-stats", "--block"),
    *("--master", "--conf", "--host", "--webui-port", "--work-dir"),
    *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "--gid", "--cap-drop", "--die-with-parent"),
    *("--new-session", "--hostname", "--tmpfs", "--proc", "--dev", "--size", "--ro-bind", "--bind", "--setenv"),
    *("--nproc", "--fsize", "--core"),
}
"""Flags of other programs: of the user's own command, of `setsid`, `rsync` and `nvidia-smi`; of `pip` and `uv`; of
`curl`, `sha256sum` and `timeout`; of Slurm's commands; of torchrun, accelerate, Ray and Spark; of
bubblewrap and prlimit."""

BROAD = {"Exception", "BaseException"}

EXEMPTION = re.compile(
    r"#\s*(?:ruff: |flake8: )?(?:noqa|type: ignore)\b"
    r"(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|\[[\w\s,-]+\])?"
)
"""A comment that exempts a line or a file from a check."""

SKIPS = {"skip", "skipif", "xfail", "importorskip"}
"""Functions and marks of pytest by which a test does not run, or may fail."""

EXEMPTION_WORDS = re.compile(
    r"noqa|type: ignore|\bexcept (?:\(.*)?(?:Base)?Exception\b|\bexcept:|\bsuppress\("
    rf"|\bpytest\.(?:mark\.)?(?:{'|'.join(SKIPS)})\b"
)
"""A file without any of these words has no exemption, and need not be parsed."""

EMPTY_REASON = re.compile(r"(?:as|see) (?:above|below|before)|\W*|.{1,6}", re.IGNORECASE)
"""A reason that a reader who sees only this line does not understand."""

PUBLISHED: Mapping[str, Sequence[str]] = {
    "": ("httpx", "gpuhunt", "optuna", "dstack", "vizier", "skypilot"),
    "file length, median / p95": ("300/1277", "196/494", "136/637", "78/720", "156/820", "204/1683"),
    "function length, median / p95 / longest": (
        "6/39/133",
        "8/51/124",
        "9/50/236",
        "9/54/229",
        "8/46/191",
        "11/80/1136",
    ),
    "annotated functions": ("100%", "96%", "99%", "93%", "87%", "88%"),
    "modules in the largest import cycle": ("0", "0", "52", "5", "0", "276"),
    "broad or bare excepts": ("18%", "5%", "8%", "16%", "14%", "38%"),
    "test lines per code line": ("1.16", "0.41", "0.95", "0.86", "0.72", "0.98"),
    "mocks per 1,000 test lines": ("1.5", "21", "9.4", "21", "0.1", "60"),
    "files in the largest flat folder": ("17", "18", "20", "", "19", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One source file: its dotted name, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def code_lines(self) -> int:
        """Lines that are neither blank nor a comment."""
        return sum(1 for line in self.text.splitlines() if line.strip() and not line.strip().startswith("#"))


def read_modules(folder: Path, *, mentioning: re.Pattern[str] | None = None) -> list[Module]:
    """Every Python file below `folder`, or those with a match of `mentioning`."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if mentioning is not None and not mentioning.search(text):
            continue
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name=name, path=path, text=text, tree=ast.parse(text)))
    return found


def figures(root: Path) -> dict[str, str]:
    """The figures of the checkout at `root`, by the names that `PUBLISHED` has."""
    source, tests = read_modules(root / "src" / "trainfare"), read_modules(root / "tests")
    lengths = sorted(
        node.end_lineno - node.lineno + 1 for module in source for node in functions(module) if node.end_lineno
    )
    files = sorted(len(module.text.splitlines()) for module in source)
    annotated = [is_annotated(node) for module in source for node in functions(module)]
    handlers = [
        is_broad(node) for module in source for node in ast.walk(module.tree) if isinstance(node, ast.ExceptHandler)
    ]
    test_lines = sum(module.code_lines for module in tests)
    mocks = sum(len(re.findall(r"\bmock\b|\bMagicMock\b|@patch|monkeypatch\.setattr", module.text)) for module in tests)
    folders = Counter(module.path.parent for module in source)
    return {
        "code lines": f"{sum(module.code_lines for module in source):,}",
        "file length, median / p95": f"{median(files):.0f}/{percentile(files, 95)}",
        "function length, median / p95 / longest": f"{median(lengths):.0f}/{percentile(lengths, 95)}/{lengths[-1]}",
        "annotated functions": f"{100 * sum(annotated) / len(annotated):.0f}%",
        "modules in the largest import cycle": str(largest_cycle(source)),
        "broad or bare excepts": f"{100 * sum(handlers) / len(handlers):.0f}%",
        "test lines per code line": f"{test_lines / sum(module.code_lines for module in source):.2f}",
        "mocks per 1,000 test lines": f"{1000 * mocks / test_lines:.1f}",
        "files in the largest flat folder": str(max(folders.values())),
        "imports inside functions": str(sum(imports_in_functions(module) for module in source)),
        "flags named outside cli/": str(
            sum(len(flags_named(module)) for module in source if ".cli" not in module.name)
        ),
        "docstring fragments": str(sum(len(list(fragments(module))) for module in source)),
        "old words": str(sum(len(list(old_words(module))) for module in source)),
        "exemptions without a reason": str(sum(len(list(unexplained(module))) for module in (*source, *tests))),
        "class names used twice": str(len(repeated_classes(source))),
    }


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def percentile(ordered: Sequence[int], percent: int) -> int:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def is_annotated(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = [
        a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")
    ]
    return node.returns is not None and all(argument.annotation is not None for argument in arguments)


def is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in caught)


def imports_in_functions(module: Module) -> int:
    """Imports that run when a function is called."""
    inside = {
        id(node)
        for function in functions(module)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return len(inside)


def flags_named(module: Module) -> list[str]:
    """Lines of strings, other than docstrings, that name a flag of ours such as `--epochs`."""
    docstrings = {id(statement.value) for statement in statements(module) if isinstance(statement, ast.Expr)}
    return [
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        for line in node.value.splitlines()
        if any(flag not in FOREIGN_FLAGS for flag in re.findall(r"(?<![\w-])(?<!var\()--[a-z][\w-]*", line))
    ]


def statements(module: Module) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.stmt))


def fragments(module: Module) -> Iterator[tuple[int, str]]:
    """Docstrings of classes, functions and fields that open as a fragment, by line."""
    for node in ast.walk(module.tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
                and FRAGMENT.match(statement.value.value)
                and not (node is module.tree and statement is body[0])
            ):
                yield statement.lineno, statement.value.value.splitlines()[0]


def old_words(module: Module) -> Iterator[tuple[int, str]]:
    """Lines with a word of the old dialect, by number."""
    for number, line in enumerate(module.text.splitlines(), 1):
        found = OLD_WORDS.search(line)
        if found and not any(str(module.path).endswith(file) and found[1] == word for file, word in KEPT_WORDS):
            yield number, line.strip()


def unexplained(module: Module) -> Iterator[tuple[int, str]]:
    """Lines that exempt code from a check, skip a test or catch every error, and do not say why, by number.

    A check is left out with `# noqa: CODE # reason` or `# type: ignore[code] # reason`, every error is caught with a
    comment on the line of `except` or `suppress`, and a test is skipped with a reason that pytest prints.
    """
    lines, comments = module.text.splitlines(), comments_of(module)
    found = {number for number, comment in comments.items() if EXEMPTION.search(comment) and not has_reason(comment)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            catches_all = is_broad(node)
        elif isinstance(node, ast.Call):
            catches_all = suppresses_all(node)
        else:
            continue
        if catches_all and not has_reason(comments.get(node.lineno, "")):
            found.add(node.lineno)
    found |= {node.lineno for node in skips_silently(module)}
    return ((number, lines[number - 1].strip()) for number in sorted(found))


def comments_of(module: Module) -> dict[int, str]:
    """The comments of a module, by line."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def has_reason(comment: str) -> bool:
    """Whether a comment, after the exemptions in it, has a reason of its own: `# noqa: CODE # reason`."""
    left = EXEMPTION.sub("", comment).strip()
    return left.startswith("#") and not EMPTY_REASON.fullmatch(left.lstrip("# "))


def suppresses_all(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "suppress" and any(
        isinstance(kind, ast.Name) and kind.id in BROAD for kind in call.args
    )


def skips_silently(module: Module) -> Iterator[ast.expr]:
    """Calls and marks of pytest that skip a test, or let it fail, without a reason; a reason may be a name."""
    calls = {id(node.func): node for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Attribute) or node.attr not in SKIPS:
            continue
        base = ast.unparse(node.value)
        if base not in ("pytest", "pytest.mark"):
            continue
        call = calls.get(id(node))
        reasons = [keyword.value for keyword in call.keywords if keyword.arg == "reason"] if call else []
        if call and (node.attr == "skip" or (base == "pytest" and node.attr == "xfail")):
            reasons += call.args
        if all(isinstance(reason, ast.Constant) and not str(reason.value).strip() for reason in reasons):
            yield node


def repeated_classes(modules: Sequence[Module]) -> list[str]:
    names = Counter(node.name for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def largest_cycle(modules: Sequence[Module]) -> int:
    """The number of modules in the largest set that all import one another; imports for types alone do not count."""
    names = {module.name for module in modules}
    graph = {module.name: {name for name in imports(module) if name in names} - {module.name} for module in modules}
    return max((len(group) for group in connected(graph) if len(group) > 1), default=0)


def imports(module: Module) -> Iterator[str]:
    for node in at_import_time(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_import_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when the module is imported: none inside functions, none under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from at_import_time(node)


def connected(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Strongly connected components: the modules that reach one another."""
    reach = {start: reachable(graph, start) for start in graph}
    return [{b for b in reach[a] if a in reach[b]} for a in graph]


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """The modules that `start` imports, directly or through others."""
    found, left = set[str](), [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def print_table(ours: Mapping[str, str], before: Mapping[str, str] | None) -> None:
    columns = ["ours", *(["before"] if before else []), *PUBLISHED[""]]
    print("| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for name, value in ours.items():
        published = PUBLISHED.get(name, ("",) * len(PUBLISHED[""]))
        row = [value, *([before.get(name, "")] if before else []), *published]
        print(f"| {name} | " + " | ".join(row) + " |")


def listed(figure: str) -> Iterator[str]:
    """The places in this checkout that one figure counts."""
    modules = read_modules(ROOT / "src" / "trainfare")
    if figure == "reasons":
        modules += [module for folder in OTHER_FOLDERS for module in read_modules(ROOT / folder)]
    if figure == "classes":
        yield from repeated_classes(modules)
    for module in modules:
        where = module.path.relative_to(ROOT)
        if figure == "fragments":
            yield from (f"{where}:{line}: {text}" for line, text in fragments(module))
        elif figure == "words":
            yield from (f"{where}:{number}: {line}" for number, line in old_words(module))
        elif figure == "flags" and not module.name.startswith("trainfare.cli"):
            yield from (f"{where}: {line.strip()}" for line in flags_named(module))
        elif figure == "reasons":
            yield from (f"{where}:{number}: {line}" for number, line in unexplained(module))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, help="another checkout of this project, to compare with")
    parser.add_argument(
        "--list", choices=["fragments", "words", "flags", "classes", "reasons"], help="list the places of one figure"
    )
    given = parser.parse_args()
    if given.list:
        print("\n".join(listed(given.list)))
        return
    print_table(figures(ROOT), figures(given.against) if given.against else None)


if __name__ == "__main__":
    main()
