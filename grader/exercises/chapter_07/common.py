"""What the exercises of chapter 07 share that need no torch: model shapes, and how an entry of a dict is read."""

from __future__ import annotations

from grader.compare import as_numbers

CHAPTER = "07_qwen3_on_a_gpu"

SMALL = {
    "vocab_size": 10,
    "hidden_size": 4,
    "intermediate_size": 6,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 2,
    "tie_word_embeddings": True,
}
QWEN3_0_6B = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
}
QWEN3_8B = {
    "vocab_size": 151_936,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
}


def draw_config(rng, **changes):
    """A small model: several query heads to a key/value head, and heads that are wider together than hidden_size."""
    kv_heads, head_dim = int(rng.integers(2, 4)), 2 * int(rng.integers(2, 5))
    heads = kv_heads * int(rng.integers(2, 4))
    config = {
        "vocab_size": int(rng.integers(30, 90)),
        "hidden_size": heads * head_dim - 2 * int(rng.integers(1, 4)),
        "intermediate_size": int(rng.integers(20, 60)),
        "num_hidden_layers": int(rng.integers(2, 6)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "tie_word_embeddings": True,
    }
    return {**config, **changes}


def number_under(value, key):
    """(float, "") of the number under this key of what came back, or (None, what is wrong with it)."""
    if not isinstance(value, dict):
        return None, "a dict is due"
    if key not in value:
        return None, f"there is no entry {key!r}; the keys are {', '.join(map(repr, list(value)[:9])) or 'none'}"
    found = as_numbers(value[key])
    if found is None or found.ndim:
        return None, f"the entry {key!r} is no number"
    return float(found), ""


def numbers_under(value, keys):
    """(dict of floats, "") for these keys, or (None, what is wrong)."""
    found = {}
    for key in keys:
        found[key], sentence = number_under(value, key)
        if sentence:
            return None, sentence
    return found, ""


def close(mine, right):
    """Whether a number of bytes, seconds or money is right, up to the rounding of float32."""
    return abs(mine - right) <= 1e-6 * abs(right)
