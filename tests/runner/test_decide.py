"""The supervisor's decisions, in a world that is simulated: whatever happens, a run ends and no machine is left."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.makers import NOON, make_candidate, make_checkpoint, make_fact, make_machine, make_offer, make_run
from trainfare.model.bill import Billing
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Fact, Run, RunLimits
from trainfare.runner.decide import Action, JobView, Patience, View, Wait, decide, termination_pause_seconds
from trainfare.runner.life import Life, after
from trainfare.runner.limits import lease_end, limit_reached, spent_usd
from trainfare.runner.progress import RunProgress
from trainfare.runner.recovery import Onward

PATIENCE = Patience(appear=5, boot=60, collect=60, notice=10, silence=40)
SECOND = timedelta(seconds=1)


@dataclass
class World:
    """A provider, a machine and a program in one, with faults that are drawn beforehand."""

    appears_after: int
    boots_after: int
    trains_for: int
    exit_code: int
    vanishes_at: int | None
    """The second at which the machine of the first attempt vanishes."""
    failing_terminations: int
    deaf_at: frozenset[int]
    """Seconds at which the door does not answer."""
    stop_at: int | None
    restarts_at: int | None = None
    """The second at which the machine is restarted, so that the program ends with it."""
    saves_after: int | None = None
    """The program saves so many seconds after its start."""
    refused: frozenset[int] = frozenset()
    """Attempts whose launch is refused."""
    move_at: int | None = None
    silent: range = range(0)
    """The seconds at which the machine of the first attempt does not answer, and cannot be terminated."""
    lease: int = 100_000
    """The second at which the lease of the first attempt ends."""
    attempt: int = 0
    restarted: bool = False
    asked_to_end: datetime | None = None
    now: int = 0
    launched_at: int | None = None
    started_at: int | None = None
    stopped: bool = False
    terminated: bool = False
    launches: int = 0
    facts: list[Fact] = field(default_factory=list)

    def machines(self, attempt: int) -> tuple[RentedMachine, ...]:
        if attempt != self.attempt:
            return ()
        if self.launched_at is None or self.terminated or self.now < self.launched_at + self.appears_after:
            return ()
        if self.vanishes_at is not None and self.now >= self.vanishes_at and self.attempt == 1:
            return ()
        ready = self.now >= self.launched_at + self.appears_after + self.boots_after
        return (
            RentedMachine(
                id="m1",
                owner="ada@laptop",
                run_id="r93",
                attempt=max(1, attempt),
                node=0,
                vm_type="aws/p3.2xlarge",
                state="unreachable" if self.is_silent else "ready" if ready else "booting",
                expires_at=NOON + self.lease * SECOND,
            ),
        )

    @property
    def is_silent(self) -> bool:
        return self.attempt == 1 and self.now in self.silent

    def job(self) -> JobView | None:
        if self.started_at is None:
            return None
        if self.restarts_at is not None and self.now >= self.restarts_at >= self.started_at and self.attempt == 1:
            return JobView(started=True, exit_code=-9, cause="signal")
        if self.now >= self.started_at + self.trains_for and not self.stopped:
            return JobView(started=True, exit_code=self.exit_code)
        return JobView(started=True, exit_code=143 if self.stopped else None, cause="stop" if self.stopped else "own")

    def has_saved(self) -> bool:
        started = self.started_at is not None and self.saves_after is not None
        return started and self.now >= (self.started_at or 0) + (self.saves_after or 0)

    def carry_out(self, action: Action, attempt: int) -> None:
        match action:
            case "launch":
                if attempt != self.attempt:
                    given_up = self.facts and any(fact.kind == "machines abandoned" for fact in self.facts)
                    assert self.launched_at is None or self.terminated or given_up, "never two attempts at once"
                    self.attempt, self.terminated, self.stopped, self.asked_to_end = attempt, False, False, None
                    self.launched_at, self.started_at, self.launches = self.now, None, self.launches + 1
            case "start":
                self.started_at = self.now if self.started_at is None else self.started_at
            case "stop":
                self.stopped = True
            case "terminate" if self.failing_terminations == 0 and not self.is_silent:
                self.terminated = True
            case _:
                pass


def moment(world: World) -> datetime:
    return NOON + world.now * SECOND


def play(run: Run, world: World) -> Life:
    """Decide until the run has ended, a second a step at most."""
    life, job = Life(), None
    for _ in range(2000):
        machines = None if world.now in world.deaf_at else world.machines(life.attempt)
        reachable = machines and life.state in ("setting up", "training", "collecting")
        answers = None if not machines or machines[0].state == "booting" else machines[0].state == "ready"
        job = job if reachable and answers is False else world.job() if reachable else None
        kept = (moment(world) - life.asked_at).total_seconds() if life.asked_at else 0.0
        view = View(
            now=moment(world),
            machines=machines,
            job=job,
            answers=answers,
            spent_usd=spent_usd(3.0, kept, Billing()),
            collecting_since=next((f.seen_at for f in reversed(world.facts) if f.kind == "program ended"), None),
            asked_to_end_at=world.asked_to_end,
            fetch_due=world.has_saved() and life.checkpoint_attempt != life.attempt,
        )
        action = decide(run, life, view, patience=PATIENCE, fallbacks=FALLBACKS)
        fact = action if isinstance(action, Fact) else None
        if action == "launch" and life.attempt in world.refused:
            fact, action = replace(remark(life, view.now, "launch refused"), text="no capacity"), "fetch"
        if action == "fetch" and fact is None:
            fact = replace(make_fact(kind="checkpoint fetched"), number=life.facts, seen_at=view.now)
        if action == "collect":
            fact = remark(life, view.now, "results collected")
        if action == "terminate" and (world.failing_terminations or world.is_silent):
            world.failing_terminations = max(0, world.failing_terminations - 1)
            fact = replace(remark(life, view.now, "termination failed"), text="503")
        elif action == "terminate":
            world.asked_to_end = world.asked_to_end or view.now
        world.carry_out(action, life.attempt)
        if world.move_at == world.now and fact is None and life.state != "ended":
            world.move_at = None
            fact = replace(make_fact(kind="move asked", candidate=OTHER), number=life.facts, seen_at=view.now)
        if world.stop_at == world.now and life.state != "ended" and life.stop_reason is None and fact is None:
            fact = replace(remark(life, view.now, "warned"), kind="stop asked", stop_reason="user")
        if fact is not None:
            life = after(life, fact)
            world.facts.append(fact)
        if life.state == "ended":
            return life
        if fact is None:
            world.now += 1
    raise AssertionError(f"still {life.state} after {world.now} s: {action}")


def remark(life: Life, now: datetime, kind: str) -> Fact:
    return Fact(run_id="r93", number=life.facts, seen_at=now, kind=kind, attempt=life.attempt, text="why")  # type: ignore[arg-type] # kinds of this file


def make_world(**changes: Any) -> World:
    fields: dict[str, Any] = {
        "appears_after": 0,
        "boots_after": 2,
        "trains_for": 10,
        "exit_code": 0,
        "vanishes_at": None,
        "failing_terminations": 0,
        "deaf_at": frozenset(),
        "stop_at": None,
    }
    return World(**(fields | changes))


RUN = make_run(candidate=make_candidate(offer=make_offer(usd_per_hour=3.0)))
GOES_ON = replace(RUN, resume_flag="--resume {}")
FALLBACKS = (make_candidate(offer=make_offer(usd_per_hour=2.0)),)
OTHER = make_candidate(offer=make_offer(usd_per_hour=1.0))

worlds = st.builds(
    make_world,
    appears_after=st.integers(0, 5),
    boots_after=st.integers(0, 70),
    trains_for=st.integers(0, 40),
    exit_code=st.sampled_from([0, 1, 137]),
    vanishes_at=st.none() | st.integers(0, 60),
    failing_terminations=st.integers(0, 3),
    deaf_at=st.frozensets(st.integers(0, 120), max_size=30),
    stop_at=st.none() | st.integers(0, 60),
    restarts_at=st.none() | st.integers(0, 40),
    saves_after=st.none() | st.integers(0, 20),
    refused=st.frozensets(st.integers(1, 4)),
    move_at=st.none() | st.integers(0, 60),
    silent=st.builds(lambda first, length: range(first, first + length), st.integers(0, 60), st.integers(0, 400)),
    lease=st.integers(20, 200),
)


@settings(max_examples=120, deadline=None)
@given(worlds, st.booleans())
def test_whatever_happens_the_run_ends_and_no_machine_is_left(world: World, goes_on: bool) -> None:
    life = play(GOES_ON if goes_on else RUN, world)
    assert life.outcome in ("succeeded", "failed", "stopped", "lost")
    given_up = any(fact.kind == "machines abandoned" for fact in world.facts)
    assert world.launched_at is None or world.terminated or given_up, "its machine was asked to end"
    assert world.launches <= 3 + len(FALLBACKS) + life.moves
    assert life.starts - life.moves <= GOES_ON.attempts


def test_a_program_that_ends_well_succeeds() -> None:
    world = make_world()
    assert play(RUN, world).outcome == "succeeded"
    assert [fact.kind for fact in world.facts] == [
        "launch intended",
        "machines seen",
        "machines ready",
        "program started",
        "program ended",
        "results collected",
        "termination intended",
        "terminated",
        "run ended",
    ]


def test_a_machine_that_appears_late_is_waited_for_after_a_stop() -> None:
    world = make_world(appears_after=4, stop_at=1)
    assert play(RUN, world).outcome == "stopped"
    assert world.terminated
    assert world.now >= 5, "it was not confirmed before the machine could have appeared"


def test_a_machine_that_does_not_boot_is_given_up() -> None:
    life = play(RUN, make_world(boots_after=1000))
    assert (life.outcome, life.failure) == ("failed", "It was not ready within 1 min.")


def test_machines_that_a_provider_looked_for_in_vain_are_a_refusal_that_is_remembered() -> None:
    world = make_world()
    world.carry_out("launch", 1)
    world.now += world.appears_after
    (machine,) = world.machines(1)
    failed = replace(machine, state="failed", reason="There is no capacity.", refused="capacity")
    life = replace(Life(), state="booting", attempt=1, candidate=RUN.candidate, asked_at=NOON, machines=(machine,))
    lost = decide(RUN, life, View(now=NOON, machines=(failed,), job=None, spent_usd=0.0), patience=PATIENCE)
    assert isinstance(lost, Fact)
    assert (lost.kind, lost.refusal, lost.candidate) == ("machines lost", "capacity", RUN.candidate)
    assert after(life, lost).refusals == (lost,)


def test_a_machine_that_vanishes_in_the_training_is_a_lost_run() -> None:
    life = play(RUN, make_world(vanishes_at=8))
    assert life.outcome == "lost"
    assert life.message == "m1 no longer exists. The program was started without a way to go on from a checkpoint."
    life = play(RUN, make_world(vanishes_at=12, saves_after=3))
    assert "The checkpoint out/last.pt of 12:00, iteration 300 is in /home/ada/results." in (life.message or "")


def kinds_and_machines(world: World) -> list[tuple[str, float | None]]:
    return [(f.kind, f.candidate.usd_per_hour if f.candidate else None) for f in world.facts]


def test_a_run_that_can_go_on_is_launched_again_from_its_checkpoint() -> None:
    world = make_world(vanishes_at=12, saves_after=3)
    life = play(GOES_ON, world)
    assert (life.outcome, life.attempt, life.starts) == ("succeeded", 2, 2)
    launches = [fact for fact in world.facts if fact.kind == "launch intended"]
    assert [fact.checkpoint for fact in launches] == [None, make_checkpoint()]
    assert launches[1].candidate == launches[0].candidate, "the same machine again"
    (warning,) = life.warnings
    assert warning.startswith("m1 no longer exists. It goes on from the checkpoint out/last.pt of 12:00, iteration 300")


def test_a_trainer_that_saved_its_checkpoint_goes_on_without_a_flag() -> None:
    life = replace(
        Life(attempt=1, starts=1, facts=9, started_at=NOON, candidate=RUN.candidate, interrupted=True, failure="Gone."),
        checkpoint=make_checkpoint(resumes=True),
        checkpoint_attempt=1,
    )
    view = View(now=NOON, machines=(), job=None, spent_usd=0.0)
    warned = decide(RUN, life, view, patience=PATIENCE)
    assert isinstance(warned, Fact)
    launch = decide(RUN, after(life, warned), view, patience=PATIENCE)
    assert isinstance(launch, Fact)
    assert (launch.kind, launch.checkpoint) == ("launch intended", make_checkpoint(resumes=True))


def test_a_run_without_a_checkpoint_at_home_starts_again_and_says_so() -> None:
    life = play(GOES_ON, make_world(vanishes_at=6))
    assert (life.outcome, life.attempt, life.resumed_from) == ("succeeded", 2, None)
    assert "starts again from the beginning" in life.warnings[0]


def test_a_machine_that_is_restarted_gives_its_last_checkpoint_before_the_run_goes_on() -> None:
    world = make_world(restarts_at=6, saves_after=4)
    life = play(GOES_ON, world)
    assert (life.outcome, life.attempt) == ("succeeded", 2)
    kinds = [fact.kind for fact in world.facts]
    assert kinds.index("program ended") < kinds.index("checkpoint fetched") < kinds.index("results collected")
    assert play(RUN, make_world(restarts_at=6)).outcome == "lost"


def test_a_fallback_is_tried_when_the_lost_machine_cannot_be_had_again() -> None:
    world = make_world(vanishes_at=12, saves_after=3, refused=frozenset({2}))
    life = play(GOES_ON, world)
    assert (life.outcome, life.attempt) == ("succeeded", 3)
    assert [usd for kind, usd in kinds_and_machines(world) if kind == "launch intended"] == [3.0, 3.0, 2.0]
    nowhere = play(GOES_ON, make_world(vanishes_at=12, saves_after=3, refused=frozenset({2, 3})))
    assert (nowhere.outcome, nowhere.attempt) == ("lost", 3)


def test_the_number_of_starts_is_limited() -> None:
    life = play(replace(GOES_ON, attempts=1), make_world(vanishes_at=12, saves_after=3))
    assert (life.outcome, life.starts) == ("lost", 1)
    assert "It may be started only once." in (life.message or "")


def test_a_move_saves_fetches_ends_the_machine_and_goes_on_elsewhere() -> None:
    world = make_world(move_at=7, saves_after=3, trains_for=20)
    life = play(GOES_ON, world)
    assert (life.outcome, life.candidate, life.moves) == ("succeeded", OTHER, 1)
    kinds = [fact.kind for fact in world.facts]
    assert kinds.index("terminated") < len(kinds) - 1 - kinds[::-1].index("launch intended")
    assert world.facts[kinds.index("program ended")].interrupted
    assert "It moves to" in life.warnings[0]


def test_a_program_that_ends_before_its_move_has_just_ended() -> None:
    life = play(GOES_ON, make_world(move_at=13, trains_for=10))
    assert (life.outcome, life.attempt, life.exit_code) == ("succeeded", 1, 0)


def test_failed_terminations_are_each_a_fact_with_a_growing_pause() -> None:
    world = make_world(failing_terminations=3)
    assert play(RUN, world).outcome == "succeeded"
    assert [fact.kind for fact in world.facts].count("termination failed") == 3
    assert [termination_pause_seconds(n) for n in (0, 1, 2, 3, 20)] == [0, 1, 2, 4, 300]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (RunLimits(budget_usd=0.1), "budget"),
        (RunLimits(deadline=NOON + 30 * SECOND), "deadline"),
        (RunLimits(longest_seconds=20), "longest duration"),
    ],
)
def test_a_limit_stops_the_run(limits: RunLimits, reason: str) -> None:
    world = make_world(trains_for=10_000)
    life = play(replace(RUN, limits=limits), world)
    assert (life.outcome, life.stop_reason) == ("stopped", reason)
    assert spent_usd(3.0, world.now, Billing()) <= (limits.budget_usd or 1)


def test_a_lease_never_outlasts_the_budget() -> None:
    run = replace(RUN, limits=RunLimits(budget_usd=6.0, deadline=NOON + timedelta(hours=50)))
    end = lease_end(run, NOON, spent=3.0, usd_per_hour=3.0)
    assert end == NOON + timedelta(hours=1)
    assert limit_reached(run, end - 2 * SECOND, spent=5.99, usd_per_hour=3.0) is not None


FOR_EVER = range(8, 100_000)


def test_a_short_cut_is_noted_and_no_reason_to_warn_or_to_leave() -> None:
    world = make_world(trains_for=60, silent=range(8, 17), lease=12, saves_after=3)
    life = play(GOES_ON, world)
    assert (life.outcome, life.attempt, life.warnings) == ("succeeded", 1, ())
    kinds = [fact.kind for fact in world.facts]
    assert kinds.count("machines silent") == kinds.count("machines answer") == 1
    assert life.silent_since is None


def test_a_silent_machine_is_reported_once_and_given_up_when_its_lease_is_over() -> None:
    world = make_world(silent=FOR_EVER, lease=300, saves_after=3)
    life = play(GOES_ON, world)
    assert (life.outcome, life.attempt) == ("succeeded", 2)
    launches = [fact for fact in world.facts if fact.kind == "launch intended"]
    assert launches[1].candidate == FALLBACKS[0], "not the machine that does not answer"
    assert launches[1].checkpoint == make_checkpoint()
    assert (launches[1].seen_at - NOON).total_seconds() >= 360, "nothing runs there any more"
    warnings = [text for text in life.warnings if "has not answered since 12:00 UTC, for 10 s" in text]
    assert len(warnings) == 1
    (given_up,) = [fact for fact in world.facts if fact.kind == "machines abandoned"]
    assert "ended as soon as it answers" in (given_up.text or "")
    assert life.abandoned == ((1, RUN.candidate),)


def test_a_silent_machine_without_a_way_to_go_on_is_a_lost_run_after_its_lease() -> None:
    world = make_world(silent=FOR_EVER, lease=300)
    life = play(RUN, world)
    assert (life.outcome, life.attempt) == ("lost", 1)
    assert world.now >= 360
    assert "has not answered for" in (life.message or "")


def test_a_user_who_moves_a_run_off_a_silent_machine_is_not_kept_waiting_for_it() -> None:
    world = make_world(silent=FOR_EVER, saves_after=3, move_at=20)
    life = play(GOES_ON, world)
    assert (life.outcome, life.attempt, life.candidate) == ("succeeded", 2, OTHER)
    assert world.now < 60
    short = play(GOES_ON, make_world(trains_for=30, silent=range(8, 15), saves_after=3, move_at=10))
    assert (short.outcome, short.candidate, short.abandoned) == ("succeeded", OTHER, ()), "it answered in time"


def test_a_stop_of_a_run_on_a_silent_machine_ends_after_some_patience() -> None:
    world = make_world(silent=FOR_EVER, stop_at=12)
    life = play(RUN, world)
    assert (life.outcome, life.stop_reason) == ("stopped", "user")
    assert 48 <= world.now < 60


def test_a_silent_node_is_not_waited_for_when_the_program_has_failed_on_another() -> None:
    two = replace(RUN.candidate, nodes=2)
    life = Life(
        state="training", attempt=1, starts=1, started_at=NOON, candidate=two, silent_since=NOON, warnings=("x",)
    )
    ends = NOON + timedelta(days=30)
    machines = tuple(
        RentedMachine(
            id=f"r93-1/{node}",
            owner="ada@laptop",
            run_id="r93",
            attempt=1,
            node=node,
            vm_type="ssh/lab",
            state="ready" if node == 0 else "unreachable",
            expires_at=ends,
        )
        for node in (0, 1)
    )
    life = replace(life, machines=machines)

    def action(job: JobView | None, life: Life) -> Action:
        now = NOON + timedelta(seconds=130)
        view = View(now=now, machines=machines, job=job, answers=False, spent_usd=0.0)
        found = decide(GOES_ON, life, view, patience=Patience())
        if isinstance(found, Fact) and found.kind == "warned":
            return decide(GOES_ON, replace(life, warnings=(found.text or "",)), view, patience=Patience())
        return found

    failed = action(JobView(started=True, failing=True, failed_node=0), life)
    assert isinstance(failed, Fact)
    assert failed.kind == "machines lost"
    assert not isinstance(action(JobView(started=True), life), Fact), "it may go on there"
    ending = replace(
        life, state="ending", interrupted=True, termination_intended=True, termination_failures=1, failure="lost"
    )
    given_up = action(None, ending)
    assert isinstance(given_up, Fact)
    assert given_up.kind == "machines abandoned"


def test_with_a_patience_the_machine_is_left_as_soon_as_it_has_ended_by_itself() -> None:
    world = make_world(silent=FOR_EVER, saves_after=3)
    life = play(replace(GOES_ON, patience_seconds=30), world)
    assert (life.outcome, life.attempt) == ("succeeded", 2)
    launch = [fact for fact in world.facts if fact.kind == "launch intended"][1]
    assert (launch.seen_at - NOON).total_seconds() >= 8 + 30 + 60
    assert world.now < 150


def test_a_program_that_ended_because_nobody_reached_its_machine_goes_on() -> None:
    life = Life(state="training", attempt=1, starts=1, started_at=NOON, candidate=RUN.candidate)
    machine = RentedMachine(
        id="m1",
        owner="ada@laptop",
        run_id="r93",
        attempt=1,
        node=0,
        vm_type="ssh/box",
        state="ready",
        expires_at=NOON + 9999 * SECOND,
    )
    life = replace(life, machines=(machine,))
    job = JobView(started=True, exit_code=143, cause="lease")
    view = View(now=NOON + 900 * SECOND, machines=(machine,), job=job, spent_usd=0.0)
    ended = decide(replace(GOES_ON, patience_seconds=600), life, view, patience=PATIENCE)
    assert isinstance(ended, Fact)
    assert (ended.kind, ended.interrupted) == ("program ended", True)
    assert ended.text == "The machine ended the program, because it was not reached for 10 min."


def resumed(checkpoint: Any, older: Any = None) -> Life:
    life = Life(state="training", attempt=2, starts=2, started_at=NOON, candidate=RUN.candidate, facts=9)
    return replace(life, checkpoint=checkpoint, older_checkpoint=older, checkpoint_attempt=1, resumed_from=checkpoint)


def ends(life: Life, *, exit_code: int = 1, seconds: float = 5, **fields: Any) -> tuple[Life, list[Fact]]:
    """The life after the program has ended in it, up to the next launch or the end, and all facts."""
    run = replace(GOES_ON, attempts=2)
    facts: list[Fact] = []
    view = View(
        now=NOON + seconds * SECOND,
        machines=(),
        job=JobView(started=True, exit_code=exit_code),
        spent_usd=0.0,
        asked_to_end_at=NOON,
        **fields,
    )
    while not facts or facts[-1].kind not in ("launch intended", "run ended"):
        action = decide(run, life, view, patience=PATIENCE)
        fact = action if isinstance(action, Fact) else remark(life, view.now, "results collected")
        life, view = after(life, fact), replace(view, now=view.now + 10 * SECOND)
        facts.append(fact)
    return life, facts


def test_a_checkpoint_that_cannot_be_loaded_is_followed_by_the_older_one_and_then_by_the_beginning() -> None:
    new, old = make_checkpoint(name="1-9", iteration=400), make_checkpoint()
    life, facts = ends(resumed(new, old))
    assert facts[-1].checkpoint == old
    assert (
        "could not go on from the checkpoint out/last.pt of 12:00, iteration 400: it ended with exit code 1"
        in (life.warnings[-1])
    )
    assert "It goes on from the checkpoint out/last.pt of 12:00, iteration 300." in life.warnings[-1]
    life, facts = ends(replace(life, state="training", started_at=NOON, starts=3))
    assert (facts[-1].kind, facts[-1].checkpoint) == ("launch intended", None)
    assert "It starts again from the beginning, because no other one is at home." in life.warnings[-1]
    life, facts = ends(replace(life, state="training", started_at=NOON, starts=4))
    assert (facts[-1].kind, facts[-1].outcome) == ("run ended", "failed")


def test_a_program_that_fails_later_has_failed() -> None:
    life = resumed(make_checkpoint(), make_checkpoint(name="1-3"))
    new = make_progress(iterations=301)
    for fields in ({"progress": new}, {"has_saved": True}, {"seconds": 3600}):
        _, facts = ends(life, **fields)
        assert (facts[-1].kind, facts[-1].outcome) == ("run ended", "failed"), fields


def make_progress(iterations: int) -> RunProgress:
    return RunProgress(
        iterations=iterations,
        total_iterations=None,
        seconds=0.0,
        iteration_seconds=None,
        remaining_seconds=None,
        loss=None,
        is_measured=True,
    )


def test_a_program_that_fails_on_one_node_is_stopped_on_the_others_at_once() -> None:
    life = Life(state="training", attempt=1, starts=1, started_at=NOON, candidate=RUN.candidate)
    view = View(now=NOON, machines=(), job=JobView(started=True, failing=True), spent_usd=0.0)
    assert decide(GOES_ON, life, view, patience=PATIENCE) == "stop"


SPOT = make_candidate(offer=make_offer(usd_per_hour=1.0, market="spot"))
ON_SPOT = replace(GOES_ON, candidate=SPOT, estimate=None)
WAITS = Onward(candidate=None, text="No spot machine can be had now.")
LEAVES = Onward(candidate=RUN.candidate, text="The deadline is near.", must_leave=True)


def spot_life(**changes: Any) -> Life:
    fields: dict[str, Any] = {"state": "training", "attempt": 1, "starts": 1, "started_at": NOON, "candidate": SPOT}
    return Life(**(fields | changes))


def spot_view(**changes: Any) -> View:
    fields: dict[str, Any] = {"now": NOON, "machines": (), "job": None, "spent_usd": 0.0}
    return View(**(fields | changes))


def decided(life: Life, view: View, run: Run = ON_SPOT) -> Fact:
    action = decide(run, life, view, patience=PATIENCE)
    assert isinstance(action, Fact), action
    return action


def test_a_program_that_ends_for_an_announced_interruption_is_to_go_on() -> None:
    job = JobView(started=True, exit_code=0, cause="interruption", taken_at=NOON + 100 * SECOND)
    ended = decided(spot_life(), spot_view(job=job))
    assert (ended.kind, ended.interrupted, ended.reclaimed) == ("program ended", True, True)
    assert ended.text == "The provider takes the machine back at 12:01 UTC."
    stopped = decided(spot_life(stop_reason="user"), spot_view(job=job))
    assert (stopped.interrupted, stopped.reclaimed) == (False, False), "the user has stopped it: it does not go on"


def test_a_setup_that_is_interrupted_has_not_failed() -> None:
    job = JobView(everywhere=True, cause="interruption", taken_at=NOON)
    lost = decided(spot_life(state="setting up", starts=0, started_at=None), spot_view(job=job))
    assert (lost.kind, lost.reclaimed) == ("machines lost", True)


def test_a_silent_spot_machine_is_lost_after_a_while_and_one_on_demand_is_waited_for() -> None:
    long_ago = NOON - PATIENCE.spot_silence * SECOND
    warned = ("aws/g4dn.xlarge has not answered since 11:55 UTC",)
    view = spot_view(answers=False)
    lost = decided(spot_life(silent_since=long_ago, warnings=warned), view)
    assert (lost.kind, lost.reclaimed) == ("machines lost", True)
    machine = replace(make_machine(), expires_at=NOON + 3600 * SECOND)
    own = spot_life(silent_since=long_ago, warnings=warned, candidate=RUN.candidate, machines=(machine,))
    assert isinstance(decide(ON_SPOT, own, replace(view, machines=(machine,)), patience=PATIENCE), Wait)


def test_what_the_provider_takes_back_is_no_trial_unless_only_one_start_is_allowed() -> None:
    lost = spot_life(
        state="planned",
        attempt=9,
        starts=9,
        reclaims=8,
        interrupted=True,
        loss_reported=9,
        checkpoint=make_checkpoint(),
    )
    view = spot_view(onward=Onward(candidate=SPOT, text="It goes on."))
    assert decided(lost, view).kind == "launch intended"
    assert decided(lost, replace(view, onward=None)).kind == "run ended", "nothing was agreed to"
    once = replace(lost, attempt=1, starts=1, reclaims=1, loss_reported=1)
    assert decided(once, view, replace(ON_SPOT, attempts=1)).kind == "run ended"


def test_a_wait_for_a_spot_machine_is_said_once() -> None:
    refused = Life(attempt=2, candidate=SPOT, failure="no capacity")
    said = decided(refused, spot_view(onward=WAITS))
    assert (said.kind, said.text) == ("warned", WAITS.text)
    assert isinstance(decide(ON_SPOT, after(refused, said), spot_view(onward=WAITS), patience=PATIENCE), Wait)
    over = decided(refused, spot_view(onward=replace(WAITS, gives_up=True)))
    assert (over.kind, over.outcome, over.text) == (
        "run ended",
        "failed",
        "no capacity No spot machine can be had now.",
    )


@pytest.mark.parametrize("state", ["asked for", "booting", "setting up", "training"])
def test_spot_machines_are_left_in_time_in_every_state(state: Any) -> None:
    life = spot_life(state=state, checkpoint=make_checkpoint())
    left = decided(life, spot_view(onward=LEAVES))
    assert (left.kind, left.candidate, left.text) == ("move asked", RUN.candidate, LEAVES.text)
    cannot = decide(replace(ON_SPOT, resume_flag=None), spot_life(), spot_view(onward=LEAVES), patience=PATIENCE)
    assert isinstance(cannot, Wait), "it would lose everything"


def test_a_plan_without_time_for_spot_begins_on_demand_and_says_why() -> None:
    first = decided(Life(), spot_view(onward=LEAVES))
    assert (first.kind, first.text) == ("warned", LEAVES.text)
    launch = decided(after(Life(), first), spot_view(onward=LEAVES))
    assert (launch.kind, launch.candidate) == ("launch intended", RUN.candidate)


def test_a_loss_is_said_once_with_the_work_that_is_done_again() -> None:
    lost = spot_life(state="planned", interrupted=True, failure="Gone.", facts=0, ended_at=NOON + 90 * SECOND)
    view = spot_view(onward=Onward(candidate=SPOT, text="It goes on in b."))
    said = decided(lost, view)
    assert (said.kind, said.lost_seconds) == ("warned", 90.0)
    assert said.text == (
        "Gone. It starts again from the beginning, because no checkpoint was at home. Lost: 1 min 30 s of training. "
        "It goes on in b."
    )
    assert decided(after(lost, said), view).kind == "launch intended"
