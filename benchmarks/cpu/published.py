"""Published epochs of five Keras examples on 8, 16, 32 and 64 vCPUs of one CPU.

Source: Max Woolf, "Benchmarking TensorFlow on Cloud CPUs", July 2017, https://minimaxir.com/2017/07/cpu-or-gpu/, with
logs in https://github.com/minimaxir/deep-learning-cpu-gpu-benchmark (MIT licence): Google's n1-highcpu machines with
Skylake CPUs, TensorFlow 1.2 compiled for them, and Keras 2. The figures below are the median seconds of an epoch, which
includes a validation pass.
"""

from dataclasses import dataclass

from trainfare.catalog.cpu_facts import load_cpus
from trainfare.model.machine import VmType


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEpochs:
    """The seconds of an epoch by vCPUs."""

    batch_size: int
    samples: int
    validation_samples: int
    seconds: dict[int, float]

    @property
    def iterations(self) -> float:
        """An epoch in iterations: a validation has the forward pass only, a third of the work."""
        return (self.samples + self.validation_samples / 3) / self.batch_size


EPOCHS = {
    "mnist_mlp": PublishedEpochs(
        batch_size=128,
        samples=60_000,
        validation_samples=10_000,
        seconds={8: 4.375, 16: 3.512, 32: 4.972, 64: 4.237},
    ),
    "mnist_cnn": PublishedEpochs(
        batch_size=128,
        samples=60_000,
        validation_samples=10_000,
        seconds={8: 52.86, 16: 35.49, 32: 33.22, 64: 42.12},
    ),
    "cifar10_cnn": PublishedEpochs(
        batch_size=32,
        samples=50_000,
        validation_samples=10_000,
        seconds={8: 104.4, 16: 67.81, 32: 58.04, 64: 63.69},
    ),
    "imdb_bidirectional_lstm": PublishedEpochs(
        batch_size=32,
        samples=25_000,
        validation_samples=25_000,
        seconds={8: 144.1, 16: 128.3, 32: 136.4, 64: 139.6},
    ),
    "lstm_text_generation": PublishedEpochs(
        batch_size=128,
        samples=200_285,
        validation_samples=0,
        seconds={8: 132.5, 16: 125.3, 32: 141.5, 64: 134.9},
    ),
}
"""The last one was added after the constants of `estimator/cpu` had been chosen."""
CPU = "Xeon @ 2.00GHz (Skylake)"


def machine(vcpus: int) -> VmType:
    return VmType(
        provider="gcp",
        name=f"n1-highcpu-{vcpus}",
        gpu=None,
        gpus=0,
        vcpus=vcpus,
        memory_gib=0.9 * vcpus,
        cpu=load_cpus()[CPU],
    )
