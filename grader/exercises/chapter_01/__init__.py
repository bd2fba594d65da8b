"""Chapter 01, rollouts and rewards: its exercises as data."""

from grader.exercises.chapter_01.checkpoint_accuracy import CHECKPOINT_ACCURACY
from grader.exercises.chapter_01.extract_boxed_strict import EXTRACT_BOXED_STRICT
from grader.exercises.chapter_01.fool_lenient_verifier import FOOL_LENIENT_VERIFIER
from grader.exercises.chapter_01.group_rollouts import GROUP_ROLLOUTS
from grader.exercises.chapter_01.reward_rlvr import REWARD_RLVR

EXERCISES = (
    GROUP_ROLLOUTS,
    EXTRACT_BOXED_STRICT,
    REWARD_RLVR,
    FOOL_LENIENT_VERIFIER,
    CHECKPOINT_ACCURACY,
)
