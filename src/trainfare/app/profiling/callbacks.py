"""Measure a training from a callback of its framework, where `with trainfare.profile()` does not fit.

Each class derives from the framework's own Callback, but only once one is made: naming them imports no framework. A
callback begins and ends a measurement; what is measured, the hooks see, as they do everywhere else. It keeps out of
what runs at every batch: in Keras a callback that does makes the loop wait for the device.
"""

import functools
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self

from trainfare.app.profiling.in_process import InCode
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.settings import Settings


class _Callback:
    """What they share. The training goes on to its end, unless `stop` is said; a callback measures one training."""

    _homes: ClassVar[tuple[str, ...]]
    """Modules that may hold the framework's Callback, the usual one first."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Of a class that is also the framework's own."""
        ours: Any = cls
        kind = ours if hasattr(ours, "_is_native") else _native(ours, _module(cls._homes))
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
        self._measurement = InCode(iterations=iterations, on=on, settings=settings)
        self._stop = stop
        self._begun = self._stop_now = False
        self._measurement.prepare()

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """For a launcher that sends it to the processes that it starts: there it is as new."""
        return functools.partial(_made_by_us(type(self)), **self._options), ()

    @property
    def profile(self) -> Profile | None:
        """None until enough was seen or the training ended, and where nothing could be kept, which is a warning."""
        return self._measurement.profile

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._unharmed(lambda: self._measurement.begin(when_enough=self._enough))

    def _end(self, error: type[BaseException] | None = None) -> None:
        self._unharmed(lambda: self._measurement.end(error))

    def _enough(self) -> None:
        self._stop_now = self._stop
        self._end()

    def _unharmed(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 # the training goes on, whatever is wrong with us
            warnings.warn(f"this training is not measured: {error}", stacklevel=4)


class KerasCallback(_Callback):
    """For `model.fit(…, callbacks=[trainfare.KerasCallback()])`, in Keras 3 and in Keras 2 (`tf_keras`)."""

    _homes = ("keras.callbacks", "tf_keras.callbacks")
    model: Any

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 # as Keras calls it
        self._begin()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 # as Keras calls it
        self._end()

    def _enough(self) -> None:
        super()._enough()
        if self._stop_now:
            self.model.stop_training = True


class LightningCallback(_Callback):
    """For `Trainer(callbacks=[trainfare.LightningCallback()])`, of `lightning` and of `pytorch_lightning`."""

    _homes = ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 # as Lightning calls it
        """Before the optimizers and their schedules are made."""
        if stage == "fit":
            self._begin()

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self._stop_now:
            trainer.should_stop = True

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002 # as above
        self._end(type(exception))

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 # as Lightning calls it
        if stage == "fit":
            self._end()


class TransformersCallback(_Callback):
    """For `Trainer(callbacks=[trainfare.TransformersCallback()])` of Hugging Face."""

    _homes = ("transformers.trainer_callback",)

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 # as it is called
        if self._stop_now:
            control.should_training_stop = True

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._end()


@functools.cache
def _native(ours: Any, home: str) -> Any:
    module = importlib.import_module(home)
    native = module.TrainerCallback if hasattr(module, "TrainerCallback") else module.Callback
    return type(ours.__name__, (ours, native), {"_is_native": True, "__module__": ours.__module__})


def _made_by_us(native: type[_Callback]) -> type[_Callback]:
    """The class that can be named, of one that was made."""
    return next(kind for kind in native.__mro__ if "_is_native" not in vars(kind))


def _module(homes: tuple[str, ...]) -> str:
    """The one that the program has imported; else the first that is installed.

    Keras 2 goes before Keras 3, which TensorFlow imports unasked; a callback of Keras 2 serves both.
    """
    packages = {home.partition(".")[0]: home for home in homes}
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    if "tf_keras" in packages and ("tf_keras" in sys.modules or legacy):
        return packages["tf_keras"]
    imported = [home for name, home in packages.items() if name in sys.modules]
    installed = [home for name, home in packages.items() if importlib.util.find_spec(name) is not None]
    if not imported + installed:
        raise UsageError(f"this callback needs {' or '.join(packages)}, which is not installed here.")
    return (imported + installed)[0]
