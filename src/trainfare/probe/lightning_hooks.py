"""The hooks into Lightning's trainer: its plan, its metrics and its checkpoints.

Times come from `torch_hooks.py`. No callback is added to the trainer: the function that calls the callbacks is
wrapped, so a program that lists or saves them sees only its own.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe.recorder import Recorder
    from trainfare.probe.stop import Stop


def listen(
    trainer: ModuleType,
    recorder: Recorder,
    *,
    new_stop: Callable[[], Stop],  # noqa: ARG001 # the listener of PyTorch stops
    trace: bool,  # noqa: ARG001 # the listener of PyTorch traces
) -> None:
    """Install the hooks; `trainer` is the module of the class, of `lightning.pytorch` or of `pytorch_lightning`."""
    listener = importlib.import_module(f"{__package__}.torch_hooks").TorchListener.current
    module: Any = trainer
    resuming = importlib.import_module(f"{__package__}.resuming")
    if resuming.checkpoint_path() is not None:
        module.Trainer.fit = resuming.resume_by_argument(module.Trainer.fit, "ckpt_path", 5)
    if listener is None:
        return
    calls: Any = importlib.import_module(trainer.__name__.rpartition(".")[0] + ".call")
    divided = listener.guarded(listener.losses_divided_by)
    watched = {"on_train_start": listener.guarded(_write_plan), "on_train_epoch_end": listener.guarded(_write_epoch)}
    call_all = calls._call_callback_hooks  # noqa: SLF001 # there is no public place that sees every hook

    @functools.wraps(call_all)
    def call_and_record(trainer: Any, hook_name: str, *args: Any, **options: Any) -> Any:
        result = call_all(trainer, hook_name, *args, **options)
        # The end of an epoch is called twice, the second time when all metrics are complete.
        if hook_name in watched and options.get("monitoring_callbacks") is not False:
            watched[hook_name](recorder, trainer)
            if hook_name == "on_train_start":
                divided(trainer.accumulate_grad_batches)
        return result

    calls._call_callback_hooks = call_and_record  # noqa: SLF001 # there is no public place that sees every hook
    module.Trainer.save_checkpoint = listener.timing_checkpoint(module.Trainer.save_checkpoint, _saves_everything)


def _saves_everything(args: Any, options: Any) -> bool:
    """The checkpoint holds the optimizer too, so that the Trainer can go on from it."""
    return not (args[2] if len(args) > 2 else options.get("weights_only"))


def _write_plan(recorder: Recorder, trainer: Any) -> None:
    stopping = next((one for one in trainer.callbacks if _has_class_named(one, "EarlyStopping")), None)
    recorder.add(
        "plan",
        epochs=_limit(trainer.max_epochs),
        iterations=_limit(trainer.max_steps),
        source="arguments max_epochs and max_steps of the Trainer",
        early_stopping=None if stopping is None else {"metric": stopping.monitor, "patience": stopping.patience},
    )


def _write_epoch(recorder: Recorder, trainer: Any) -> None:
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    recorder.add("epoch", number=trainer.current_epoch + 1, metrics=metrics)


def _limit(value: int | None) -> int | None:
    """The limit, or None: Lightning writes -1 for no limit."""
    return value if value is not None and value > 0 else None


def _has_class_named(thing: Any, name: str) -> bool:
    return any(cls.__name__ == name for cls in type(thing).__mro__)
