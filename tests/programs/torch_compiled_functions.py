"""A language model without a data loader in which functions are compiled; the argument says which.

step      the loss, from the tokens of a batch and a model that it uses by its name
complete  the same without graph breaks
argument  the loss, from the model and a batch in a dictionary
in_place  the module itself, by `Module.compile`
method    its forward pass
update    only the update of the gradients, which is given weights and not data
"""
# mypy: ignore-errors

import sys

import torch
from torch import nn

ROWS, COLUMNS, WORDS = 6, 16, 50


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, 32), nn.Linear(32, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.embedding(tokens)))


@torch.compile(backend="eager")
def clip(gradient: torch.Tensor) -> torch.Tensor:
    return gradient / (gradient.norm() + 1)


def loss(tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def loss_of(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(network(batch["tokens"]).flatten(0, 1), batch["following"].flatten())


kind = sys.argv[1]
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compute = loss
if kind in ("step", "complete"):
    compute = torch.compile(loss, backend="eager", fullgraph=kind == "complete")
elif kind == "argument":
    compiled = torch.compile(loss_of, backend="eager")
    compute = lambda tokens, following: compiled(model, {"tokens": tokens, "following": following})  # noqa: E731 # a small program, as people write it
elif kind == "in_place":
    model.compile(backend="eager")
elif kind == "method":
    model.forward = torch.compile(model.forward, backend="eager")

for _ in range(100):
    tokens = torch.randint(0, WORDS, (ROWS, COLUMNS + 1))
    result = compute(tokens[:, :-1], tokens[:, 1:])
    optimizer.zero_grad()
    result.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.grad.copy_(clip(parameter.grad))
    optimizer.step()
