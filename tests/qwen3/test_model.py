"""Models: the tiny one by seed, the real shape, and loading that is complete or refuses in one sentence."""

import json
import shutil

import pytest
import torch

from grpo.qwen3 import model as model_module
from grpo.qwen3.model import (
    ModelError,
    load_model,
    parameter_count,
    real_shape_config,
    stop_ids,
    tiny_config,
    tiny_model,
)
from grpo.qwen3.tokenizer import tiny_tokenizer


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    tiny_model(5).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def rewrite(folder, change):
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})


def refused(*args, **options):
    with pytest.raises(ModelError) as caught:
        load_model(*args, **options)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


def test_the_tiny_model_depends_on_the_seed_only_and_leaves_global_state_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again, other = tiny_model(0), tiny_model(0), tiny_model(1)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    later = tiny_model(0)
    for name, weight in first.named_parameters():
        assert torch.equal(weight, dict(again.named_parameters())[name])
        assert torch.equal(weight, dict(later.named_parameters())[name])
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
    assert not first.training and first.dtype == torch.float32


def test_the_tiny_shape():
    model = tiny_model(0)
    assert parameter_count(model) == 399_104
    config = model.config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (128, 2, 4)
    assert (config.num_key_value_heads, config.head_dim, config.intermediate_size) == (2, 32, 384)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert len(tiny_tokenizer()) == config.vocab_size
    wide = tiny_config(vocab_size=100, hidden_size=256, layers=4)
    assert (wide.vocab_size, wide.num_hidden_layers, wide.intermediate_size) == (100, 4, 768)
    assert (wide.num_attention_heads, wide.num_key_value_heads) == (8, 4)
    for size in (0, 96):
        with pytest.raises(ValueError, match=f"hidden_size is {size}"):
            tiny_config(hidden_size=size)


def test_the_real_shape_without_its_weights():
    from transformers import Qwen3ForCausalLM

    with torch.device("meta"):
        model = Qwen3ForCausalLM(real_shape_config())
    assert parameter_count(model) == 596_049_920
    config = model.config
    assert model.lm_head.weight.shape == (151_936, 1024) and config.rope_parameters["rope_theta"] == 1e6
    # Keys and values of all layers in bfloat16, bytes per token.
    assert 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim == 114_688


def test_the_real_shape_by_name_has_random_weights_and_the_tiny_tokenizer(monkeypatch):
    monkeypatch.setattr(model_module, "real_shape_config", lambda: tiny_config(vocab_size=500, layers=1))
    model, tokenizer = load_model("real-shape", dtype="float64", seed=3)
    assert model.config.vocab_size == 500 and model.dtype == torch.float64 and not model.training
    assert tokenizer.get_vocab() == tiny_tokenizer().get_vocab()
    again, other = load_model("real-shape", dtype="float64", seed=3)[0], load_model("real-shape", seed=4)[0]
    assert torch.equal(model.lm_head.weight, again.lm_head.weight)
    assert not torch.equal(model.lm_head.weight, other.lm_head.weight.double())
    assert "device is 'warp'" in refused("real-shape", device="warp")


def test_a_local_folder_round_trips(saved):
    model, tokenizer = load_model(saved)
    for name, weight in tiny_model(5).named_parameters():
        assert torch.equal(weight, dict(model.named_parameters())[name])
    assert not model.training and tokenizer.padding_side == "left" and tokenizer.pad_token_id == 0
    assert load_model(str(saved))[1]("3+4")["input_ids"] == tiny_tokenizer()("3+4")["input_ids"]


