"""Use case: predicted against observed and paid, over all of the user's runs that have ended."""

from collections.abc import Iterator
from contextlib import suppress

from trainfare.errors import StoreError
from trainfare.runner.accuracy import Accuracy, ComparedRun, compare_run, summarise
from trainfare.runner.life import life_of
from trainfare.runner.observed import KINDS, attempts_of
from trainfare.runner.receipt import receipt_of
from trainfare.runner.status import billing_of
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history


def accuracy(*, settings: Settings | None = None) -> Accuracy:
    """Every ended run, the newest first: what was predicted for each part of it, what was observed and paid, and how
    good the predictions were. Damaged runs are left out."""
    with open_existing_history((settings or read_settings()).store) as history:
        return summarise(_compared(history))


def _compared(history: History) -> Iterator[ComparedRun]:
    for run_id in history.facts.ended_runs():
        with suppress(StoreError):
            run, facts = history.runs.get(run_id), history.facts.of(run_id)
            ended_at = facts[-1].seen_at
            attempts = attempts_of(run, facts, history.observations.of(run.id, kinds=KINDS))
            receipt = receipt_of(run, facts, billing=billing_of(run), now=ended_at)
            yield compare_run(run, life_of(facts), attempts, receipt, ended_at=ended_at)
