"""Measures a training from a callback of its framework, where a `with` block does not fit.

Each class derives from the framework's own Callback, but only when an instance is made, so that importing this module
imports no framework. A callback only begins and ends a measurement; the hooks measure, as they do everywhere else. It
has no method that runs at every batch if it can: in Keras such a callback makes the loop wait for the device.
"""

import functools
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self

from trainfare.app.profiling.in_process import InProcessProfiler
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.settings import Settings


class _Callback:
    """Base of the callbacks. Training goes on to its end unless `stop` is True; a callback measures one training."""

    _callback_modules: ClassVar[tuple[str, ...]]
    """Modules that may contain the framework's Callback, the most common first."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """An instance of a class that also derives from the framework's Callback."""
        ours: Any = cls
        kind = (
            ours if hasattr(ours, "_is_generated") else _framework_class(ours, _callback_module(cls._callback_modules))
        )
        made: Self = object.__new__(kind)
        return made

    def __init__(
        self,
        *,
        iterations: int | None = None,
        stop: bool = False,
        on: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"iterations": iterations, "stop": stop, "on": on, "settings": settings}
        self._measurement = InProcessProfiler(iterations=iterations, on=on, settings=settings)
        self._stop = stop
        self._begun = self._stop_now = False
        self._measurement.prepare()

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """Pickles the options only, for a launcher that sends the callback to the processes that it starts."""
        return functools.partial(_importable_class(type(self)), **self._options), ()

    @property
    def profile(self) -> Profile | None:
        """The Profile; None until it is measured or the training ended, and if it could not be saved, which warns."""
        return self._measurement.profile

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._warn_on_error(lambda: self._measurement.begin(on_end=self._target_reached))

    def _end(self, error: type[BaseException] | None = None) -> None:
        self._warn_on_error(lambda: self._measurement.end(error))

    def _target_reached(self) -> None:
        self._stop_now = self._stop
        self._end()

    def _warn_on_error(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 # the training goes on even if measuring fails
            warnings.warn(f"this training is not measured: {error}", stacklevel=4)


class KerasCallback(_Callback):
    """For `model.fit(…, callbacks=[trainfare.KerasCallback()])`, in Keras 3 and in Keras 2 (`tf_keras`)."""

    _callback_modules = ("keras.callbacks", "tf_keras.callbacks")
    model: Any

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 # as Keras calls it
        self._begin()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 # as Keras calls it
        self._end()

    def _target_reached(self) -> None:
        super()._target_reached()
        if self._stop_now:
            self.model.stop_training = True


class LightningCallback(_Callback):
    """For `Trainer(callbacks=[trainfare.LightningCallback()])`, of `lightning` and of `pytorch_lightning`."""

    _callback_modules = ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 # as Lightning calls it
        """Before the optimizers and their schedules are made."""
        if stage == "fit":
            self._begin()

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self._stop_now:
            trainer.should_stop = True

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002 # as Lightning calls it
        self._end(type(exception))

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 # as Lightning calls it
        if stage == "fit":
            self._end()


class TransformersCallback(_Callback):
    """For `Trainer(callbacks=[trainfare.TransformersCallback()])` of Hugging Face."""

    _callback_modules = ("transformers.trainer_callback",)

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 # Transformers calls it with all of these
        if self._stop_now:
            control.should_training_stop = True

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._end()


@functools.cache
def _framework_class(ours: Any, module_name: str) -> Any:
    """A class that derives from ours and from the framework's Callback."""
    module = importlib.import_module(module_name)
    framework_class = module.TrainerCallback if hasattr(module, "TrainerCallback") else module.Callback
    return type(ours.__name__, (ours, framework_class), {"_is_generated": True, "__module__": ours.__module__})


def _importable_class(framework_class: type[_Callback]) -> type[_Callback]:
    """The class of this module from which a generated class derives."""
    return next(kind for kind in framework_class.__mro__ if "_is_generated" not in vars(kind))


def _callback_module(modules: tuple[str, ...]) -> str:
    """The module that the program has imported, else the first one that is installed.

    Keras 2 precedes Keras 3, which TensorFlow imports by itself; a callback of Keras 2 works in both.
    """
    packages = {module_name.partition(".")[0]: module_name for module_name in modules}
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    if "tf_keras" in packages and ("tf_keras" in sys.modules or legacy):
        return packages["tf_keras"]
    imported = [module_name for name, module_name in packages.items() if name in sys.modules]
    installed = [module_name for name, module_name in packages.items() if importlib.util.find_spec(name) is not None]
    if not imported + installed:
        raise UsageError(f"this callback needs {' or '.join(packages)}, which is not installed here.")
    return (imported + installed)[0]
