"""Links in the documentation lead somewhere, and decisions keep their form."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "trainfare"
DECISIONS = ROOT / "docs" / "decisions"
EXPERIMENTS = ROOT / "docs" / "experiments"

PAGES = sorted(
    [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *ROOT.glob("docs/**/*.md")]
)
RECORDS = sorted(DECISIONS.glob("[0-9]*.md"))
REPORTS = sorted(EXPERIMENTS.glob("[0-9]*.md"))
MODULES = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

MAX_LINES = 40
SECTIONS = ["Context", "Decision", "Alternatives", "Status"]

LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE_SPAN = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
REMOTE = ("http://", "https://", "mailto:")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_lines(page: Path) -> list[str]:
    """The lines of a page without fenced and indented code, in which a bracket is not a link."""
    lines: list[str] = []
    fenced = False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            lines.append(line)
    return lines


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page; a repeated heading gets -1, -2, …"""
    counts: dict[str, int] = {}
    found = set()
    for line in text_lines(page):
        heading = HEADING.match(line)
        if heading is None:
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        repeats = counts.get(slug, 0)
        counts[slug] = repeats + 1
        found.add(f"{slug}-{repeats}" if repeats else slug)
    return found


def broken_links(page: Path) -> list[str]:
    """The relative links of a page whose file or heading does not exist."""
    broken = []
    for target in LINK.findall(CODE_SPAN.sub("", "\n".join(text_lines(page)))):
        if target.startswith(REMOTE):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_relative_link_leads_to_a_file_and_heading(page: Path) -> None:
    assert broken_links(page) == []


def test_a_missing_file_and_a_missing_heading_are_broken(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# How it works: 2x\n\n## Again\n\n## Again\n")
    page.write_text(
        "# Page\n\n[here](#page) [there](other.md#how-it-works-2x) [second](other.md#again-1) [web](https://a.b/c)\n\n"
        "`[code](none.md)`\n\n    [code](none.md)\n\n"
        "[file](none.md) [heading](other.md#none) [third](other.md#again-2)\n"
    )
    assert broken_links(page) == ["none.md", "other.md#none", "other.md#again-2"]


@pytest.mark.parametrize("record", RECORDS, ids=relative)
def test_a_decision_fits_on_one_screen(record: Path) -> None:
    assert len(record.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("record", RECORDS, ids=relative)
def test_a_decision_has_one_title_and_the_four_sections(record: Path) -> None:
    lines = text_lines(record)
    assert [line[3:] for line in lines if line.startswith("## ")] == SECTIONS
    assert [number for number, line in enumerate(lines) if line.startswith("# ")] == [0]


@pytest.mark.parametrize("record", RECORDS, ids=relative)
def test_a_decision_says_whether_it_is_still_valid(record: Path) -> None:
    status = record.read_text().partition("## Status\n\n")[2]
    assert status.startswith(("Accepted", "Superseded by ["))


def test_decision_numbers_are_unique() -> None:
    numbers = [record.name[:4] for record in RECORDS]
    assert all(re.fullmatch(r"\d{4}", number) for number in numbers)
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("folder", [DECISIONS, EXPERIMENTS], ids=relative)
def test_the_table_of_a_folder_lists_every_page_once(folder: Path) -> None:
    listed = re.findall(r"^\| \[\d{4}\]\(([^)]+)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert listed == [page.name for page in sorted(folder.glob("[0-9]*.md"))]


@pytest.mark.parametrize("record", RECORDS, ids=relative)
def test_the_table_of_decisions_has_their_titles(record: Path) -> None:
    title = record.read_text().splitlines()[0].removeprefix("# ")
    assert f"| [{record.name[:4]}]({record.name}) | {title} |" in (DECISIONS / "README.md").read_text()


@pytest.mark.parametrize("report", REPORTS, ids=relative)
def test_an_experiment_and_its_decision_link_to_each_other(report: Path) -> None:
    (record,) = DECISIONS.glob(f"{report.name[:4]}-*.md")
    assert f"](../experiments/{report.name})" in record.read_text()
    assert f"](../decisions/{record.name})" in report.read_text()


@pytest.mark.parametrize("page", [*RECORDS, *REPORTS], ids=relative)
def test_files_and_commands_named_by_a_decision_exist(page: Path) -> None:
    rooms = {path.name for folder in (ROOT, PACKAGE) for path in folder.iterdir() if path.is_dir()}
    text = page.read_text()
    paths = [path for path in re.findall(r"`([\w./-]+/[\w.-]*)`", text) if path.partition("/")[0] in rooms]
    modules = re.findall(r"python -m (benchmarks(?:\.\w+)*)", text)
    missing = [path for path in paths if not (ROOT / path).exists() and not (PACKAGE / path).exists()]
    missing += [module for module in modules if not is_runnable(module)]
    assert missing == []


def is_runnable(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def test_decisions_named_in_the_code_exist() -> None:
    named = {
        (relative(module), name)
        for module in MODULES
        for name in re.findall(r"docs/(?:decisions|experiments)/\d{4}[\w-]*(?:\.md)?", module.read_text())
    }
    assert {(module, name) for module, name in named if not any(ROOT.glob(f"{name.removesuffix('.md')}*.md"))} == set()
