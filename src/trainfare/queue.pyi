"""The queue of a team: submit jobs, plan who runs where and when, simulate and compare policies."""

from trainfare.app.queue.figures import draw_comparison as draw_comparison
from trainfare.app.queue.figures import draw_queue_plan as draw_plan
from trainfare.app.queue.figures import draw_simulation as draw_simulation
from trainfare.app.queue.listing import cancel_jobs as cancel
from trainfare.app.queue.listing import list_queue as jobs
from trainfare.app.queue.plan import plan_queue as plan
from trainfare.app.queue.simulate import bound_queue as bound
from trainfare.app.queue.simulate import compare_policies as compare_policies
from trainfare.app.queue.simulate import generate_instance as generate
from trainfare.app.queue.simulate import simulate_queue as simulate
from trainfare.app.queue.submit import submit_job as submit
from trainfare.app.queue.trace import import_trace as import_trace

__all__ = [
    "bound",
    "cancel",
    "compare_policies",
    "draw_comparison",
    "draw_plan",
    "draw_simulation",
    "generate",
    "import_trace",
    "jobs",
    "plan",
    "simulate",
    "submit",
]
