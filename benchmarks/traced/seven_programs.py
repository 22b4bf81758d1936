"""The operations of one training iteration of the seven programs of `seven_models_k80_p100_v100`.

The table tells times only. Its programs are public (stanford-futuredata/gavel, MIT), so what an iteration launches can
be put back: the networks are written here anew, as their authors describe them, and traced by the probe's own tracer
on tensors without memory. What commands and code of the programs say is taken over (batch, image side, layers,
optimizer); where it depends on the data, an assumption stands with its reason next to the constant.

    python -m benchmarks.traced.seven_programs

writes what `measurements/seven_models.py` reads, one line a program and batch: `{"program", "batch_size",
"gradient_bytes", "operations"}`. It takes a minute.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainfare.measurements.seven_models import OPERATIONS
from trainfare.probe.torch_operations import Tracer

META = torch.device("meta")
UPLOAD = "host_to_device"

BATCHES: dict[str, tuple[int, ...]] = {
    "ResNet-18": (16, 32, 64, 128, 256),
    "ResNet-50": (16, 32, 64, 128),
    "Transformer": (16, 32, 64, 128, 256),
    "LM": (5, 10, 20, 40, 80),
    "Recommendation": (512, 1024, 2048, 4096, 8192),
    "CycleGAN": (1,),
    "A3C": (1,),
}

SENTENCE = {16: 22, 32: 24, 64: 26, 128: 28, 256: 30}
"""Tokens of the longest sentence of a batch, to which all are padded. Sentences of Multi30k have 12 words on average
(Elliott 2016), two tokens more for start and end; the longest of so many is an assumption."""
WORDS = 3000
"""Of either language that occur more than five times in Multi30k; roughly."""
TOKENS, WIDTH, LENGTH = 33278, 200, 35
"""WikiText-2 (Merity 2016), and the example's defaults."""
ITEMS, HIDDEN = 20108, 200
"""Of MovieLens-20M with ratings above 3.5 (Liang 2018). A batch takes those that its users have: all, is assumed."""
FRAMES = 20
"""That A3C plays before an update."""


@dataclass(frozen=True, slots=True)
class Program:
    """Networks with gradients, and what one iteration does."""

    networks: Sequence[nn.Module]
    iterate: Callable[[], None]
    uploaded_bytes: float
    """Brought from the host in every iteration."""


def traced(name: str, batch: int) -> dict[str, Any]:
    program = PROGRAMS[name](batch)
    program.iterate()  # the state of optimizers is made in the first
    tracer = Tracer(torch, lambda: True)
    _TRACERS.append(tracer)
    tracer.enter()
    try:
        program.iterate()
    finally:
        _TRACERS.clear()
        facts = tracer.leave()
    upload = {
        "kind": "copy", "dtype": "float32", "flops": 0.0, "bytes": program.uploaded_bytes, "count": 1, "name": UPLOAD,
        "part": "forward",
    }  # fmt: skip
    gradient = sum(4 * weight.numel() for net in program.networks for weight in net.parameters())
    operations = [*facts["operations"], upload]
    return {"program": name, "batch_size": batch, "gradient_bytes": gradient, "operations": operations}


_TRACERS: list[Tracer] = []
"""The tracer that is called at backward passes and updates, as the probe's hooks call it in a user's program."""


def _backward(loss: Tensor) -> None:
    for tracer in _TRACERS:
        tracer.backward_started()
    loss.backward()
    for tracer in _TRACERS:
        tracer.backward_ended()


def _update(optimizer: torch.optim.Optimizer) -> None:
    for tracer in _TRACERS:
        tracer.step_started()
    optimizer.step()
    for tracer in _TRACERS:
        tracer.step_ended()


def _zero(optimizer: torch.optim.Optimizer) -> None:
    """As PyTorch did in 2019: gradients stay and are written over."""
    optimizer.zero_grad(set_to_none=False)


def _labels(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.long, device=META)


def _images(*shape: int) -> Tensor:
    return torch.empty(shape, device=META)


# Residual networks (He 2015)


