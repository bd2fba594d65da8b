"""Models of the sampling tests: small Qwen3s with large weights, and one with learned absolute positions."""

import types

import torch
from torch import nn

from grpo.qwen3.masks import length_mask
from grpo.qwen3.sampler import Rollouts


def qwen3(seed=0, dtype=torch.float32, **changes):
    """A Qwen3 whose logits differ enough that a wrong position, mask or head shows at once. Norms and biases are random
    too, head_dim is not hidden / heads, and two query heads share a key head."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = {
        "vocab_size": 50,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 40,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(**{**shape, **changes}))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name or "bias" in name:
                    parameter.add_(0.2 * torch.randn(parameter.shape))
    return model.to(dtype).eval()


def prompts_of_lengths(*lengths, vocabulary=50):
    """Prompts that share no beginning."""
    return [[(7 * row + 3 * place + 2) % vocabulary for place in range(n)] for row, n in enumerate(lengths)]


class LearnedPositions(nn.Module):
    """A causal model that adds an embedding of the absolute position. A rotary model scores a row the same when all its
    positions are shifted, so it cannot see a forgotten position id; this one can.

    It takes the arguments of a transformers model and notes the last ones.
    """

    def __init__(self, vocabulary=20, width=16, positions=64):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.config = types.SimpleNamespace(model_type="learned_positions")
        self.model = nn.Module()
        self.model.layers = []
        self.model.tokens = nn.Parameter(torch.randn(vocabulary, width, generator=generator))
        self.model.positions = nn.Parameter(torch.randn(positions, width, generator=generator))
        self.model.forward = self.hidden
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = nn.Parameter(torch.randn(vocabulary, width, generator=generator))
        self.seen = {}

    def hidden(self, input_ids, attention_mask, position_ids, use_cache):
        self.seen = {"attention_mask": attention_mask, "position_ids": position_ids, "use_cache": use_cache}
        embedded = self.model.tokens[input_ids] + self.model.positions[position_ids]
        visible = torch.ones(input_ids.shape[1], input_ids.shape[1], dtype=torch.bool).tril() & (
            attention_mask[:, None].bool()
        )
        visible |= torch.eye(input_ids.shape[1], dtype=torch.bool)
        scores = (embedded @ embedded.transpose(1, 2)).masked_fill(~visible, -torch.inf)
        return types.SimpleNamespace(last_hidden_state=embedded + scores.softmax(-1) @ embedded)


def rollouts_of(prompts, completions, pad_id=0, group_size=1):
    """Rollouts made by hand: one completion (list of ids) per entry, `group_size` in a row for each prompt."""
    from grpo.qwen3.masks import left_pad

    ids, mask = left_pad(prompts, pad_id)
    lengths = torch.tensor([len(completion) for completion in completions])
    width = int(lengths.max())
    padded = torch.tensor([completion + [pad_id] * (width - len(completion)) for completion in completions])
    return Rollouts(
        prompt_ids=ids.repeat_interleave(group_size, dim=0),
        prompt_mask=mask.repeat_interleave(group_size, dim=0),
        completion_ids=padded,
        lengths=lengths,
        logprobs=torch.zeros(padded.shape) * length_mask(lengths, width),
        finished=torch.ones(len(completions), dtype=torch.bool),
        group_size=group_size,
        prompt_index=torch.arange(len(prompts)).repeat_interleave(group_size),
    )


def logprobs_alone(model, prompt, completion, temperature=1.0):
    """The slow way: one row without any padding through the whole model. (tokens,) log-probs and entropies."""
    ids = torch.tensor([prompt + completion])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1] / temperature
    logps = logits.log_softmax(-1)
    return logps[torch.arange(len(completion)), completion], -(logps.exp() * logps).sum(-1)
