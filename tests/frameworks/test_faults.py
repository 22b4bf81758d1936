"""A hook into Keras that fails is told, and the training goes on to its end."""

import sys
from pathlib import Path

import pytest

from tests.frameworks.runs import run
from trainfare.profiler.events import what_was_seen

pytest.importorskip("keras")
pytestmark = pytest.mark.heavy

PROGRAM = """
import os, sys, keras, numpy as np
from _trainfare_probe import keras_hooks, recorder, stop
def broken(*args): raise LookupError("ours")
keras_hooks.KerasListener.{place} = broken
path = os.environ["TRAINFARE_PROBE_EVENTS"]
keras_hooks.listen(keras, recorder.Recorder(path), stop=lambda: stop.Stop(path, None), trace=False)
data = np.ones((40, 4), "float32"), np.ones((40, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(*data, batch_size=4, epochs=2, validation_data=data, verbose=0)
print(len(history.epoch), "epochs")
"""


@pytest.mark.parametrize(
    "place", ["_fit_began", "_data_made", "_training_began", "_batch_ended", "_validation_began", "write_facts"]
)
def test_hook_that_fails_never_reaches_keras(place: str, tmp_path: Path) -> None:
    command = ["env", "KERAS_BACKEND=torch", sys.executable, "-c", PROGRAM.format(place=place)]
    measured = run(command, iterations=1000, trace=False, directory=tmp_path)
    assert (measured.ending, "2 epochs" in measured.log.text()) == ("finished", True), measured.log.text()
    assert [trouble for trouble in what_was_seen(measured.events).troubles if "ours" in trouble]
