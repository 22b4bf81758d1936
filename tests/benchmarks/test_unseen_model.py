"""What a program that nobody measured may be learnt from."""

from benchmarks.accuracy.unseen_model import _folds, _without
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Operation


def row(program: str, family: str, flops: float) -> MeasuredIteration:
    return MeasuredIteration(
        source="made up", program=program, family=family, gpu="RTX 3090", dtype="float16", batch_size=1, seconds=1.0,
        operations=(Operation(kind="matmul", dtype="float16", flops=flops, bytes=1.0),),
    )  # fmt: skip


ASKED = row("tv_resnet50", "resnet", 1.0)
TWIN, RELATIVE, STRANGER = row("gluon_resnet50", "gluon", 1.0), row("resnet34", "resnet", 2.0), row("vgg", "vgg", 3.0)
LEARNT = [ASKED, TWIN, RELATIVE, STRANGER]


def test_the_same_network_under_another_name_is_the_same_program() -> None:
    assert _without([ASKED], LEARNT, family=False) == [RELATIVE, STRANGER]


def test_with_its_family_its_relatives_go() -> None:
    assert _without([ASKED], LEARNT, family=True) == [STRANGER]


def test_every_row_is_asked_once_and_never_of_a_fit_that_saw_it() -> None:
    folds = _folds(LEARNT, [one.program for one in LEARNT], LEARNT, family=False)
    assert sorted(one.program for asked, _ in folds for one in asked) == sorted(one.program for one in LEARNT)
    assert all(one not in rest for asked, rest in folds for one in asked)
