"""Chapter 02, advantages and log-probs: its exercises as data."""

from grader.exercises.chapter_02.group_relative_advantage import GROUP_RELATIVE_ADVANTAGE
from grader.exercises.chapter_02.log_softmax import LOG_SOFTMAX
from grader.exercises.chapter_02.rollout_advantages import ROLLOUT_ADVANTAGES
from grader.exercises.chapter_02.sequence_logprob import SEQUENCE_LOGPROB
from grader.exercises.chapter_02.zero_variance_fraction import ZERO_VARIANCE_FRACTION

EXERCISES = (
    GROUP_RELATIVE_ADVANTAGE,
    ROLLOUT_ADVANTAGES,
    ZERO_VARIANCE_FRACTION,
    LOG_SOFTMAX,
    SEQUENCE_LOGPROB,
)
