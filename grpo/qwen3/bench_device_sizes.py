"""What `grpo bench qwen3 --device` measures, in its two sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

from grpo.qwen3.model import real_shape_config, tiny_config


@dataclass(frozen=True)
class DeviceSize:
    """What is measured, in one of two sizes.

    prompt_width: tokens of every prompt. batches: (prompts, rollouts of each). short, long: tokens decoded; their
    difference is timed, so that the prompts are not. training: settings of the training step, as GRPOSettings.
    copy_bytes: size of the tensor that is copied. recipe_steps: GRPO steps of recipe a. cold_start: arguments of its
    cold start that differ. test: test problems answered before and after.
    """

    real: bool
    prompt_width: int
    batches: tuple
    short: int
    long: int
    copy_bytes: int
    training: dict
    recipe_steps: int
    test: int
    cold_start: dict = field(default_factory=dict)

    def config(self):
        """Qwen3Config."""
        return real_shape_config() if self.real else tiny_config()


COMMON = {"micro_batch_size": 4, "checkpoint_layers": True, "kl_coef": 0.0}
SIZES = {
    "real": DeviceSize(
        real=True,
        prompt_width=150,
        batches=((1, 1), (1, 8), (8, 8)),
        short=16,
        long=80,
        copy_bytes=2**30,
        training={"prompts_per_step": 8, "group_size": 8, "max_new_tokens": 512, **COMMON},
        recipe_steps=150,
        test=960,
    ),
    "tiny": DeviceSize(
        real=False,
        prompt_width=12,
        batches=((1, 1), (1, 8), (8, 8)),
        short=2,
        long=6,
        copy_bytes=2**24,
        training={"prompts_per_step": 2, "group_size": 4, "max_new_tokens": 8, **COMMON},
        recipe_steps=2,
        test=20,
        cold_start={"steps": 2, "stop_at": None},
    ),
}
