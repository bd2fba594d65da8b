"""What --max-memory chooses: the fastest that fits, and sentences that are true."""

import pytest

from grpo.qwen3.fit import FitError, _remedies, fit_to_memory, micro_batches, parse_bytes, usable_bytes, wave_sizes
from grpo.qwen3.memory import memory_plan, readable_bytes
from grpo.qwen3.model import real_shape_config, tiny_config
from grpo.qwen3.settings import GRPOSettings

RUN = GRPOSettings(prompts_per_step=8, group_size=8, max_new_tokens=512, kl_coef=0.0)
T4 = {"half": "float16", "device": "cuda"}


def fit(budget, settings=RUN, width=150, config=None, **options):
    return fit_to_memory(config or real_shape_config(), settings, width, int(budget * 1e9), **options)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("15GB", 15 * 10**9),
        ("14.5GiB", int(14.5 * 2**30)),
        ("500 MB", 5 * 10**8),
        ("2000000", 2_000_000),
        ("12kb", 12_000),
        (" 1 tib ", 2**40),
        (".5GB", 5 * 10**8),
        ("15.GB", 15 * 10**9),
        ("1.0B", 1),
        ("0.001kB", 1),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_sizes_as_people_write_them(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GB",
        "15 G B",
        "-3GB",
        "0GB",
        "15 apples",
        "1e9",
        "1,5GB",
        None,
        "0.4",
        "0.1B",
        "0",
        "9" * 310,
        "1" + "0" * 400 + "GB",
        "9" * 5000,
        "0." + "1" * 5000,
        "9223372036854775808",
        "10000000TB",
    ],
)
def test_what_is_no_size_is_named(text):
    with pytest.raises(ValueError, match="write a number and a unit, such as 15GB"):
        parse_bytes(text)


def test_a_budget_that_leaves_nothing_for_tensors_is_refused():
    """A twentieth and 500 MB are not planned with: of 526,315,790 bytes exactly 0 are left, of one more byte 1."""
    assert usable_bytes(526_315_791) == 1 and usable_bytes(10**9) == 450_000_000
    with pytest.raises(FitError, match=r"526\.3 MB are not enough for torch itself"):
        usable_bytes(526_315_790)


def test_waves_and_micro_batches_are_tried_from_the_fastest_on():
    run = GRPOSettings(prompts_per_step=5, group_size=6)
    assert wave_sizes(run) == [None, 18, 12, 6, 3, 2, 1]  # 3 + 2 prompts, 2 + 2 + 1, one; then halves, thirds ...
    assert micro_batches(run) == [
        *((False, size) for size in (30, 18, 12, 6)),
        *((True, size) for size in (30, 18, 12, 6)),
        *((False, size) for size in (3, 2, 1)),
        *((True, size) for size in (3, 2, 1)),
    ]


def test_with_plenty_of_memory_nothing_is_given_up():
    chosen = fit(400)
    assert (chosen.settings.rollout_wave, chosen.settings.checkpoint_layers) == (None, False)
    assert chosen.settings.micro_batch_size == 64
    assert chosen.settings == RUN.changed(micro_batch_size=64)
    assert "all 64 rollouts are decoded at once" in chosen.choices[1]
    assert "all 64 rollouts in one backward pass, keeping what every layer computed" in chosen.choices[2]


@pytest.mark.parametrize("budget", [12.3, 12.8, 13.5, 15, 18, 24, 40, 80])
@pytest.mark.parametrize("options", [{}, T4])
def test_what_is_chosen_fits_and_the_next_faster_does_not(budget, options):
    chosen = fit(budget, **options)
    usable = usable_bytes(int(budget * 1e9))
    assert chosen.plan.peak <= usable
    device = options.get("device", "cpu")
    again = memory_plan(real_shape_config(), chosen.settings, 150, device)
    assert (again.sampling, again.training) == (chosen.plan.sampling, chosen.plan.training)
    waves = wave_sizes(chosen.settings)
    for faster in waves[: waves.index(chosen.settings.rollout_wave)]:
        plan = memory_plan(real_shape_config(), chosen.settings.changed(rollout_wave=faster), 150, device)
        assert plan.sampling > usable
    pieces = micro_batches(chosen.settings)
    mine = (chosen.settings.checkpoint_layers, chosen.settings.micro_batch_size)
    for layers, size in pieces[: pieces.index(mine)]:
        changed = chosen.settings.changed(checkpoint_layers=layers, micro_batch_size=size)
        assert memory_plan(real_shape_config(), changed, 150, device).training > usable


