"""The Trainer of Hugging Face on a tiny language model, with the length of its arguments; prints the logged losses."""
# mypy: ignore-errors

import argparse
import json
import tempfile
import warnings

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=float, default=3)
parser.add_argument("--max-steps", type=int, default=-1)
parser.add_argument("--accumulate", type=int, default=1)
arguments = parser.parse_args()
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(1)
data = [{"input_ids": row, "labels": row} for row in torch.randint(50, (80, 16))]
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2))
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=folder,
            num_train_epochs=arguments.epochs,
            max_steps=arguments.max_steps,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=arguments.accumulate,
            logging_steps=1,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
        ),
        train_dataset=data,
    )
    try:
        trainer.train()
    finally:
        print(json.dumps({"losses": [row["loss"] for row in trainer.state.log_history if "loss" in row]}), flush=True)
