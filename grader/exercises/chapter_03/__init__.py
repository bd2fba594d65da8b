"""Chapter 03, the GRPO loss: its exercises as data."""

from grader.exercises.chapter_03.clipped_surrogate import CLIPPED_SURROGATE
from grader.exercises.chapter_03.finite_diff_gradient import FINITE_DIFF_GRADIENT
from grader.exercises.chapter_03.grpo_loss import GRPO_LOSS
from grader.exercises.chapter_03.kl_k3 import KL_K3
from grader.exercises.chapter_03.policy_gradient_analytic import POLICY_GRADIENT_ANALYTIC
from grader.exercises.chapter_03.rollout_ratio import ROLLOUT_RATIO
from grader.exercises.chapter_03.sample_group import SAMPLE_GROUP
from grader.exercises.chapter_03.toy_grpo_step import TOY_GRPO_STEP
from grader.exercises.chapter_03.toy_loss_gradient import TOY_LOSS_GRADIENT

EXERCISES = (
    ROLLOUT_RATIO,
    CLIPPED_SURROGATE,
    KL_K3,
    GRPO_LOSS,
    SAMPLE_GROUP,
    POLICY_GRADIENT_ANALYTIC,
    FINITE_DIFF_GRADIENT,
    TOY_LOSS_GRADIENT,
    TOY_GRPO_STEP,
)
