"""Two optimizers that take turns, and no loader."""
# mypy: allow-untyped-calls

import json
import time

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
generator = nn.Linear(4, 8)
critic = nn.Linear(8, 1)
generator_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
ends, losses = [], []
try:
    for _ in range(40):
        time.sleep(0.003)
        noise = torch.randn(16, 4)
        critic_optimizer.zero_grad()
        loss = critic(generator(noise).detach()).mean() - critic(torch.randn(16, 8)).mean()
        loss.backward()
        losses.append(loss.item())
        try:
            critic_optimizer.step()
        finally:
            ends.append(time.monotonic())
        time.sleep(0.003)
        generator_optimizer.zero_grad()
        (-critic(generator(noise)).mean()).backward()
        generator_optimizer.step()
finally:
    parameters = sum(p.numel() for model in (generator, critic) for p in model.parameters())
    print(json.dumps({"ends": ends, "losses": losses, "parameters": parameters}), flush=True)
