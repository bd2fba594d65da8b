"""A run small enough for hundreds of steps a minute: a Qwen3 of 8,000 weights, four problems, a reward that varies."""

import torch

from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.settings import GRPOSettings
from grpo.qwen3.tokenizer import tiny_tokenizer

PROBLEMS = load_arithmetic("train")[:6]
# kl_coef 0: a step without any spread in its rewards, and one without a reference, is the special case of its tests.
SETTINGS = {"prompts_per_step": 2, "group_size": 4, "max_new_tokens": 6, "learning_rate": 1e-2, "kl_coef": 0.0}
_MADE = {}


def settings(**changes):
    """GRPOSettings of the micro run, with some changed."""
    return GRPOSettings(**{**SETTINGS, **changes})


def micro_model(seed=0, dtype=torch.float32):
    """(model, tokenizer): one layer, 32 wide. The random weights are the same for the same seed."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    if "tokenizer" not in _MADE:
        _MADE["tokenizer"] = tiny_tokenizer()
    tokenizer = _MADE["tokenizer"]
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=48,
        tie_word_embeddings=True,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    return model.to(dtype), tokenizer


def digits_reward(text, truth, finished):
    """Share of the characters that are digits: an untrained policy already varies in it."""
    return sum(character.isdigit() for character in text) / max(len(text), 1)


class CoinReward:
    """A reward with a state of its own: a coin from a seeded generator."""

    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, text, truth, finished):
        return float(torch.rand((), generator=self.generator) < 0.5)

    def state_dict(self):
        return self.generator.get_state().tolist()

    def load_state_dict(self, state):
        self.generator.set_state(torch.tensor(state, dtype=torch.uint8))


def weights(model):
    """dict, name -> copy of a parameter."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same_weights(left, right):
    """Whether two results of `weights` are equal, bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
