"""A training with Lightning that saves after each epoch. Nothing in it knows how to go on: its Trainer does.

    lightning_resumes.py [--hold-at STEP]

If it is to hold at a step, it trains on from there, slowly; once it goes on from a checkpoint it does not hold any
more. So a test can take its time.
"""
# mypy: ignore-errors

import argparse
import logging
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--hold-at", type=int)
arguments = parser.parse_args()

warnings.simplefilter("ignore")
import lightning.pytorch as lightning  # noqa: E402 # its warnings are of no use here
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402 # its warnings are of no use here

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
lightning.seed_everything(1, verbose=False)
data = TensorDataset(torch.randn(80, 8), torch.randn(80, 1))


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def on_train_start(self):
        self.goes_on = self.global_step > 0
        print("from step", self.global_step, flush=True)

    def training_step(self, batch, _number):
        if arguments.hold_at is not None and self.global_step >= arguments.hold_at and not self.goes_on:
            time.sleep(2.0)
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


model = Model()
saving = ModelCheckpoint(dirpath="out", filename="last", enable_version_counter=False, every_n_epochs=1)
trainer = lightning.Trainer(
    accelerator="cpu",
    max_epochs=5,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[saving],
)
trainer.fit(model, DataLoader(data, batch_size=8))
Path("weights.bin").write_bytes(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
