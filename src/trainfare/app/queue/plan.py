"""Plans the stored queue: which job runs where now, which waits and why, and when each ends. Nothing is rented."""

from trainfare.app.queue.policy_errors import translate_policy_errors
from trainfare.app.queue.question import QueueQuestion
from trainfare.app.queue.table import queue_table
from trainfare.scheduler.policies.registry import load_policy
from trainfare.scheduler.queue_plan import QueuePlan, plan_table
from trainfare.settings import Settings


def plan_queue(question: QueueQuestion | None = None, *, settings: Settings | None = None) -> QueuePlan:
    """The plan for the stored queue; nothing of it is stored."""
    question = question or QueueQuestion()
    policy = load_policy(question.policy)
    table = queue_table(question, settings=settings)
    nodes = question.nodes or max(1, len(table.trainings))
    with translate_policy_errors():
        return plan_table(table, policy, name=question.policy, nodes=nodes)
