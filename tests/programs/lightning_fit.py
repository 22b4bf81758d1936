"""Lightning with a sanity check, validation, early stopping and checkpoints; prints its own measurements as JSON.

`--max-steps N` plans by steps instead of epochs; `--old` imports it as `pytorch_lightning`.
"""
# mypy: ignore-errors

import argparse
import contextlib
import json
import logging
import tempfile
import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--max-steps", type=int)
parser.add_argument("--old", action="store_true")
parser.add_argument("--measure", choices=["callback", "block"], help="measures itself, for 15 iterations")
parser.add_argument("--stop", action="store_true", help="and ends after them")
arguments = parser.parse_args()

warnings.simplefilter("ignore")
if arguments.old:
    import pytorch_lightning as lightning
    from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
else:
    import lightning.pytorch as lightning
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
lightning.seed_everything(1, verbose=False)
SAMPLES, BATCH = 80, 8
data = TensorDataset(torch.randn(SAMPLES, 16), torch.randn(SAMPLES, 1))
ends, losses, own_saves, own_validations, metrics = [], [], [], [], []


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch, _number):
        time.sleep(0.006)
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        losses.append(loss.item())
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _number):
        time.sleep(0.01)
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def on_validation_model_eval(self):
        self.validation = time.monotonic()
        super().on_validation_model_eval()

    def on_validation_model_train(self):
        super().on_validation_model_train()
        if not self.trainer.sanity_checking:
            own_validations.append(time.monotonic() - self.validation)

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            metrics.append(float(self.trainer.callback_metrics["val_loss"]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)]

    def optimizer_step(self, *args, **options):
        try:
            super().optimizer_step(*args, **options)
        finally:
            ends.append(time.monotonic())


class Saver(ModelCheckpoint):
    def _save_checkpoint(self, trainer, path):
        begun = time.monotonic()
        super()._save_checkpoint(trainer, path)
        own_saves.append(time.monotonic() - begun)


own_callbacks = [EarlyStopping("val_loss", patience=4)]
measured = None
if arguments.measure:
    import trainfare

    kind = trainfare.LightningCallback if arguments.measure == "callback" else trainfare.profile
    measured = kind(iterations=15, **({"stop": True} if arguments.stop else {}))
    own_callbacks += [measured] if arguments.measure == "callback" else []
model = Model()
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        max_epochs=None if arguments.max_steps else 7,
        max_steps=arguments.max_steps or -1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[*own_callbacks, Saver(dirpath=folder)],
    )
    callbacks = len(trainer.callbacks)
    try:
        loaders = DataLoader(data, batch_size=BATCH, shuffle=True), DataLoader(data, batch_size=20, num_workers=0)
        with measured if arguments.measure == "block" else contextlib.nullcontext():
            trainer.fit(model, *loaders)
    finally:
        print(
            json.dumps(
                {
                    "ends": ends,
                    "losses": losses,
                    "saves": own_saves,
                    "validations": own_validations,
                    "val_loss": metrics,
                    "profile": measured and measured.profile and measured.profile.id,
                    "callbacks": len(trainer.callbacks) - callbacks,
                    "parameters": sum(p.numel() for p in model.parameters()),
                }
            ),
            flush=True,
        )
