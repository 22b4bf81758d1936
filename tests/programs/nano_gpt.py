"""A language model in the manner of nanoGPT: settings are globals that `--key=value` overrides, random crops of one
long text, micro steps, a loss scaler, no loader, and a loop without an end of its own."""
# ruff: noqa: B007 # written in the manner of its model
# mypy: ignore-errors

import json
import sys

import torch
from torch import nn

eval_interval = 2000
gradient_accumulation_steps = 2
batch_size = 12
block_size = 64
max_iters = 600000
compile = False  # noqa: A001 # the name in nanoGPT
learning_rate = 1e-3
for word in sys.argv[1:]:
    key, value = word[2:].split("=")
    assert key in globals(), f"Unknown config key: {key}"
    globals()[key] = type(globals()[key])(value == "True" if key == "compile" else value)

torch.manual_seed(1)
torch.set_num_threads(1)
text = torch.randint(50, (5000,))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 16), nn.Embedding(block_size, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(16, 50)

    def forward(self, idx, targets=None):
        x = self.tokens(idx) + self.positions(torch.arange(idx.shape[1]))
        logits = self.head(self.block(x))
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch():
    at = torch.randint(len(text) - block_size, (batch_size,))
    x = torch.stack([text[i : i + block_size] for i in at])
    return x, torch.stack([text[i + 1 : i + 1 + block_size] for i in at])


@torch.no_grad()
def estimate_loss():
    model.eval()
    found = [model(*get_batch())[1].item() for _ in range(2)]
    model.train()
    return sum(found) / 2


model = Model()
scaler = torch.amp.GradScaler("cpu", enabled=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
if compile:
    model = torch.compile(model, backend="eager")
losses = []
X, Y = get_batch()
iter_num = 0
try:
    while True:
        if iter_num % eval_interval == 0:
            estimate_loss()
        total = 0.0
        for micro_step in range(gradient_accumulation_steps):
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
            X, Y = get_batch()
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total)
        iter_num += 1
        if iter_num > max_iters:
            break
finally:
    print(json.dumps({"losses": losses}), flush=True)