def test_a_t4_gets_float16_and_is_told_why():
    chosen = fit(15, **T4)
    assert (chosen.settings.precision, chosen.settings.rollout_dtype) == ("float16", "float16")
    assert chosen.settings.checkpoint_layers and chosen.settings.micro_batch_size >= 8
    text = " ".join(chosen.choices)
    assert "precision and rollout_dtype float16, because this GPU has no bfloat16 of its own" in text
    assert "Weights, gradients and AdamW's averages stay float32" in text
    assert "micro-batches of" in text and "computing every layer again" in text
    assert fit(80, half="bfloat16", device="cuda").settings.precision == "bfloat16"
    assert fit(80, device="cuda").settings.precision == "float32"  # nobody said what the device is good at


def test_a_smaller_card_decodes_in_waves():
    chosen = fit(12.5, **T4)
    assert chosen.settings.rollout_wave is not None and chosen.settings.rollout_wave < 64
    (said,) = [choice for choice in chosen.choices if "waves of" in choice]
    assert f"waves of {chosen.settings.rollout_wave}:" in said and "all 64 at once would take 12." in said


def test_what_was_asked_for_stays():
    run = RUN.changed(precision="float32", rollout_dtype="bfloat16", micro_batch_size=2, rollout_wave=8)
    names = ("precision", "rollout_dtype", "micro_batch_size", "rollout_wave", "checkpoint_layers")
    chosen = fit(30, run, keep=names, **T4)
    assert [getattr(chosen.settings, name) for name in names] == [getattr(run, name) for name in names]
    assert any("rollout_dtype bfloat16 as asked, which this GPU has to emulate" in one for one in chosen.choices)
    with pytest.raises(
        FitError,
        match=r"item is activations.*lower micro_batch_size \(64\), turn on checkpoint_layers, set precision",
    ):
        fit(13, run.changed(micro_batch_size=64), keep=names)
    with pytest.raises(ValueError, match="unknown settings lr"):
        fit(30, keep=("lr",))


def test_keeping_the_layers_leads_to_parts_of_a_group():
    chosen = fit(18, keep=("checkpoint_layers",))
    assert not chosen.settings.checkpoint_layers and chosen.settings.micro_batch_size < 8


@pytest.mark.parametrize(
    ("budget", "changes", "message"),
    [
        (5, {}, "What every parameter needs is too large by itself .weights 2.4 GB, AdamW's two averages 4.8 GB"),
        (12, {"kl_coef": 0.1}, "reference 2.4 GB.*set kl_coef to 0, which needs no reference"),
        (
            13,
            {"max_new_tokens": 16_000},
            "training takes .* the largest item is activations.*set precision to 'bfloat16'",
        ),
        (11.9, {"chunk_size": 4096}, "training takes .* the largest item is logits.*lower chunk_size"),
        (0.4, {}, "400.0 MB are not enough for torch itself"),
    ],
)
def test_what_does_not_fit_is_named_with_what_would_help(budget, changes, message):
    with pytest.raises(FitError, match=message):
        fit(budget, RUN.changed(**changes))


def test_a_wave_that_was_asked_for_may_be_too_large():
    with pytest.raises(
        FitError, match=r"sampling takes .* item is KV cache, 7\.\d GB.* lower rollout_wave \(64\), set"
    ):
        fit(14, keep=("rollout_wave",))
    with pytest.raises(FitError) as error:
        fit(11, RUN.changed(precision="float16", max_new_tokens=32_000))
    for done in ("checkpoint_layers", "precision", "micro_batch_size"):
        assert done not in str(error.value)


def test_the_memory_it_asks_for_is_enough():
    with pytest.raises(FitError) as error:
        fit(5)
    needed = float(str(error.value).rsplit(", or ", 1)[1].split(" GB")[0])
    assert fit(needed + 0.06).plan.peak <= usable_bytes(int((needed + 0.06) * 1e9))
    with pytest.raises(FitError):
        fit(needed - 0.06)


def test_a_tiny_model_on_a_laptop():
    chosen = fit(2, GRPOSettings(), 12, tiny_config())
    assert chosen.settings == GRPOSettings().changed(micro_batch_size=128)


