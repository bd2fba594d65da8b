"""What the tests of the torch part share: TRL's trainer, built once, and batches with garbage at the padding."""

import os
import warnings
from types import SimpleNamespace

import pytest

# Nothing here may ask a hub, and a tokenizer that starts threads before a fork prints a warning.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def trl_trainer(tmp_path_factory):
    """trainer: TRL's GRPOTrainer on a Qwen3 with 2 layers of width 16. rewards: what its reward function returns.

    The settings of the loss are attributes of the trainer: a test sets those it needs.
    """
    pytest.importorskip("trl", reason="trl is not installed: there is no loss of TRL's to compare with")
    pytest.importorskip("datasets", reason="datasets is not installed, and TRL's trainer wants one")
    import torch
    from datasets import Dataset
    from transformers import Qwen3Config, Qwen3ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from grpo.qwen3.tokenizer import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=24,
        tie_word_embeddings=True,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a model's weights come from the global generator: put back afterwards
        model = Qwen3ForCausalLM(config).to(torch.float32)
    rewards = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # transformers is about to rename gradient_checkpointing
        arguments = GRPOConfig(
            output_dir=str(tmp_path_factory.mktemp("trl")),
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=9,
            use_cpu=True,
            bf16=False,
            fp16=False,
            gradient_checkpointing=False,
            report_to="none",
            use_bias_correction_kl=False,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **columns: list(rewards),
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": ["1+1"] * 4}),
            processing_class=tokenizer,
        )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return SimpleNamespace(trainer=trainer, model=model, tokenizer=tokenizer, rewards=rewards)
