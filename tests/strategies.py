"""Hypothesis strategies for every noun: any values that the noun accepts, unusual ones included."""

from datetime import UTC, date, datetime, timedelta
from typing import get_args

from hypothesis import strategies as st

from trainfare.model.bill import Bill, Billing, BillLine
from trainfare.model.estimate import Estimate, MemoryFit, Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu, Host, VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal, Plan
from trainfare.model.profile import EarlyStopping, Epoch, Operation, Profile
from trainfare.model.program import Program
from trainfare.model.reason import Reason
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Checkpoint, Fact, Observation, Outcome, Run, RunLimits, StopReason
from trainfare.model.submission import Submission

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20).filter(str.strip)
words = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_", min_size=1, max_size=12)
positive = st.floats(1e-9, 1e12)
not_negative = st.floats(0, 1e12)
counts = st.integers(1, 10**12)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 # hypothesis adds the time zone
days = st.dates(date(2000, 1, 1), date(2100, 1, 1))


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


def intervals(values: st.SearchStrategy[float] = not_negative) -> st.SearchStrategy[Interval]:
    return st.lists(values, min_size=3, max_size=3).map(
        lambda three: Interval(low=min(three), value=sorted(three)[1], high=max(three))
    )


programs = st.builds(Program, command=st.lists(texts, min_size=1, max_size=5).map(tuple), directory=texts)
hosts = st.builds(
    Host,
    name=texts,
    cores=maybe(counts),
    memory_gib=maybe(positive),
    gpus=st.integers(0, 16),
    vm_type=maybe(st.tuples(words, words).map("/".join)),
)
gpus = st.builds(
    Gpu,
    name=texts,
    architecture=texts,
    launch_year=st.integers(2006, 2100),
    memory_gib=positive,
    memory_gb_per_second=positive,
    fp32_tflops=positive,
    fp64_tflops=maybe(positive),
    fp16_tflops=maybe(positive),
    tf32_tensor_tflops=maybe(positive),
    fp16_tensor_tflops=maybe(positive),
    bf16_tensor_tflops=maybe(positive),
    fp8_tensor_tflops=maybe(positive),
    multiprocessors=maybe(counts),
    l2_mib=maybe(positive),
    interconnect=texts,
    interconnect_gb_per_second=positive,
)
vm_types = st.one_of(
    st.builds(
        VmType,
        provider=words,
        name=words,
        gpu=gpus,
        gpus=st.integers(1, 16),
        vcpus=maybe(positive),
        memory_gib=maybe(positive),
    ),
    st.builds(
        VmType,
        provider=words,
        name=words,
        gpu=st.none(),
        gpus=st.just(0),
        vcpus=maybe(positive),
        memory_gib=maybe(positive),
    ),
)
offers = st.builds(
    Offer,
    vm_type=vm_types,
    region=texts,
    usd_per_hour=positive,
    seen_on=days,
    source=texts,
    retired_on=maybe(days),
)
candidates = st.builds(Candidate, offer=offers, nodes=st.integers(1, 64), batch_size=maybe(counts))
operations = st.builds(Operation, dtype=texts, flops=not_negative, bytes=not_negative, count=counts)


curves = st.lists(
    st.builds(
        Epoch,
        number=st.integers(1, 1000),
        seconds=maybe(positive),
        loss=maybe(st.floats(-1e9, 1e9)),
        metrics=st.dictionaries(texts, st.floats(-1e9, 1e9), max_size=2),
    ),
    max_size=3,
    unique_by=lambda epoch: epoch.number,
).map(lambda epochs: tuple(sorted(epochs, key=lambda epoch: epoch.number)))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    iterations = draw(st.lists(positive, min_size=1, max_size=6))
    waits = draw(st.none() | st.lists(not_negative, min_size=len(iterations), max_size=len(iterations)))
    return draw(
        st.builds(
            Profile,
            id=texts,
            program=programs,
            host=hosts,
            measured_at=moments,
            framework=texts,
            world_size=st.integers(1, 64),
            micro_batch_size=maybe(counts),
            accumulation_steps=counts,
            samples=maybe(counts),
            iterations_per_epoch=maybe(counts),
            epochs=maybe(counts),
            parameters=maybe(counts),
            gradient_bytes=maybe(counts),
            optimizer_bytes=maybe(counts),
            activation_bytes=maybe(counts),
            peak_host_bytes=maybe(counts),
            peak_device_bytes=maybe(counts),
            init_seconds=maybe(not_negative),
            validation_samples=maybe(counts),
            early_stopping=maybe(st.builds(EarlyStopping, metric=maybe(texts), patience=st.integers(0, 100))),
            sent_bytes=maybe(counts),
            received_bytes=maybe(counts),
            cpu_use=maybe(not_negative),
            gpu_use=maybe(not_negative),
            compile_seconds=maybe(not_negative),
            run_seconds=maybe(positive),
            run_iterations=maybe(counts),
            checkpoint_seconds=st.lists(not_negative, max_size=3).map(tuple),
            learning_rate=st.lists(st.none() | positive, max_size=6).map(tuple),
            curve=curves,
            iteration_seconds=st.just(tuple(iterations)),
            data_wait_seconds=st.just(tuple(waits or ())),
            validation_seconds=st.lists(not_negative, max_size=3).map(tuple),
            loss=st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=6).map(tuple),
            operations=st.lists(operations, max_size=3).map(tuple),
        )
    )


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    seconds = draw(intervals(positive))
    usd = draw(intervals(positive))
    memory = st.builds(MemoryFit, needed_gib=intervals(), available_gib=positive)
    bill = st.builds(
        Bill,
        lines=st.builds(BillLine, name=texts, usd=st.just(usd), how=texts).map(lambda line: (line,)),
        usd=st.just(usd),
        billing=st.builds(Billing, increment_seconds=positive, minimum_seconds=not_negative),
        billed_seconds=positive,
        usd_per_hour=positive,
        prices_seen_on=days,
    )
    return draw(
        st.builds(
            Estimate,
            candidate=candidates,
            profile_id=texts,
            epochs=counts,
            iteration_seconds=intervals(),
            phases=(st.none() | texts).map(lambda how: (Phase(name="steady iterations", seconds=seconds, how=how),)),
            seconds=st.just(seconds),
            usd=st.just(usd),
            memory=maybe(memory),
            bill=maybe(bill),
            interruptions=maybe(intervals()),
            checkpoint_every_seconds=maybe(positive),
        )
    )


scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | st.floats(allow_nan=False, allow_infinity=False)
)
records = st.dictionaries(texts, scalars, max_size=3)
reasons = st.builds(
    Reason,
    code=texts,
    values=st.dictionaries(texts, scalars | records | st.lists(scalars | records, max_size=3).map(tuple), max_size=3),
    arguments=records,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    chosen = draw(estimates())
    runners_up = draw(st.lists(estimates().filter(lambda e: e != chosen), max_size=2))
    return Plan(
        id=draw(texts),
        made_at=draw(moments),
        goal=draw(st.builds(Goal)),
        chosen=chosen,
        runners_up=tuple(runners_up),
        considered=1 + len(runners_up),
        reasons=tuple(draw(st.lists(reasons, min_size=1, max_size=3))),
    )


run_limits = st.builds(RunLimits, budget_usd=maybe(positive), deadline=maybe(moments), longest_seconds=maybe(positive))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    estimate = draw(estimates())
    return draw(
        st.builds(
            Run,
            id=texts,
            made_at=moments,
            owner=texts,
            program=programs,
            candidate=st.just(estimate.candidate),
            results_directory=texts,
            estimate=maybe(st.just(estimate)),
            plan_id=maybe(texts),
            limits=run_limits,
            setup=maybe(texts),
            secrets=st.lists(words, max_size=3).map(tuple),
        )
    )


rented_machines = st.builds(
    RentedMachine,
    id=texts,
    owner=texts,
    run_id=texts,
    attempt=st.integers(1, 10**6),
    node=st.integers(0, 10**6),
    vm_type=texts,
    expires_at=moments,
    reason=maybe(texts),
    address=maybe(texts),
    launched_at=maybe(moments),
)
inner_paths = texts.filter(lambda path: not path.startswith("/") and ".." not in path.split("/"))
checkpoints = st.builds(
    Checkpoint,
    name=inner_paths,
    path=inner_paths,
    files=st.lists(inner_paths, min_size=1, max_size=3).map(tuple),
    bytes=st.integers(0, 2**53),
    saved_at=moments,
    iteration=maybe(st.integers(0, 10**9)),
    save_seconds=not_negative,
    fetch_seconds=not_negative,
    node=st.just(0),
    others=st.just(()),
)
facts = st.builds(
    Fact,
    run_id=texts,
    number=st.integers(0, 10**9),
    seen_at=moments,
    attempt=st.integers(1, 10**6),
    text=texts,
    candidate=candidates,
    machines=st.lists(rented_machines, min_size=1, max_size=2).map(tuple),
    exit_code=st.integers(-64, 255),
    collected_files=maybe(st.integers(0, 10**9)),
    collected_bytes=maybe(st.integers(0, 2**53)),
    stop_reason=st.sampled_from(get_args(StopReason)),
    outcome=st.sampled_from(get_args(Outcome)),
    checkpoint=checkpoints,
)
finite = st.floats(allow_nan=False, allow_infinity=False)
observations = st.builds(
    Observation,
    run_id=texts,
    attempt=st.integers(1, 10**6),
    node=st.integers(0, 10**6),
    number=st.integers(1, 10**9),
    at=moments,
    values=st.dictionaries(texts, st.none() | finite | texts | st.lists(st.none() | finite, max_size=5), max_size=4),
)


@st.composite
def submissions(draw: st.DrawFn) -> Submission:
    submitted_at = draw(moments)
    within = draw(st.none() | st.timedeltas(timedelta(microseconds=1), timedelta(days=3650)))
    return draw(
        st.builds(
            Submission,
            id=texts,
            profile_ids=st.lists(texts, min_size=1, max_size=3, unique=True).map(tuple),
            program=texts,
            submitted_at=st.just(submitted_at),
            epochs=maybe(counts),
            iterations_per_epoch=maybe(counts),
            most_gpus=maybe(st.integers(1, 64)),
            deadline_at=st.just(None if within is None else submitted_at + within),
            late_usd_per_hour=st.just(0.0) if within is None else not_negative,
            user=st.just("") | texts,
        )
    )
