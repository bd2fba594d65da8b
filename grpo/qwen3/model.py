"""Models: a tiny Qwen3 made on the spot, the published ones, or a local folder. transformers gives the modules only.

Weights, tokenizer and configuration are all that is taken from a checkpoint. Its generation_config is asked for one
thing, the ids that end a text: how to sample is the sampler's business alone.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch

from grpo.qwen3.tokenizer import END, PAD, TURN_END, VOCABULARY, tiny_tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
# What Qwen3 ends a text with: a base model with the first, a chat model with the second. Either may come.
END_TOKENS = (END, TURN_END)
VOCABULARY_SIZE = len(VOCABULARY)
# Models that are made here, with random weights; the second has the shape of Qwen3-0.6B, so that a run on it can be
# rehearsed without a download.
TINY, REAL_SHAPE = "tiny", "real-shape"


class ModelError(ValueError):
    """A model cannot be had, and one sentence says why and what to do."""


def tiny_config(vocab_size=VOCABULARY_SIZE, hidden_size=128, layers=2):
    """Configuration of the tiny Qwen3: 399,104 parameters with 40 tokens, 2 layers and 128 wide.

    Args:
        vocab_size: number of tokens.
        hidden_size: multiple of 32; heads of 32, two of them to each key and value head, MLP three times as wide.
        layers: number of layers.

    Returns: transformers.Qwen3Config.

    Raises: ValueError if hidden_size is not a positive multiple of 64.
    """
    from transformers import Qwen3Config

    if hidden_size < 64 or hidden_size % 64:
        raise ValueError(f"hidden_size is {hidden_size}: it must be a multiple of 64, two heads of 32 to a key")
    return Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=hidden_size // 32,
        num_key_value_heads=hidden_size // 64,
        head_dim=32,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
        pad_token_id=VOCABULARY.index(PAD),
        eos_token_id=VOCABULARY.index(END),
    )


def tiny_model(seed, config=None, dtype=torch.float32):
    """A tiny Qwen3 with random weights that depend on the seed only. Global random state is left as it was.

    Args:
        seed: int.
        config: Qwen3Config, default `tiny_config()`.
        dtype: torch.dtype of the weights.

    Returns: Qwen3ForCausalLM on the CPU, in evaluation mode.
    """
    from transformers import Qwen3ForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(tiny_config() if config is None else config)
    return model.to(dtype).eval()


def real_shape_config():
    """Configuration with the shape of Qwen/Qwen3-0.6B and its base model: 596,049,920 parameters.

    Made from the published numbers, so that memory plans and shapes need no download.

    Returns: transformers.Qwen3Config.
    """
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=32_768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
        eos_token_id=151_643,
    )


def parameter_count(model):
    """Number of parameters, tied ones once (works on the meta device)."""
    return sum(parameter.numel() for parameter in model.parameters())


def load_model(name_or_path, dtype=torch.float32, device="cpu", seed=0):
    """A model and its tokenizer, complete or not at all.

    Args:
        name_or_path: "tiny" or "real-shape" (random weights, and the tiny model's tokenizer), a local folder with
            config.json, safetensors and tokenizer, or a name on the Hugging Face hub such as "Qwen/Qwen3-0.6B-Base".
        dtype: torch.dtype or its name; never taken from the checkpoint, because the small steps of training vanish
            in bfloat16.
        device: "cpu", "cuda", "cuda:0", ...
        seed: int, of random weights.

    Returns: (Qwen3ForCausalLM in evaluation mode, tokenizer with left padding and a pad token).

    Raises: ModelError, one sentence, if the dtype or device is unknown, no GPU is found, the folder, one of its files
        or the hub is missing, the model is no Qwen3, or a weight is missing, left over or of another shape.
    """
    dtype = _dtype(dtype)
    device = _device(device)
    if name_or_path in (TINY, REAL_SHAPE):
        config = tiny_config() if name_or_path == TINY else real_shape_config()
        return tiny_model(seed, config, dtype).to(device), tiny_tokenizer()
    name = os.fspath(name_or_path)
    local = _is_folder(name)
    if local:
        _require_files(Path(name))
    # Without a network transformers tries again for half a minute before it looks at what was downloaded earlier.
    source = _Source(name, local, local or not _hub_answers())
    model = _load_weights(source, dtype)
    tokenizer = _load_tokenizer(source)
    return model.to(device).eval(), tokenizer


def stop_ids(model, tokenizer):
    """All token ids that end a completion: the end tokens of tokenizer, configuration and generation_config, and both
    end tokens of Qwen3 where the tokenizer has them.

    Returns: frozenset of ints, not empty.

    Raises: ModelError if there is none.
    """
    found = set()
    for owner in (tokenizer, model.config, getattr(model, "generation_config", None)):
        value = getattr(owner, "eos_token_id", None)
        found.update(value if isinstance(value, list | tuple | set | frozenset) else [value])
    for token in END_TOKENS:
        index = tokenizer.convert_tokens_to_ids(token)
        if index != tokenizer.unk_token_id:
            found.add(index)
    found = frozenset(int(index) for index in found if index is not None)
    if not found:
        raise ModelError("neither the tokenizer nor the model names an end token: no completion could ever stop")
    return found


def _dtype(dtype):
    dtype = DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if dtype not in DTYPES.values():
        raise ModelError(f"dtype is {dtype!r}: name one of {', '.join(DTYPES)}")
    return dtype


def as_device(device):
    """torch.device of this name, whether it is here or not. Raises ModelError for what is no device."""
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device is {device!r}: use cpu, or cuda on a machine with a GPU") from error


def _device(device):
    device = as_device(device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"device is {device}, but torch finds {torch.cuda.device_count()} GPUs here: use cpu")
    return device


def _is_folder(name):
    path = Path(name).expanduser()
    if path.is_dir():
        return True
    if path.is_file():
        raise ModelError(f"{name} is a file: pass the folder that holds config.json and the weights")
    if name.startswith((".", "~", os.sep)) or name.count("/") > 1 or "\\" in name or path.is_absolute():
        raise ModelError(f"there is no folder {name}: check the path, or pass a hub name such as Qwen/Qwen3-0.6B-Base")
    return False


def _require_files(folder):
    folder = folder.expanduser()
    for kind, names in {
        "configuration": ["config.json"],
        "weights": ["*.safetensors"],
        "tokenizer": ["tokenizer.json", "vocab.json"],
    }.items():
        if not any(any(folder.glob(name)) for name in names):
            raise ModelError(f"{folder} holds no {kind} ({' or '.join(names)}): save model and tokenizer there")
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError) as error:
        raise ModelError(f"{folder / 'config.json'} is no JSON object: copy the folder again") from error
    _require_qwen3(kind, folder)


def _require_qwen3(kind, name):
    if kind != "qwen3":
        raise ModelError(f"{name} holds a model of type {kind!r}: this course runs Qwen3 (model_type qwen3) only")


@dataclass(frozen=True)
class _Source:
    """Where a model comes from: a folder here, the hub, or (hub, but offline) what was downloaded from it earlier."""

    name: str
    local: bool
    offline: bool

    def load(self, from_pretrained, **options):
        """Call from_pretrained, and turn whatever it raises into one sentence."""
        place = str(Path(self.name).expanduser()) if self.local else self.name
        try:
            with _quiet():
                return from_pretrained(place, local_files_only=self.offline, **options)
        except Exception as error:
            kind = type(error).__name__
            if self.local:
                reason = (str(error).strip() or kind).splitlines()[0].rstrip(".:")
                raise ModelError(f"{self.name} cannot be loaded ({kind}: {reason}): copy the folder again") from error
            hub = "the Hugging Face hub, which does not answer" if self.offline else "the Hugging Face hub"
            raise ModelError(
                f"{self.name} is neither a folder here nor to be had from {hub} ({kind}): "
                "check the name and the network, or pass a local folder"
            ) from error


def _hub_answers():
    """Whether a connection to the hub can be made. True behind a proxy, which only a real request can try."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():
        return True
    address = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname, address.port or 443), timeout=5).close()
    except OSError:
        return False
    return True


