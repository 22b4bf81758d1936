"""Lightning on a tiny model, with the arguments of its trainer as JSON; prints the loss of every batch."""
# mypy: ignore-errors

import json
import logging
import sys
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
torch.manual_seed(1)
losses = []


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, _index):
        loss = nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


trainer = lightning.Trainer(
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    **json.loads(sys.argv[1]),
)
try:
    trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(100, 8), torch.randn(100, 1)), batch_size=5))
finally:
    print(json.dumps({"losses": losses}), flush=True)
