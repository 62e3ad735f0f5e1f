"""Hugging Face's datasets and TRL, which need gigabytes of their own: run in their environment on a folder."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.needs import TRAINING_PYTHON

_TINY = """
import json, sys
from pathlib import Path
from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
import trl

folder, scratch = map(Path, sys.argv[1:])
rows = load_dataset(str(folder), cache_dir=str(scratch / "cache"))
texts = [message["content"] for row in rows["train"] for message in row["messages"]]
spoken = Tokenizer(models.BPE())
spoken.pre_tokenizer = pre_tokenizers.ByteLevel()
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
alphabet = pre_tokenizers.ByteLevel.alphabet()
words = trainers.BpeTrainer(vocab_size=1000, special_tokens=special, initial_alphabet=alphabet)
spoken.train_from_iterator(texts, words)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=spoken, eos_token="<|im_end|>", pad_token="<|endoftext|>")
templates = Path(trl.__file__).parent / "chat_templates"
tokenizer.chat_template = (templates / "qwen3_training.jinja").read_text()
"""

_LOADED = """
import json, sys
from datasets import load_dataset
rows = load_dataset(sys.argv[1], cache_dir=sys.argv[2])
print(json.dumps({name: [dict(row) for row in split] for name, split in rows.items()}))
"""

_STEP = """
from trl import SFTConfig, SFTTrainer
sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), head_dim=16, **sizes))
chosen = rows["train"].filter(lambda row: row["rewards"]["success"] == 1.0)
chosen = chosen.select(range(1))
settings = SFTConfig(output_dir=str(scratch / "out"), max_steps=1, per_device_train_batch_size=1, max_length=4096,
    assistant_only_loss=True, report_to=[], use_cpu=True, bf16=False, gradient_checkpointing=False)
trainer = SFTTrainer(model=model, args=settings, train_dataset=chosen, processing_class=tokenizer)
first = trainer.train_dataset[0]
masked = [token for token, label in zip(first["input_ids"], first["labels"]) if label != -100]
done = trainer.train()
print(json.dumps({"loss": done.training_loss, "steps": done.global_step, "trained_on": tokenizer.decode(masked)}))
"""


def loaded(folder: Path, scratch: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each split, as ``datasets`` loads them."""
    return _run(_LOADED, folder, scratch)


def training_step(folder: Path, scratch: Path) -> dict[str, Any]:
    """One step of TRL's SFT trainer on a tiny random model: its loss, and the text that the loss is about."""
    return _run(_TINY + _STEP, folder, scratch)


def _run(code: str, folder: Path, scratch: Path) -> Any:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(scratch / "hub"), "CUDA_VISIBLE_DEVICES": ""}
    command = [str(TRAINING_PYTHON), "-c", code, str(folder), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