class Residual(nn.Module):
    """Convolutions of the given kernel sizes with norms, and a skip connection around them."""

    def __init__(self, channels: Sequence[int], kernels: Sequence[int], stride: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        strided = kernels.index(3)
        for place, kernel in enumerate(kernels):
            if place:
                layers.append(nn.ReLU(inplace=True))
            step = stride if place == strided else 1
            layers.append(nn.Conv2d(channels[place], channels[place + 1], kernel, step, kernel // 2, bias=False))
            layers.append(nn.BatchNorm2d(channels[place + 1]))
        self.layers = nn.Sequential(*layers)
        self.round: nn.Module = nn.Identity()
        if stride > 1 or channels[0] != channels[-1]:
            conv = nn.Conv2d(channels[0], channels[-1], 1, stride, bias=False)
            self.round = nn.Sequential(conv, nn.BatchNorm2d(channels[-1]))

    def forward(self, image: Tensor) -> Tensor:
        return functional.relu(self.layers(image) + self.round(image))


def resnet18() -> nn.Module:
    """For images of 32 px: the first convolution is small, and nothing is pooled before the end."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inward = 64
    for outward in (64, 128, 256, 512):
        layers.append(Residual((inward, outward, outward), (3, 3), 1 + (inward != outward)))
        layers.append(Residual((outward, outward, outward), (3, 3), 1))
        inward = outward
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inward = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            layers.append(Residual((inward, width, width, 4 * width), (1, 3, 1), stride))
            inward = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def _classifying(net: nn.Module, batch: int, side: int) -> Program:
    net = net.to(META)
    images, labels = _images(batch, 3, side, side), _labels(batch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)

    def iterate() -> None:
        _zero(optimizer)
        _backward(functional.cross_entropy(net(images), labels))
        _update(optimizer)

    return Program([net], iterate, 4.0 * images.numel())


# The Transformer of base size (Vaswani 2017)


class Attention(nn.Module):
    """Eight heads of 64, written out; a residual and a norm behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(512, 512) for _ in range(4))
        self.norm = nn.LayerNorm(512)

    def forward(self, here: Tensor, there: Tensor, mask: Tensor) -> Tensor:
        def heads(words: Tensor) -> Tensor:
            batch, length, _ = words.shape
            return words.view(batch, length, 8, 64).permute(2, 0, 1, 3).reshape(-1, length, 64)

        query, key, value = heads(self.query(here)), heads(self.key(there)), heads(self.value(there))
        scores = torch.bmm(query, key.transpose(1, 2)) / 8
        scores = scores.masked_fill(mask.repeat(8, 1, 1), -1e9)
        found = torch.bmm(functional.dropout(functional.softmax(scores, 2), 0.1), value)
        joined = found.view(8, *here.shape[:2], 64).permute(1, 2, 0, 3).reshape(here.shape)
        out: Tensor = self.norm(functional.dropout(self.out(joined), 0.1) + here)
        return out


class Positionwise(nn.Module):
    """Two convolutions of one word each."""

    def __init__(self) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Conv1d(512, 2048, 1), nn.Conv1d(2048, 512, 1)
        self.norm = nn.LayerNorm(512)

    def forward(self, words: Tensor) -> Tensor:
        inner = self.narrow(functional.relu(self.widen(words.transpose(1, 2)))).transpose(1, 2)
        out: Tensor = self.norm(functional.dropout(inner, 0.1) + words)
        return out


class Block(nn.Module):
    """Attention among the words, to those of another sentence where there is one, and each word by itself."""

    def __init__(self, *, decoding: bool) -> None:
        super().__init__()
        self.own, self.across, self.wise = Attention(), Attention() if decoding else None, Positionwise()

    def forward(self, words: Tensor, source: Tensor, padded: Tensor, kept: Tensor) -> Tensor:
        words = self.own(words, words, padded) * kept
        if self.across is not None:
            words = self.across(words, source, padded) * kept
        out: Tensor = self.wise(words) * kept
        return out


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, 512, 0), nn.Embedding(WORDS, 512, 0)
        self.encoding = nn.ModuleList(Block(decoding=False) for _ in range(6))
        self.decoding = nn.ModuleList(Block(decoding=True) for _ in range(6))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padded = source.eq(0).unsqueeze(1).expand(-1, source.shape[1], -1)
        here, there = (words.ne(0).float().unsqueeze(-1) for words in (source, target))
        inner = self.source(source) + _images(*source.shape, 512)
        for block in self.encoding:
            inner = block(inner, inner, padded, here)
        out = self.target(target) + _images(*target.shape, 512)
        for block in self.decoding:
            out = block(out, inner, padded, there)
        words: Tensor = functional.linear(out, self.target.weight) * 512**-0.5
        return words


def _translating(batch: int) -> Program:
    net = Transformer().to(META)
    source, target = _labels(batch, SENTENCE[batch]), _labels(batch, SENTENCE[batch])
    optimizer = torch.optim.Adam(net.parameters(), betas=(0.9, 0.98), eps=1e-9)

    def iterate() -> None:
        _zero(optimizer)
        words = net(source, target).view(-1, WORDS)
        _backward(functional.cross_entropy(words, target.view(-1), ignore_index=0, reduction="sum"))
        words.detach().max(1)
        _update(optimizer)

    return Program([net], iterate, 32.0 * source.numel())


# PyTorch's example of a language model


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(TOKENS, WIDTH), nn.LSTM(WIDTH, WIDTH, 2, dropout=0.2)
        self.out = nn.Linear(WIDTH, TOKENS)

    def forward(self, words: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
        inner, _ = self.layers(functional.dropout(self.words(words), 0.2), state)
        out: Tensor = self.out(functional.dropout(inner, 0.2))
        return out


def _telling(batch: int) -> Program:
    net = LanguageModel().to(META)
    words, state = _labels(LENGTH, batch), (_images(2, batch, WIDTH), _images(2, batch, WIDTH))
    optimizer = torch.optim.SGD(net.parameters(), lr=20)

    def iterate() -> None:
        _zero(optimizer)
        _backward(functional.cross_entropy(net(words, state).view(-1, TOKENS), words.view(-1)))
        nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        _update(optimizer)

    return Program([net], iterate, 16.0 * words.numel())


# An autoencoder of what users watched


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Embedding(ITEMS, HIDDEN), nn.Embedding(ITEMS, HIDDEN)
        self.inward_bias, self.outward_bias = nn.Parameter(_images(HIDDEN)), nn.Parameter(_images(ITEMS))

    def forward(self, watched: Tensor, items: Tensor) -> Tensor:
        noisy = functional.dropout(functional.normalize(watched), 0.5)
        inner = torch.tanh(functional.linear(noisy, self.inward(items).t(), self.inward_bias))
        return functional.linear(inner, self.outward(items), self.outward_bias.index_select(0, items))


def _recommending(batch: int) -> Program:
    net = Autoencoder().to(META)
    items, watched = _labels(ITEMS), _images(batch, ITEMS)
    decayed = {"params": [net.inward.weight, net.outward.weight], "weight_decay": 2e-5}
    groups: list[dict[str, Any]] = [decayed, {"params": [net.inward_bias, net.outward_bias]}]
    optimizer = torch.optim.Adam(groups, lr=1e-3)

    def iterate() -> None:
        _zero(optimizer)
        # What users watched comes as a list of places and is spread out on the GPU.
        spread = torch.zeros_like(watched)
        _backward(functional.binary_cross_entropy_with_logits(net(spread, items), spread, reduction="sum"))
        _update(optimizer)

    return Program([net], iterate, 20.0 * 73 * batch)


# Two pairs of networks that imitate each other (Zhu 2017)


class Imitating(nn.Module):
    """A residual block with norms of single images."""

    def __init__(self) -> None:
        super().__init__()
        halves = [(nn.ReflectionPad2d(1), nn.Conv2d(256, 256, 3), nn.InstanceNorm2d(256)) for _ in range(2)]
        self.layers = nn.Sequential(*halves[0], nn.ReLU(inplace=True), *halves[1])

    def forward(self, image: Tensor) -> Tensor:
        out: Tensor = image + self.layers(image)
        return out


def _generator() -> nn.Module:
    layers: list[nn.Module] = [nn.ReflectionPad2d(3), nn.Conv2d(3, 64, 7), nn.InstanceNorm2d(64), nn.ReLU(inplace=True)]
    for width in (128, 256):
        layers += [nn.Conv2d(width // 2, width, 3, 2, 1), nn.InstanceNorm2d(width), nn.ReLU(inplace=True)]
    layers += [Imitating() for _ in range(9)]
    for width in (128, 64):
        layers += [nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, width, 3, 1, 1)]
        layers += [nn.InstanceNorm2d(width), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh())


def _discriminator() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True)]
    for width in (128, 256, 512):
        layers += [nn.Conv2d(width // 2, width, 4, 2, 1), nn.InstanceNorm2d(width), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.ZeroPad2d((1, 0, 1, 0)), nn.Conv2d(512, 1, 4, padding=1))


def _imitating(batch: int) -> Program:
    there, back, judge_a, judge_b = (make().to(META) for make in (_generator,) * 2 + (_discriminator,) * 2)
    a, b = _images(batch, 3, 256, 256), _images(batch, 3, 256, 256)
    generating = torch.optim.Adam([*there.parameters(), *back.parameters()], lr=2e-4)
    judging = [torch.optim.Adam(judge.parameters(), lr=2e-4) for judge in (judge_a, judge_b)]
    truth = _images(batch, 1, 16, 16)

    def iterate() -> None:
        _zero(generating)
        same = functional.l1_loss(back(a), a) + functional.l1_loss(there(b), b)
        as_b, as_a = there(a), back(b)
        fooled = functional.mse_loss(judge_b(as_b), truth) + functional.mse_loss(judge_a(as_a), truth)
        cycle = functional.l1_loss(back(as_b), a) + functional.l1_loss(there(as_a), b)
        _backward(fooled / 2 + 5 * cycle + 2.5 * same)
        _update(generating)
        for judge, optimizer, real, fake in ((judge_a, judging[0], a, as_a), (judge_b, judging[1], b, as_b)):
            _zero(optimizer)
            doubt = functional.mse_loss(judge(real), truth) + functional.mse_loss(judge(fake.detach()), truth)
            _backward(doubt / 2)
            _update(optimizer)

    return Program([there, back, judge_a, judge_b], iterate, 8.0 * a.numel())


# A3C on Pong (Mnih 2016): a player that sees single frames of 80 px


class Player(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shapes = ((1, 32, 5, 2), (32, 32, 5, 1), (32, 64, 4, 1), (64, 64, 3, 1))
        self.eyes = nn.ModuleList(nn.Conv2d(inward, out, kernel, 1, pad) for inward, out, kernel, pad in shapes)
        self.memory, self.value, self.action = nn.LSTMCell(1024, 512), nn.Linear(512, 1), nn.Linear(512, 6)

    def forward(self, frame: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        for eye in self.eyes:
            frame = functional.relu(functional.max_pool2d(eye(frame), 2))
        state = self.memory(frame.flatten(1), state)
        return self.value(state[0]), self.action(state[0]), state


def _playing(batch: int) -> Program:
    """The update is done by the host, whose network all players share: it is copied out and in, tensor by tensor."""
    net = Player().to(META)
    frame, first = _images(batch, 1, 80, 80), (_images(batch, 512), _images(batch, 512))
    copies = [torch.empty_like(weight) for weight in net.parameters()]

    def iterate() -> None:
        with torch.no_grad():
            for weight, copy in zip(net.parameters(), copies, strict=True):
                weight.copy_(copy)
        state = first
        seen = []
        for _ in range(FRAMES):
            value, action, state = net(frame, state)
            chances, logs = functional.softmax(action, 1), functional.log_softmax(action, 1)
            seen.append((value, logs.gather(1, _labels(batch, 1)), -(logs * chances).sum(1)))
        net(frame, state)
        returned = gain = torch.zeros(batch, 1, device=META)
        policy: Tensor | float = 0.0
        worth: Tensor | float = 0.0
        for value, log, entropy in reversed(seen):
            returned = 0.99 * returned + 1
            worth = worth + 0.5 * (returned - value).pow(2)
            gain = gain * 0.99 + (1 + 0.99 * value.detach() - value.detach())
            policy = policy - log * gain - 0.01 * entropy
        net.zero_grad(set_to_none=False)
        _backward((policy + 0.5 * worth).sum())  # type: ignore[union-attr] # both are tensors by now
        with torch.no_grad():
            for weight, copy in zip(net.parameters(), copies, strict=True):
                copy.copy_(weight.grad if weight.grad is not None else weight)

    return Program([net], iterate, 4.0 * FRAMES * frame.numel())


PROGRAMS: dict[str, Callable[[int], Program]] = {
    "ResNet-18": lambda batch: _classifying(resnet18(), batch, 32),
    "ResNet-50": lambda batch: _classifying(resnet50(), batch, 224),
    "Transformer": _translating,
    "LM": _telling,
    "Recommendation": _recommending,
    "CycleGAN": _imitating,
    "A3C": _playing,
}


def every() -> Iterator[dict[str, Any]]:
    for name, batches in BATCHES.items():
        for batch in batches:
            yield traced(name, batch)


def main() -> None:
    """Without a date in it: the same operations are the same file."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in every())
    OPERATIONS.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