def _load_weights(source, dtype):
    from transformers import AutoConfig, Qwen3ForCausalLM

    name = source.name
    config = source.load(AutoConfig.from_pretrained)
    _require_qwen3(config.model_type, name)
    # A weight of another shape must not raise in the middle: it is refused below, by name.
    model, report = source.load(
        Qwen3ForCausalLM.from_pretrained,
        config=config,
        dtype=dtype,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    missing = set(report["missing_keys"])
    if config.tie_word_embeddings:
        missing.discard("lm_head.weight")
    _require_none(name, "missing", missing)
    _require_none(name, "left over", report["unexpected_keys"])
    reshaped = [key if isinstance(key, str) else key[0] for key in report["mismatched_keys"]]
    _require_none(name, "of another shape", reshaped)
    wrong = {str(tensor.dtype) for tensor in model.parameters() if tensor.dtype != dtype}
    if wrong:
        raise ModelError(f"{name} was loaded as {', '.join(sorted(wrong))} where {dtype} was asked for")
    return model


def _require_none(name, what, keys):
    if not keys:
        return
    shown = ", ".join(sorted(keys)[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    raise ModelError(
        f"{name}: weights are {what} ({shown}), so a part of the model would be random: save it again with "
        "model.save_pretrained, of the model itself and not of what torch.compile made of it (_orig_mod.)"
    )


@contextmanager
def _quiet():
    """No progress bar and no report of transformers while weights are read: what is wrong becomes an error."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _load_tokenizer(source):
    from transformers import AutoTokenizer

    tokenizer = source.load(AutoTokenizer.from_pretrained)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token_id is None:
            raise ModelError(f"{source.name}: the tokenizer has neither a pad nor an end token")
        # Padding is masked by length, never by token value, so the end token may stand in for it.
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
