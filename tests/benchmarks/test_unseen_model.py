"""The rows from which an unmeasured program may be predicted."""

from benchmarks.accuracy.unseen_model import _folds, _without
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Operation


def row(program: str, family: str, flops: float) -> MeasuredIteration:
    return MeasuredIteration(
        source="synthetic", program=program, family=family, gpu="RTX 3090", dtype="float16", batch_size=1, seconds=1.0,
        operations=(Operation(kind="matmul", dtype="float16", flops=flops, bytes=1.0),),
    )  # fmt: skip


ASKED = row("tv_resnet50", "resnet", 1.0)
TWIN, RELATIVE, STRANGER = row("gluon_resnet50", "gluon", 1.0), row("resnet34", "resnet", 2.0), row("vgg", "vgg", 3.0)
LEARNED = [ASKED, TWIN, RELATIVE, STRANGER]


def test_same_network_under_another_name_is_the_same_program() -> None:
    assert _without([ASKED], LEARNED, family=False) == [RELATIVE, STRANGER]


def test_family_is_left_out_with_all_its_programs() -> None:
    assert _without([ASKED], LEARNED, family=True) == [STRANGER]


def test_every_row_is_predicted_once_by_a_fit_without_it() -> None:
    folds = _folds(LEARNED, [one.program for one in LEARNED], LEARNED, family=False)
    assert sorted(one.program for asked, _ in folds for one in asked) == sorted(one.program for one in LEARNED)
    assert all(one not in rest for asked, rest in folds for one in asked)
