"""Settings: what is refused, and the round trip through JSON."""

from dataclasses import fields

import pytest

from grpo.qwen3.settings import GRPOSettings


def test_the_defaults_are_the_recipe_of_the_tiny_model():
    settings = GRPOSettings()
    assert (settings.prompts_per_step, settings.group_size, settings.rollouts_per_step) == (16, 8, 128)
    assert (settings.steps, settings.learning_rate, settings.betas, settings.weight_decay) == (
        150,
        2e-4,
        (0.9, 0.99),
        0,
    )
    assert (settings.clip_low, settings.clip_high, settings.kl_coef, settings.kl) == (0.2, 0.2, 0.02, "k3")
    assert (settings.level, settings.aggregate, settings.max_grad_norm) == ("token", "rollout_mean", 1.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", 0, "steps is 0"),
        ("steps", 1.5, "steps is 1.5"),
        ("prompts_per_step", 0, "prompts_per_step"),
        ("group_size", 1, "group_size is 1: it must be at least 2"),
        ("group_size", True, "group_size is True"),
        ("max_new_tokens", 0, "max_new_tokens"),
        ("temperature", 0.0, "temperature is 0.0"),
        ("temperature", float("nan"), "temperature is nan"),
        ("prompt_style", "rhyme", "prompt_style is 'rhyme': choose 'plain'"),
        ("rollout_dtype", "float64", "rollout_dtype is 'float64': choose 'float32', 'bfloat16', 'float16'"),
        ("precision", "half", "precision is 'half': choose 'float32', 'bfloat16', 'float16'"),
        ("rollout_wave", 0, "rollout_wave is 0"),
        ("importance_cap", 0, "importance_cap"),
        ("level", "sentence", "level is 'sentence': choose 'token', 'rollout', 'gspo'"),
        ("aggregate", "sum", "aggregate is 'sum'"),
        ("constant_length", 0, "constant_length"),
        ("clip_low", -0.1, "clip_low"),
        ("clip_high", "a lot", "clip_high"),
        ("kl_coef", float("inf"), "kl_coef is inf"),
        ("kl", "k4", "kl is 'k4': choose 'k3', 'k2', 'k1', 'k1_in_reward'"),
        ("scale_by_std", 1, "scale_by_std is 1: pass True or False"),
        ("advantage_eps", -1.0, "advantage_eps"),
        ("learning_rate", 0.0, "learning_rate is 0.0"),
        ("betas", (0.9, 1.0), "betas is (0.9, 1.0)"),
        ("betas", 0.9, "betas is 0.9"),
        ("betas", (0.9, 0.9, 0.9), "betas"),
        ("weight_decay", -1.0, "weight_decay"),
        ("max_grad_norm", 0.0, "max_grad_norm is 0.0"),
        ("warmup_steps", -1, "warmup_steps"),
        ("inner_updates", 0, "inner_updates"),
        ("micro_batch_size", 0, "micro_batch_size"),
        ("chunk_size", 0, "chunk_size"),
        ("checkpoint_layers", "yes", "checkpoint_layers is 'yes'"),
        ("skip_zero_advantages", None, "skip_zero_advantages is None"),
        ("checkpoint_every", -1, "checkpoint_every"),
        ("keep_checkpoints", 0, "keep_checkpoints"),
        ("seed", -1, "seed"),
    ],
)
def test_a_bad_value_is_named(name, value, message):
    with pytest.raises(ValueError) as error:
        GRPOSettings(**{name: value})
    assert message in str(error.value)


def test_every_setting_is_checked_in_this_file():
    cases = test_a_bad_value_is_named.pytestmark[0].args[1]
    assert {name for name, _, _ in cases} == {field.name for field in fields(GRPOSettings)}


def test_the_round_trip_through_json_gives_equal_settings():
    settings = GRPOSettings(betas=[0.8, 0.95], micro_batch_size=3, max_grad_norm=None, level="gspo", steps=7)
    again = GRPOSettings.from_json(settings.to_json())
    assert again == settings and again.betas == (0.8, 0.95)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "pass an object"),
        ('{"stepz": 3}', "unknown settings stepz"),
        ('{"steps": 0}', "steps is 0"),
    ],
)
def test_bad_json_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        GRPOSettings.from_json(text)


def test_changed_replaces_and_checks():
    assert GRPOSettings().changed(steps=3).steps == 3
    with pytest.raises(ValueError, match="group_size is 1"):
        GRPOSettings().changed(group_size=1)
    with pytest.raises(ValueError, match="unknown settings lr"):
        GRPOSettings().changed(lr=1.0)


def test_the_warm_up_rises_linearly_and_stays():
    settings = GRPOSettings(learning_rate=0.1, warmup_steps=4)
    assert [settings.learning_rate_at(step) for step in range(6)] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])
    assert GRPOSettings(learning_rate=0.1).learning_rate_at(0) == 0.1


def test_a_penalty_in_the_reward_is_none_in_the_loss():
    assert GRPOSettings(kl_coef=0.1, kl="k1_in_reward").loss_kl_coef == 0.0
    assert GRPOSettings(kl_coef=0.1, kl="k1_in_reward").needs_reference
    assert GRPOSettings(kl_coef=0.1, kl="k2").loss_kl_coef == 0.1
    assert not GRPOSettings(kl_coef=0.0).needs_reference
