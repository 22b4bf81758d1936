"""A failing hook into Keras is recorded, and the training goes on to its end."""

from pathlib import Path

import pytest

from tests.frameworks.runs import run
from tests.needs import need_installed
from tests.pythons import python_with
from trainfare.profiler.events import summarize_events

need_installed("keras")
pytestmark = pytest.mark.heavy

PROGRAM = """
import os, sys, keras, numpy as np
from _trainfare_probe import keras_hooks, recorder, stop
def broken(*args): raise LookupError("broken hook")
keras_hooks.KerasListener.{place} = broken
path = os.environ["TRAINFARE_PROBE_EVENTS"]
keras_hooks.listen(keras, recorder.Recorder(path), new_stop=lambda: stop.Stop(path, None), trace=False)
data = np.ones((40, 4), "float32"), np.ones((40, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(*data, batch_size=4, epochs=2, validation_data=data, verbose=0)
print(len(history.epoch), "epochs")
"""


@pytest.mark.parametrize(
    "place", ["_fit_began", "_data_made", "_training_began", "_batch_ended", "_validation_began", "write_facts"]
)
def test_failing_hook_is_recorded_and_never_breaks_keras(place: str, tmp_path: Path) -> None:
    command = [
        "env",
        "KERAS_BACKEND=torch",
        python_with("keras", KERAS_BACKEND="torch"),
        "-c",
        PROGRAM.format(place=place),
    ]
    measured = run(command, iterations=1000, trace=False, directory=tmp_path)
    assert (measured.ending, "2 epochs" in measured.log.text()) == ("finished", True), measured.log.text()
    assert [trouble for trouble in summarize_events(measured.events).troubles if "broken hook" in trouble]
