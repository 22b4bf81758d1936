"""The operations of one training step of a transformer, traced on meta tensors from its published configuration.

The model is that of Hugging Face's transformers (Apache-2.0), without memory and without computing: Llama for gated
layers, GPT-BigCode for plain ones, BERT for encoders. The probe's own tracer counts what the dispatcher launches, so a
configuration gives the same operations as a profile of the program would.

Attention takes the fused kernel, as on a GPU, unless the published program multiplies query and keys itself. Adapters
are low-rank pairs on the attention's query and value layers.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from trainfare.model.profile import Operation
from trainfare.probe.torch_operations import Tracer
from trainfare.profiler.events import read_operations

Dtype = Literal["float32", "float16", "bfloat16"]
Head = Literal["all tokens", "masked tokens", "answer"]
"""What an encoder predicts: every token, the masked ones (15% of them), or the span of an answer."""

MASKED_SHARE = 0.15

ADAPTED = ("q_proj", "v_proj", "c_attn")
"""The layers that get adapters by default in Hugging Face's peft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A configuration as published tables state it."""

    encoder: bool = False
    gated: bool
    """True for feed-forward layers with a gate, as in Llama."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    tied: bool
    sequence: int
    micro_batch: int
    accumulation: int = 1
    dtype: Dtype
    tf32: bool = False
    """True if float32 products may use TF32 units."""
    adapter_rank: int | None = None
    """The rank of adapters on frozen weights; None if all weights are trained."""
    fused_attention: bool = True
    """False if the program has products and softmax of attention as operators of their own."""
    head: Head = "all tokens"
    recomputed: bool = False
    """True if each layer's forward pass is repeated in the backward pass (activation checkpointing)."""


def trace(config: LanguageModel) -> tuple[Operation, ...]:
    """The operations of one step of the optimizer, all accumulated passes included."""
    with torch.device("meta"):
        model = _build(config).to(getattr(torch, config.dtype))
    if config.adapter_rank is not None:
        _add_adapters(model, config.adapter_rank)
    if config.recomputed:
        model.activation_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], foreach=True)
    tokens = torch.zeros((config.micro_batch, config.sequence), dtype=torch.int64, device="meta")
    fused = _fused_attention() if config.fused_attention else nullcontext()
    with _matmul_precision("tf32" if config.tf32 else "ieee"), fused:
        for parameter in model.parameters():
            parameter.grad = torch.empty_like(parameter) if parameter.requires_grad else None
        optimizer.step()  # makes the optimizer's state
        passed = _traced(lambda _: _loss(model, tokens, config.head).backward())
        stepped = _traced(lambda tracer: _step(tracer, optimizer))
    repeated = [{**row, "count": row.get("count", 1) * config.accumulation} for row in passed]
    return read_operations({"operations": [*repeated, *stepped]})


def _loss(model: Any, tokens: torch.Tensor, head: Head) -> Any:
    if head == "answer":
        return model(input_ids=tokens, start_positions=tokens[:, 0], end_positions=tokens[:, 0]).loss
    if head == "masked tokens":
        masked = max(1, round(MASKED_SHARE * tokens.shape[1]))
        logits = model.cls(model.bert(input_ids=tokens).last_hidden_state[:, :masked])
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, :masked].flatten())
    return model(input_ids=tokens, labels=tokens).loss


@contextmanager
def _matmul_precision(precision: Literal["tf32", "ieee"]) -> Iterator[None]:
    """Products of float32 in this precision for the duration of the block."""
    settings: Any = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = precision
    try:
        yield
    finally:
        settings.fp32_precision = before


def _step(tracer: Tracer, optimizer: torch.optim.Optimizer) -> None:
    tracer.step_started()
    optimizer.step()
    tracer.step_ended()


def _traced(run: Any) -> list[dict[str, Any]]:
    tracer = Tracer(torch, lambda: True)
    tracer.enter()
    run(tracer)
    rows: list[dict[str, Any]] = tracer.leave()["operations"]
    return rows


def _build(config: LanguageModel) -> Any:
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertForQuestionAnswering,
        GPTBigCodeConfig,
        GPTBigCodeForCausalLM,
        LlamaConfig,
        LlamaForCausalLM,
    )

    sizes: dict[str, Any] = {
        "vocab_size": config.vocab,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ffn,
        "max_position_embeddings": config.sequence,
    }
    if config.encoder:
        sizes["attn_implementation"] = "sdpa" if config.fused_attention else "eager"
        encoder = BertForQuestionAnswering if config.head == "answer" else BertForMaskedLM
        return encoder(BertConfig(**sizes))
    if config.gated:
        heads = config.kv_heads
        return LlamaForCausalLM(
            LlamaConfig(**sizes, num_key_value_heads=heads, tie_word_embeddings=config.tied, use_cache=False)
        )
    return GPTBigCodeForCausalLM(
        GPTBigCodeConfig(
            vocab_size=config.vocab,
            n_embd=config.hidden,
            n_layer=config.layers,
            n_head=config.heads,
            n_inner=config.ffn,
            n_positions=config.sequence,
            multi_query=config.kv_heads == 1,
            use_cache=False,
        )
    )


class _Adapted(nn.Module):
    """A frozen layer with a low-rank pair that is trained."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        dtype = frozen.weight.dtype
        self.frozen = frozen
        self.down = nn.Linear(frozen.in_features, rank, bias=False, device="meta", dtype=dtype)
        self.up = nn.Linear(rank, frozen.out_features, bias=False, device="meta", dtype=dtype)

    def forward(self, x: torch.Tensor) -> Any:
        return self.frozen(x) + 2.0 * self.up(self.down(nn.functional.dropout(x, 0.05)))


def _add_adapters(model: nn.Module, rank: int) -> None:
    for parameter in model.parameters():
        parameter.requires_grad = False
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in ADAPTED and isinstance(child, nn.Linear):
                setattr(parent, name, _Adapted(child, rank))


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Replace attention by its fused kernel, which meta tensors would take apart."""
    from transformers import masking_utils

    original = nn.functional.scaled_dot_product_attention

    def fused(query: Any, key: Any, value: Any, *_: Any, is_causal: bool = False, **options: Any) -> Any:
        if options.get("enable_gqa") or key.shape[1] != query.shape[1]:
            repeats = query.shape[1] // key.shape[1]
            key, value = (t.repeat_interleave(repeats, dim=1) for t in (key, value))
        attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001 # it has no public name
        return attention(query, key, value, 0.0, is_causal)[0]

    find_packed = masking_utils.find_packed_sequence_indices
    nn.functional.scaled_dot_product_attention = fused
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # noqa: ARG005 # the original reads values, and the tensors have none
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = original
        masking_utils.find_packed_sequence_indices = find_packed
