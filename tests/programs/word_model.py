"""A word-level language model in the manner of PyTorch's example: no loader and no optimizer, sequences in the first
dimension, arguments of argparse, and `20/279 batches` among its output."""
# ruff: noqa: B007 # written in the manner of its model
# mypy: ignore-errors

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--batch_size", type=int, default=20)
parser.add_argument("--bptt", type=int, default=35)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
torch.manual_seed(1)
torch.set_num_threads(1)
data = torch.randint(50, (args.bptt * 279 + 1, args.batch_size))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(50, 16), nn.GRU(16, 16), nn.Linear(16, 50)

    def forward(self, tokens, hidden):
        out, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(out).flatten(0, 1), hidden


model = Model()
criterion = nn.CrossEntropyLoss()


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def train():
    model.train()
    hidden = torch.zeros(1, args.batch_size, 16)
    for batch, i in enumerate(range(0, data.size(0) - 1, args.bptt)):
        inputs, targets = get_batch(data, i)
        model.zero_grad()
        output, hidden = model(inputs, hidden.detach())
        loss = criterion(output, targets)
        loss.backward()
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-args.lr)
        if batch % 20 == 0:
            print(f"| epoch {epoch} | {batch}/{len(data) // args.bptt} batches | loss {loss.item():.2f}", flush=True)


for epoch in range(1, args.epochs + 1):
    train()
