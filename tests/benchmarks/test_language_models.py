"""The benchmark of language models: each row is traced as the program that was measured."""

import pytest

from benchmarks.accuracy.language_models import NVIDIA_BERT, bert_base, configuration, part_of
from benchmarks.traced.language_models import LanguageModel, trace
from trainfare.model.measurement import MeasuredIteration

ROW = {
    "arch_type": "encoder", "glu": "0", "layers": "2", "hidden": "64", "heads": "4", "kv_heads": "4", "ffn": "128",
    "vocab": "1000", "tied_emb": "1", "seq_len": "128", "micro_batch": "2", "grad_accum": "1", "precision": "TF32",
    "method": "pretrain", "lora_rank": "", "act_ckpt": "none", "framework": NVIDIA_BERT,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({}, "full"),
        ({"seq_len": "512"}, "binned"),
        ({"seq_len": "384", "method": "full"}, "full"),
        ({"framework": "HF Trainer + DeepSpeed", "method": "full"}, "deepspeed"),
        ({"framework": "HF Trainer + DeepSpeed", "method": "lora"}, "adapters"),
        ({"framework": "LitGPT", "seq_len": "512"}, "full"),
    ],
)
def test_rows_of_programs_that_are_not_traced_have_lines_of_their_own(changes: dict[str, str], part: str) -> None:
    assert part_of(ROW | changes) == part


def work(config: LanguageModel, kind: str) -> float:
    return sum(op.flops * op.count for op in trace(config) if op.kind == kind)


def test_nvidia_bert_runs_attention_operator_by_operator() -> None:
    config = configuration(ROW)
    assert work(config, "attention") == 0
    assert work(configuration(ROW | {"framework": "HF Trainer"}), "attention") > 0


def test_logits_of_masked_tokens_are_a_part_of_those_of_all() -> None:
    """Of each token, 1000 logits of 64 products each, forward and twice backward; 19 of 128 tokens are masked."""
    all_tokens = work(configuration(ROW | {"framework": "HF Trainer"}), "matmul")
    masked = work(configuration(ROW), "matmul")
    scores = 3 * 2 * 2 * 2 * 2 * 128 * 128 * 64
    transform = 3 * 2 * 64 * 64
    assert all_tokens - (masked - scores) == 2 * (128 - 19) * (3 * 2 * 64 * 1000 + transform)


def test_bert_of_rented_gpus_is_in_half_precision_where_it_says_so() -> None:
    measured = MeasuredIteration(
        source="rented_gpus", program="bert_base_squad", family="bert", gpu="H100", dtype="float16", batch_size=320.0,
        seconds=0.4, machine="H100 80GB SXM5",
    )  # fmt: skip
    assert (bert_base(measured).dtype, bert_base(measured).tf32) == ("float16", False)
