"""The hooks into the Trainer of Hugging Face: its plan, its metrics and its checkpoints.

Times come from `torch_hooks.py`. No callback is added to the trainer: the handler of its callbacks is wrapped.
"""

from __future__ import annotations

import functools
import importlib
import math
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
    """Install the hooks; `trainer` is the module of the class."""
    listener = importlib.import_module(f"{__package__}.torch_hooks").TorchListener.current
    module: Any = trainer
    resuming = importlib.import_module(f"{__package__}.resuming")
    if resuming.checkpoint_path() is not None:
        module.Trainer.train = resuming.resume_by_argument(module.Trainer.train, "resume_from_checkpoint", 1)
    if listener is None:
        return
    handler = module.CallbackHandler
    plan, epoch = listener.guarded(_write_plan), listener.guarded(_write_epoch)
    call_all = handler.call_event

    @functools.wraps(call_all)
    def call_and_record(handler: Any, event: str, args: Any, state: Any, control: Any, **facts: Any) -> Any:
        if event == "on_evaluate":
            epoch(recorder, state, facts.get("metrics"))
        result = call_all(handler, event, args, state, control, **facts)
        if event == "on_train_begin":  # last, because TransformersCallback may begin a measurement in it
            plan(recorder, args, handler.callbacks)
            listener.guarded(_note_tf32)(args)
            listener.guarded(listener.losses_divided_by)(args.gradient_accumulation_steps)
        return result

    handler.call_event = call_and_record
    name = "_save_checkpoint"  # there is no public function that saves the whole state
    setattr(module.Trainer, name, listener.timing_checkpoint(getattr(module.Trainer, name), _saves_everything))


def _saves_everything(args: Any, _options: Any) -> bool:
    """The checkpoint holds the optimizer too, so that the Trainer can go on from it."""
    return not getattr(args[0].args, "save_only_model", False)


def _write_plan(recorder: Recorder, args: Any, callbacks: list[Any]) -> None:
    stopping = next((one for one in callbacks if hasattr(one, "early_stopping_patience")), None)
    by_steps = args.max_steps > 0
    recorder.add(
        "plan",
        epochs=None if by_steps else _plain(args.num_train_epochs),
        iterations=args.max_steps if by_steps else None,
        source=f"argument {'max_steps' if by_steps else 'num_train_epochs'} of the Trainer",
        early_stopping=None
        if stopping is None
        else {"metric": args.metric_for_best_model, "patience": stopping.early_stopping_patience},
        schedule=str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
    )


def _note_tf32(args: Any) -> None:
    """With `torch_compile` the Trainer allows TF32 on a GPU that has it, unless the arguments say something else."""
    if args.torch_compile and ((args.tf32 is None and not args.fp16) or args.bf16):
        importlib.import_module(f"{__package__}.torch_precision").allow_on_gpus()


def _plain(number: float) -> float:
    """A whole number of epochs as an integer."""
    return int(number) if number == int(number) else float(number)


def _write_epoch(recorder: Recorder, state: Any, metrics: dict[str, Any] | None) -> None:
    """Record the metrics of an epoch. An evaluation in the middle of an epoch counts until a later one replaces it."""
    if not metrics or not state.epoch:
        return
    values = {name: float(value) for name, value in metrics.items() if isinstance(value, (int, float))}
    values.pop("epoch", None)
    recorder.add("epoch", number=max(1, math.ceil(state.epoch)), metrics=values)