def test_the_dtype_is_the_one_asked_for_not_the_one_stored(folder):
    # CASES E8: a step of .001 vanishes in bfloat16, where 1.0 and .999 are one number.
    assert torch.tensor(1.0, dtype=torch.bfloat16) - 0.001 == 1.0
    rewrite(folder, lambda weights: {name: weight.bfloat16() for name, weight in weights.items()})
    settings = json.loads((folder / "config.json").read_text()) | {"dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(settings))
    model, _ = load_model(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert {weight.dtype for weight in load_model(folder, dtype="bfloat16")[0].parameters()} == {torch.bfloat16}
    assert load_model("tiny", dtype=torch.float64)[0].dtype == torch.float64
    assert "dtype is 'int8'" in refused("tiny", dtype="int8")
    assert "dtype is None" in refused("tiny", dtype=None)


def test_weights_must_all_be_there_and_nothing_else(folder):
    # CASES E10: a lenient load leaves random weights, and accuracy collapses quietly.
    gate = "model.layers.0.mlp.gate_proj.weight"
    original = (folder / "model.safetensors").read_bytes()
    for change, words in (
        (lambda w: {k: v for k, v in w.items() if k != gate}, ("missing", gate)),
        (lambda w: w | {"extra.weight": torch.zeros(2)}, ("left over", "extra.weight")),
        (lambda w: w | {gate: torch.zeros(7)}, ("another shape", gate)),
        (lambda w: {f"_orig_mod.{k}": v for k, v in w.items()}, ("missing", "and 21 more", "torch.compile")),
    ):
        (folder / "model.safetensors").write_bytes(original)
        rewrite(folder, change)
        message = refused(folder)
        assert all(word in message for word in words), message
    (folder / "model.safetensors").write_bytes(original[:100])
    assert "cannot be loaded" in refused(folder)


def test_a_missing_head_is_fine_only_if_it_is_tied(folder):
    rewrite(folder, lambda weights: {name: weight for name, weight in weights.items() if name != "lm_head.weight"})
    load_model(folder)
    settings = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(settings))
    assert "missing (lm_head.weight)" in refused(folder)


def test_loading_says_nothing_on_the_screen(folder, capfd):
    load_model(folder)
    rewrite(folder, lambda weights: weights | {"extra.weight": torch.zeros(2)})
    refused(folder)
    assert capfd.readouterr() == ("", "")


def test_what_is_missing_is_named(folder, tmp_path):
    for name, words in (
        ("tokenizer.json", "no tokenizer"),
        ("model.safetensors", "no weights"),
        ("config.json", "no configuration"),
    ):
        (folder / name).unlink()
        assert words in refused(folder)
    (folder / "config.json").write_text("[]")
    assert "there is no folder" in refused(tmp_path / "nothing" / "here")
    assert "there is no folder" in refused("./nothing")
    assert "is a file" in refused(folder / "config.json")


def test_another_architecture_is_refused(folder):
    settings = (folder / "config.json").read_text()
    (folder / "config.json").write_text(settings.replace('"qwen3"', '"llama"'))
    assert "type 'llama'" in refused(folder)
    (folder / "config.json").write_text("[]")
    assert "no JSON object" in refused(folder)


def test_a_missing_hub_or_gpu_is_one_sentence(monkeypatch):
    from transformers import AutoConfig

    asked = []

    def missing(name, local_files_only):
        asked.append(local_files_only)
        raise OSError(f"We couldn't connect to load {name}\nsecond line")

    monkeypatch.setattr(AutoConfig, "from_pretrained", missing)
    start = "somebody/some-model is neither a folder here nor to be had from the Hugging Face hub"
    for answers, words in ((True, "hub (OSError): check the name"), (False, "hub, which does not answer (OSError)")):
        monkeypatch.setattr(model_module, "_hub_answers", lambda answers=answers: answers)
        message = refused("somebody/some-model")
        assert message.startswith(start) and words in message
    # Offline, transformers must not try again and again, but look at what was downloaded earlier.
    assert asked == [False, True]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert "torch finds 0 GPUs" in refused("tiny", device="cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert "device is cuda:1, but torch finds 1" in refused("tiny", device="cuda:1")
    assert "device is 'gpu'" in refused("tiny", device="gpu")


def test_whether_the_hub_answers(monkeypatch):
    from huggingface_hub import constants

    tried = []

    class Open:
        def close(self):
            tried.append("closed")

    def connect(address, timeout):
        tried.append(address)
        return Open()

    def refuse(address, timeout):
        raise OSError("no route")

    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.example")
    monkeypatch.setattr(model_module, "getproxies", dict)
    monkeypatch.setattr(model_module.socket, "create_connection", connect)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not model_module._hub_answers() and tried == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert model_module._hub_answers() and tried == [("hub.example", 443), "closed"]
    monkeypatch.setattr(model_module.socket, "create_connection", refuse)
    assert not model_module._hub_answers()
    monkeypatch.setattr(model_module, "getproxies", lambda: {"https": "http://proxy.example:3128"})
    assert model_module._hub_answers()


def test_all_end_tokens_stop():
    # CASES E4: a chat model ends with <|im_end|>, a base model with <|endoftext|>; both must stop both.
    model, tokenizer = tiny_model(0), tiny_tokenizer()
    assert stop_ids(model, tokenizer) == frozenset({1, 4})
    model.generation_config.eos_token_id = [7, 8]
    model.config.eos_token_id = 9
    assert stop_ids(model, tokenizer) == frozenset({1, 4, 7, 8, 9})
    assert all(type(token) is int for token in stop_ids(model, tokenizer))

    class Other:
        eos_token_id = unk_token_id = None

        def convert_tokens_to_ids(self, token):
            return {"<|endoftext|>": 151_643, "<|im_end|>": 151_645}.get(token)

    model.generation_config.eos_token_id = model.config.eos_token_id = None
    assert stop_ids(model, Other()) == frozenset({151_643, 151_645})

    class Endless(Other):
        def convert_tokens_to_ids(self, token):
            return None

    with pytest.raises(ModelError, match="no completion could ever stop"):
        stop_ids(model, Endless())


def test_a_tokenizer_without_pad_pads_with_its_end_token(folder):
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("pad_token")
    settings["padding_side"] = "right"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    _, tokenizer = load_model(folder)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 1 and tokenizer.padding_side == "left"
