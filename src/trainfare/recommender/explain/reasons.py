"""The reasons of a Plan in plain sentences with numbers: why this one, how sure, what would change it, what is assumed.

Each topic has its file; here is their order.
"""

from trainfare.model.reason import Topic
from trainfare.recommender.explain.assumptions import assumed
from trainfare.recommender.explain.case import Case
from trainfare.recommender.explain.certainty import basis_words, sure
from trainfare.recommender.explain.changes import changes
from trainfare.recommender.explain.charges import charged
from trainfare.recommender.explain.why import LIMIT_WORDS, why
from trainfare.recommender.words import machine_words

__all__ = ["LIMIT_WORDS", "Case", "Topic", "basis_words", "charged", "grouped", "machine_words", "reasons"]


def grouped(case: Case) -> dict[Topic, tuple[str, ...]]:
    """The sentences by what they are about, in the order in which a person asks; a topic may have none."""
    return {
        "why": tuple(why(case)),
        "certainty": tuple(sure(case)),
        "changes": tuple(changes(case)),
        "charges": tuple(charged(case.chosen, case.profile, case.interruptions, case.today)),
        "assumptions": tuple(assumed(case)),
    }


def reasons(case: Case) -> tuple[str, ...]:
    """All of them, in that order."""
    return tuple(sentence for sentences in grouped(case).values() for sentence in sentences)
