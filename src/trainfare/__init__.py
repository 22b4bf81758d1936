"""Which machine should I train this on, how long will it take, what will it cost?

>>> import trainfare
>>> profile = trainfare.profile(["python", "train.py"])                       # doctest: +SKIP
>>> found = trainfare.recommend([profile.id], epochs=90)                      # doctest: +SKIP
>>> found.plan.chosen.seconds, found.plan.chosen.usd, found.plan.reasons      # doctest: +SKIP

The use cases of `trainfare.app` and the nouns of `trainfare.model`, loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    name: home
    for home, names in {
        "trainfare.app.profiling.profile": "profile",
        "trainfare.app.profiling.callbacks": "KerasCallback LightningCallback TransformersCallback",
        "trainfare.app.profiling.series": "profile_series",
        "trainfare.app.profiling.import_run": "import_run",
        "trainfare.app.profiling.profiles": "list_profiles show_profile show_log remove_profiles import_profile",
        "trainfare.app.recommending.recommend": "recommend Recommendation",
        "trainfare.app.recommending.estimate": "estimate Estimation",
        "trainfare.app.recommending.predict": "predict PredictionReport",
        "trainfare.app.catalog.calibrate": "calibrate Calibrated list_calibrations use_calibration",
        "trainfare.app.recommending.compare": "compare Comparison",
        "trainfare.app.recommending.cluster": "recommend_cluster ClusterAdvice",
        "trainfare.app.recommending.plans": "list_plans show_plan",
        "trainfare.app.catalog.commitments": "list_commitments",
        "trainfare.app.recommending.epochs": "EpochsReport epochs expected_epochs",
        "trainfare.papers": "reproduce",
        "trainfare.app.catalog.offers": "list_offers show_machine list_gpus show_gpu import_prices",
        "trainfare.settings": "Settings read_settings",
        "trainfare.errors": "TrainfareError",
        "trainfare.model.program": "Program",
        "trainfare.model.profile": "Operation Profile",
        "trainfare.model.machine": "Gpu Host VmType",
        "trainfare.model.offer": "Offer Candidate Commitment",
        "trainfare.model.cluster": "Cluster",
        "trainfare.model.interval": "Interval",
        "trainfare.model.estimate": "Estimate",
        "trainfare.model.bill": "Bill Overheads",
        "trainfare.model.epochs": "EpochsAnswer",
        "trainfare.model.plan": "Goal Plan Target",
        "trainfare.model.scope": "Quota Scope",
        "trainfare.model.split": "EarlyTarget SplitPlan",
        "trainfare.model.spot": "SpotRisk",
        "trainfare.model.probing": "Probe ProbePlan",
        "trainfare.app.recommending.probe": "Probing ProbingPlan plan_probes run_probes",
        "trainfare.app.queue.simulate": "simulate_queue compare_policies bound_queue generate_instance "
        "SimulationReport PolicyComparison BoundReport",
        "trainfare.app.queue.trace": "TraceImport import_trace",
        "trainfare.app.queue.listing": "list_queue withdraw_jobs",
        "trainfare.app.queue.submit": "submit_job",
        "trainfare.app.queue.plan": "plan_queue QueuePlan",
        "trainfare.model.queue": "Instance Job NodeType",
        "trainfare.model.submission": "Submission",
        "trainfare.model.schedule": "Schedule ScheduleOutcome",
        "trainfare.model.prediction": "Prediction",
        "trainfare.model.document": "to_json from_json",
    }.items()
    for name in names.split()
}

__all__ = [
    "Bill",
    "BoundReport",
    "Calibrated",
    "Candidate",
    "Cluster",
    "ClusterAdvice",
    "Commitment",
    "Comparison",
    "EarlyTarget",
    "EpochsAnswer",
    "EpochsReport",
    "Estimate",
    "Estimation",
    "Goal",
    "Gpu",
    "Host",
    "Instance",
    "Interval",
    "Job",
    "KerasCallback",
    "LightningCallback",
    "NodeType",
    "Offer",
    "Operation",
    "Overheads",
    "Plan",
    "PolicyComparison",
    "Prediction",
    "PredictionReport",
    "Probe",
    "ProbePlan",
    "Probing",
    "ProbingPlan",
    "Profile",
    "Program",
    "QueuePlan",
    "Quota",
    "Recommendation",
    "Schedule",
    "ScheduleOutcome",
    "Scope",
    "Settings",
    "SimulationReport",
    "SplitPlan",
    "SpotRisk",
    "Submission",
    "Target",
    "TraceImport",
    "TrainfareError",
    "TransformersCallback",
    "VmType",
    "__version__",
    "bound_queue",
    "calibrate",
    "compare",
    "compare_policies",
    "epochs",
    "estimate",
    "expected_epochs",
    "from_json",
    "generate_instance",
    "import_prices",
    "import_profile",
    "import_run",
    "import_trace",
    "list_calibrations",
    "list_commitments",
    "list_gpus",
    "list_offers",
    "list_plans",
    "list_profiles",
    "list_queue",
    "plan_probes",
    "plan_queue",
    "predict",
    "profile",
    "profile_series",
    "read_settings",
    "recommend",
    "recommend_cluster",
    "remove_profiles",
    "reproduce",
    "run_probes",
    "show_gpu",
    "show_log",
    "show_machine",
    "show_plan",
    "show_profile",
    "simulate_queue",
    "submit_job",
    "to_json",
    "use_calibration",
    "withdraw_jobs",
]

if TYPE_CHECKING:
    from trainfare.app.catalog.calibrate import Calibrated, calibrate, list_calibrations, use_calibration
    from trainfare.app.catalog.commitments import list_commitments
    from trainfare.app.catalog.offers import import_prices, list_gpus, list_offers, show_gpu, show_machine
    from trainfare.app.profiling.callbacks import KerasCallback, LightningCallback, TransformersCallback
    from trainfare.app.profiling.import_run import import_run
    from trainfare.app.profiling.profile import profile
    from trainfare.app.profiling.profiles import import_profile, list_profiles, remove_profiles, show_log, show_profile
    from trainfare.app.profiling.series import profile_series
    from trainfare.app.queue.listing import list_queue, withdraw_jobs
    from trainfare.app.queue.plan import QueuePlan, plan_queue
    from trainfare.app.queue.simulate import (
        BoundReport,
        PolicyComparison,
        SimulationReport,
        bound_queue,
        compare_policies,
        generate_instance,
        simulate_queue,
    )
    from trainfare.app.queue.submit import submit_job
    from trainfare.app.queue.trace import TraceImport, import_trace
    from trainfare.app.recommending.cluster import ClusterAdvice, recommend_cluster
    from trainfare.app.recommending.compare import Comparison, compare
    from trainfare.app.recommending.epochs import EpochsReport, epochs, expected_epochs
    from trainfare.app.recommending.estimate import Estimation, estimate
    from trainfare.app.recommending.plans import list_plans, show_plan
    from trainfare.app.recommending.predict import PredictionReport, predict
    from trainfare.app.recommending.probe import Probing, ProbingPlan, plan_probes, run_probes
    from trainfare.app.recommending.recommend import Recommendation, recommend
    from trainfare.errors import TrainfareError
    from trainfare.model.bill import Bill, Overheads
    from trainfare.model.cluster import Cluster
    from trainfare.model.document import from_json, to_json
    from trainfare.model.epochs import EpochsAnswer
    from trainfare.model.estimate import Estimate
    from trainfare.model.interval import Interval
    from trainfare.model.machine import Gpu, Host, VmType
    from trainfare.model.offer import Candidate, Commitment, Offer
    from trainfare.model.plan import Goal, Plan, Target
    from trainfare.model.prediction import Prediction
    from trainfare.model.probing import Probe, ProbePlan
    from trainfare.model.profile import Operation, Profile
    from trainfare.model.program import Program
    from trainfare.model.queue import Instance, Job, NodeType
    from trainfare.model.schedule import Schedule, ScheduleOutcome
    from trainfare.model.scope import Quota, Scope
    from trainfare.model.split import EarlyTarget, SplitPlan
    from trainfare.model.spot import SpotRisk
    from trainfare.model.submission import Submission
    from trainfare.papers import reproduce
    from trainfare.settings import Settings, read_settings


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'trainfare' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
