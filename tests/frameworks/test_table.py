"""docs/frameworks.md is the generated page and agrees with a fresh profile."""

from tests.frameworks.table import FACTS, PAGE, PROGRAMS, profile_program


def test_page_has_every_program_and_every_fact() -> None:
    text = PAGE.read_text()
    for framework, programs in PROGRAMS.items():
        assert f"- {framework}: {'; '.join(programs)}" in text
    for fact in FACTS:
        assert f"| {fact} |" in text


def test_page_agrees_with_a_profile_of_a_plain_loop() -> None:
    """Only one program is profiled again: all of them take minutes."""
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    verdicts = {row[1].strip(): row[2].strip() for row in rows}
    plain = profile_program(PROGRAMS["PyTorch"]["a plain loop"])
    for name, fact in FACTS.items():
        if verdicts[name] != "partly":
            assert bool(fact(plain)) is (verdicts[name] == "yes"), name
