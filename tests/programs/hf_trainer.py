"""The Trainer of Hugging Face on a tiny model; evaluates and saves every epoch and prints its own measurements."""
# mypy: ignore-errors

import argparse
import contextlib
import json
import tempfile
import time
import warnings

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--max-steps", type=int, default=-1)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--measure", choices=["callback", "block"], help="measures itself, for 15 iterations")
parser.add_argument("--stop", action="store_true", help="and ends after them")
arguments = parser.parse_args()
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(1)
SAMPLES, BATCH = 64, 8
tokens = torch.randint(50, (SAMPLES, 12))
data = [{"input_ids": row, "labels": int(row.sum()) % 2} for row in tokens]
config = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = BertForSequenceClassification(BertConfig(vocab_size=50, **config))
ends, losses, saves, validations, eval_losses = [], [], [], [], []


class Clock(TrainerCallback):
    def on_optimizer_step(self, args, state, control, **kwargs):
        ends.append(time.monotonic())

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        eval_losses.append(metrics["eval_loss"])


class Clocked(Trainer):
    def compute_loss(self, model, inputs, *args, **options):
        if model.training:
            time.sleep(0.006)
        found = super().compute_loss(model, inputs, *args, **options)
        if model.training:
            losses.append(found.item())
        return found

    def evaluate(self, *args, **options):
        begun = time.monotonic()
        found = super().evaluate(*args, **options)
        validations.append(time.monotonic() - begun)
        return found

    def _save_checkpoint(self, *args, **options):
        begun = time.monotonic()
        super()._save_checkpoint(*args, **options)
        saves.append(time.monotonic() - begun)


callbacks = [Clock(), EarlyStoppingCallback(early_stopping_patience=3)]
measured = None
if arguments.measure:
    import trainfare

    kind = trainfare.TransformersCallback if arguments.measure == "callback" else trainfare.profile
    measured = kind(iterations=15, **({"stop": True} if arguments.stop else {}))
    callbacks += [measured] if arguments.measure == "callback" else []

with tempfile.TemporaryDirectory() as folder:
    trainer = Clocked(
        model=model,
        args=TrainingArguments(
            output_dir=folder,
            num_train_epochs=6,
            max_steps=arguments.max_steps,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=arguments.accumulate,
            eval_strategy="epoch",
            save_strategy="epoch",
            metric_for_best_model="eval_loss",
            load_best_model_at_end=True,
            lr_scheduler_type="cosine",
            logging_steps=1,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            seed=1,
        ),
        train_dataset=data,
        eval_dataset=data[:40],
        callbacks=callbacks,
    )
    try:
        with measured if arguments.measure == "block" else contextlib.nullcontext():
            trainer.train()
    finally:
        print(
            json.dumps(
                {
                    "ends": ends,
                    "losses": losses,
                    "saves": saves,
                    "validations": validations,
                    "eval_loss": eval_losses,
                    "profile": measured and measured.profile and measured.profile.id,
                    "parameters": sum(p.numel() for p in model.parameters()),
                }
            ),
            flush=True,
        )
