"""Chapter 06, Qwen3 in torch: its exercises as data. Importing them does not import torch."""

from grader.exercises.chapter_06.backward_in_micro_batches import BACKWARD_IN_MICRO_BATCHES
from grader.exercises.chapter_06.boxed_reward import BOXED_REWARD
from grader.exercises.chapter_06.completion_mask import COMPLETION_MASK
from grader.exercises.chapter_06.left_pad import LEFT_PAD
from grader.exercises.chapter_06.log_ratios import LOG_RATIOS
from grader.exercises.chapter_06.logprobs_from_logits import LOGPROBS_FROM_LOGITS
from grader.exercises.chapter_06.sample_completions import SAMPLE_COMPLETIONS
from grader.exercises.chapter_06.token_grpo_loss import TOKEN_GRPO_LOSS
from grader.exercises.chapter_06.train_step import TRAIN_STEP

EXERCISES = (
    COMPLETION_MASK,
    LEFT_PAD,
    LOGPROBS_FROM_LOGITS,
    LOG_RATIOS,
    TOKEN_GRPO_LOSS,
    BACKWARD_IN_MICRO_BATCHES,
    SAMPLE_COMPLETIONS,
    BOXED_REWARD,
    TRAIN_STEP,
)