def test_half_precision_is_explained_as_far_as_it_goes():
    asked = RUN.changed(rollout_dtype="bfloat16")
    said = fit(80, asked, keep=("rollout_dtype",), half="bfloat16", device="cuda").choices
    assert said[0].startswith("precision bfloat16, which this GPU computes fast. ")
    assert not any("emulate" in one for one in said)  # it need not: that is its own format
    said = fit(30, keep=("precision",), **T4).choices[0]
    assert said.startswith("rollout_dtype float16, because this GPU has no bfloat16 of its own. ")  # no loss to scale
    assert "; the loss is scaled so that small gradients survive" in fit(30, **T4).choices[0]


def test_every_sentence_has_its_numbers():
    chosen = fit(12.5, **T4)
    whole = memory_plan(real_shape_config(), chosen.settings.changed(rollout_wave=None), 150, "cuda")
    cache = readable_bytes(whole["KV cache"].sampling)
    assert f"would take {readable_bytes(whole.sampling)}, {cache} of them keys and values" in chosen.choices[2]
    why = ", since without that not even one group fits"
    in_one_pass = chosen.settings.changed(micro_batch_size=None, checkpoint_layers=False)
    needed = readable_bytes(memory_plan(real_shape_config(), in_one_pass, 150, "cuda").training)
    assert f"(about a third more work){why}: " in chosen.choices[3]
    assert chosen.choices[3].endswith(f"; in one pass, keeping everything, it would be {needed}")
    again = fit(400, RUN.changed(checkpoint_layers=True), keep=("checkpoint_layers",)).choices[2]
    assert "all 64 rollouts in one backward pass, computing every layer again" in again and why not in again
    assert "in one pass, keeping everything" in again
    kept = fit(18, keep=("checkpoint_layers",)).choices[2]
    assert "keeping what every layer computed" in kept and "in one pass, keeping everything" in kept
    assert "in one pass, keeping everything" not in fit(400).choices[2]


TOKENS, WAVES, ROWS = "lower max_new_tokens (512)", "lower rollout_wave (64)", "lower micro_batch_size (64)"
HALF = "set {} to 'bfloat16' or 'float16'"
SMALL = {"rollout_wave": 1, "micro_batch_size": 1, "checkpoint_layers": True}


@pytest.mark.parametrize(
    ("name", "changes", "helps"),
    [
        ("reference", {}, ["set kl_coef to 0, which needs no reference"]),
        ("KV cache", {}, [WAVES, HALF.format("rollout_dtype"), TOKENS]),
        ("KV cache", {"rollout_wave": 1, "rollout_dtype": "float16"}, [TOKENS]),
        ("drawing a token", {"rollout_wave": 8}, ["lower rollout_wave (8)"]),
        ("drawing a token", SMALL, []),
        ("attention of a step", {}, [WAVES, TOKENS]),
        ("weights for sampling", {}, ["set rollout_dtype to 'float32', which on a GPU needs no copy"]),
        ("running the prompts", {}, ["take shorter prompts"]),
        ("activations", {}, [ROWS, "turn on checkpoint_layers", HALF.format("precision"), TOKENS]),
        ("activations", {**SMALL, "precision": "bfloat16"}, [TOKENS]),
        ("gradients inside a layer", {}, [ROWS, TOKENS]),
        ("logits", {}, ["lower chunk_size"]),
        ("a layer computed again", {}, [ROWS, HALF.format("precision"), TOKENS]),
        ("last norm", {"micro_batch_size": 2}, ["lower micro_batch_size (2)", TOKENS]),
        ("last norm", {}, [ROWS, TOKENS]),
        ("layers in half precision", {}, ["turn on checkpoint_layers"]),
        ("layers in half precision", SMALL, []),
        ("gradient of the embedding", {}, []),
    ],
)  # fmt: skip
def test_what_helps_against_each_item(name, changes, helps):
    assert _remedies(name, RUN.changed(**changes)) == helps
    assert memory_plan(tiny_config(), RUN, 12)[name]  # it is an item of the plan


def test_a_reference_is_blamed_only_where_there_is_one():
    with pytest.raises(FitError) as error:
        fit(5)
    assert "kl_coef" not in str(error.value) and "What helps: a smaller model, or " in str(error.value)
