"""Builds the table of the stored queue: workloads from the store, machines from the catalog, and their estimates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial

from trainfare.app.catalog.starts import ObservedStarts, observed_starts, program_key, terms_with_starts
from trainfare.app.queue.machines import named_offers, suitable_offers
from trainfare.app.queue.question import QueueQuestion
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.workload import (
    Workload,
    build_workload,
    gc_paused,
    interruptions_on,
    select_profiles,
)
from trainfare.app.stated import StatedLength
from trainfare.catalog.terms import find_terms
from trainfare.errors import Remedy, TrainfareError, UsageError
from trainfare.estimator.cost.bill import expected_boot, expected_setup
from trainfare.estimator.cost.checkpoints import checkpoints_of, daly_interval
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.queue import Delays, Instance
from trainfare.model.reason import Reason
from trainfare.model.submission import Submission
from trainfare.recommender.candidates import uses_several_gpus
from trainfare.scheduler.job_table import (
    EstimateCandidates,
    EstimateTable,
    MachineOption,
    QueueTable,
    SubmittedTraining,
    UnplannedJob,
    queue_instance,
    table_remarks,
)
from trainfare.scheduler.limits import MAX_LATE_USD_PER_SECOND
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history
from trainfare.units import SECONDS_PER_HOUR
from trainfare.views.queue import unplanned_sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrainingWorkload:
    """A training of the queue, and the workload that estimates it."""

    training: SubmittedTraining
    workload: Workload

    @property
    def profile(self) -> Profile:
        return self.workload.leading.profiles[0]


@gc_paused()
def queue_table(question: QueueQuestion | None = None, *, settings: Settings | None = None) -> QueueTable:
    """The table of the stored queue on the named machines, or on a few that suit the jobs.

    To the scheduler every job is submitted now, whenever it was submitted: nothing runs before.
    """
    question, settings = question or QueueQuestion(), settings or read_settings()
    now = datetime.now(UTC)
    quotas = tuple(dict(question.quotas).items())
    with open_existing_history(settings.store) as history:
        workloads, unplanned = _read_workloads(history, settings)
        starts = observed_starts(history)
        damaged = history.damaged
    estimates = EstimateTable(
        [each.training for each in workloads],
        [_machine_option(offer) for offer in _offers(workloads, question, now)],
        dict(quotas),
        _estimator(workloads),
    )
    trainings, types = estimates.plannable(), estimates.used_types()
    origin_at = min((training.submission.submitted_at for training in trainings), default=now)
    offers = {name: estimates.machines[name].offer for name in types}
    ids = {training.submission.id for training in trainings}
    planned = [workload for workload in workloads if workload.training.submission.id in ids]
    return QueueTable(
        instance=queue_instance(estimates, quotas, now=now, origin_at=origin_at) if trainings else None,
        now=now,
        origin_at=origin_at,
        trainings=tuple(trainings),
        estimates=estimates.estimates,
        offers=offers,
        delays=_delays(planned, offers.values(), settings, starts),
        unplanned=(*unplanned, *estimates.unplanned()),
        damaged=damaged,
        remarks=tuple(table_remarks(estimates, machines_named=bool(question.machines))),
    )


def instance_from_now(table: QueueTable) -> Instance:
    """The queue to schedule on its own: second 0 is now, and every job is submitted."""
    if table.instance is None:
        if table.unplanned:
            sentences = "; ".join(unplanned_sentence(each) for each in table.unplanned)
            raise UsageError(f"no job of the stored queue can be planned: {sentences}.")
        raise UsageError(
            "the stored queue is empty: submit a training first, or name the folder of a queue.",
            remedies=[Remedy(command="queue submit"), Remedy({"instance": "DIR"})],
        )
    return table.instance.relative_to((table.now - table.origin_at).total_seconds())


def _read_workloads(history: History, settings: Settings) -> tuple[list[_TrainingWorkload], list[UnplannedJob]]:
    """The workload of each submission; submissions of the same profiles share a predictor."""
    shared: dict[tuple[object, ...], Workload] = {}
    workloads, unplanned = [], []
    for submission in history.submissions.all():
        try:
            key = (submission.profile_ids, replace(_stated_length(submission), epochs=None))
            _require_lateness_cost(submission)
            if key not in shared:
                shared[key] = _build_workload(history, submission, settings)
            workloads.append(_training_workload(submission, shared[key]))
        except TrainfareError as error:
            unplanned.append(UnplannedJob(submission=submission, reason=_error_reason(error)))
    return workloads, unplanned


def _error_reason(error: TrainfareError) -> Reason:
    """The error as a reason, with the arguments of its first remedy."""
    remedy = next((remedy for remedy in error.remedies if remedy.command is None), None)
    arguments = {} if remedy is None else {name: str(value) for name, value in remedy.arguments.items()}
    return Reason(topic="why", code="error", values={"message": error.message.rstrip(".")}, arguments=arguments)


def _require_lateness_cost(submission: Submission) -> None:
    if submission.late_usd_per_hour > MAX_LATE_USD_PER_SECOND * SECONDS_PER_HOUR:
        raise UsageError(
            f"an hour of lateness costs ${submission.late_usd_per_hour:g}, which is more than supported: withdraw the "
            "job, and submit it with a lower cost.",
            field="late_usd_per_hour",
        )


def _build_workload(history: History, submission: Submission, settings: Settings) -> Workload:
    stated = _stated_length(submission)
    profiles = stated.apply(select_profiles(history, submission.profile_ids))
    return build_workload(
        profiles,
        decide=partial(decide_epochs, stated, leading=profiles[0]),
        iterations_per_epoch=submission.iterations_per_epoch,
        overheads=Overheads(boot_seconds=0.0),
        settings=settings,
    )


def _stated_length(submission: Submission) -> StatedLength:
    return StatedLength(**{each.name: getattr(submission, each.name) for each in fields(StatedLength)})


def _training_workload(submission: Submission, shared: Workload) -> _TrainingWorkload:
    """The workload with the length of this submission."""
    decide = partial(decide_epochs, _stated_length(submission), leading=shared.leading.profiles[0])
    groups = (replace(each, length=decide(each.profiles[0], each.iterations_per_epoch)) for each in shared.groups)
    workload = replace(shared, groups=tuple(groups))
    profile, length = workload.leading.profiles[0], workload.leading.length
    max_gpus = submission.most_gpus
    if max_gpus is None and not uses_several_gpus(workload.predictor.profiles):
        max_gpus = 1
    training = SubmittedTraining(
        submission=submission,
        profile_id=profile.id,
        batch_size=profile.effective_batch_size,
        epochs=length.epochs,
        max_gpus=max_gpus,
        epochs_remark=length.reason,
    )
    return _TrainingWorkload(training=training, workload=workload)


def _estimator(workloads: Sequence[_TrainingWorkload]) -> EstimateCandidates:
    by_id = {each.training.submission.id: each.workload for each in workloads}

    def estimate(training: SubmittedTraining, candidates: Sequence[Candidate]) -> Iterable[Estimate]:
        return by_id[training.submission.id].unbilled(candidates)

    return estimate


def _machine_option(offer: Offer) -> MachineOption:
    reclaims = interruptions_on(offer).per_hour.value if offer.market == "spot" else 0.0
    return MachineOption(offer=offer, reclaims_per_hour=reclaims)


def _offers(workloads: Sequence[_TrainingWorkload], question: QueueQuestion, now: datetime) -> tuple[Offer, ...]:
    if not workloads:
        return ()
    today = now.date()
    if question.machines:
        return named_offers(workloads[0].workload.catalog, question.machines, spot=question.spot, today=today)
    # Jobs with the same predictor, epochs and GPUs have the same estimates: one of them is enough.
    distinct = {(id(each.workload.predictor), each.training.epochs, each.training.max_gpus): each for each in workloads}
    return suitable_offers(
        [(each.workload, each.training.max_gpus) for each in distinct.values()],
        shared_nodes=question.nodes is not None and question.nodes < len(workloads),
        spot=question.spot,
        today=today,
    )


def _delays(
    workloads: Sequence[_TrainingWorkload], offers: Iterable[Offer], settings: Settings, starts: ObservedStarts
) -> Delays:
    """The delays of all nodes and jobs, taken from the slowest.

    Boot and setup are as the user's runs measured them, else as the provider's terms say, then comes the program's own
    start; checkpoints are as its profile shows them, on spot at the interval that loses least (Daly 2006).
    """
    rented = [offer for offer in offers if offer.market != "own"]
    if not workloads:
        return Delays()
    boot, setup = settings.boot_seconds, settings.setup_seconds
    terms = [
        terms_with_starts(find_terms, starts, program_key(each.profile.program))(offer)
        for each in workloads
        for offer in rented
    ]
    if boot is None:
        boot = max((expected_boot(each).value for each in terms), default=0.0)
    if setup is None:
        setup = max((expected_setup(each).value for each in terms), default=0.0)
    checkpoint = max(
        checkpoints_of(each.profile, iterations_per_epoch=each.workload.leading.iterations_per_epoch).seconds.value
        for each in workloads
    )
    reclaims = [interruptions_on(offer).per_hour.value for offer in rented if offer.market == "spot"]
    return Delays(
        boot_seconds=boot if rented else 0.0,
        checkpoint_seconds=checkpoint,
        restart_seconds=(setup if rented else 0.0) + max(each.profile.init_seconds or 0.0 for each in workloads),
        checkpoint_every_seconds=daly_interval(checkpoint, per_second=max(reclaims, default=0.0) / SECONDS_PER_HOUR),
    )
