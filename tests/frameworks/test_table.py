"""The page that says what is seen of which framework is the one that was generated."""

from tests.frameworks.table import FACTS, PAGE, PROGRAMS
from tests.frameworks.table import profile_of as profiled


def test_the_page_has_every_program_and_every_fact() -> None:
    text = PAGE.read_text()
    for framework, programs in PROGRAMS.items():
        assert f"- {framework}: {'; '.join(programs)}" in text
    for fact in FACTS:
        assert f"| {fact} |" in text


def test_the_page_tells_the_truth_of_a_plain_loop() -> None:
    """One column is made anew each time; all of them take minutes."""
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    said = {row[1].strip(): row[2].strip() for row in rows}
    plain = profiled(PROGRAMS["PyTorch"]["a plain loop"])
    for name, fact in FACTS.items():
        if said[name] != "partly":
            assert bool(fact(plain)) is (said[name] == "yes"), name
