"""Chapter 05, the MLP policy: its exercises as data."""

from grader.exercises.chapter_05.encode import ENCODE
from grader.exercises.chapter_05.held_out_split import HELD_OUT_SPLIT
from grader.exercises.chapter_05.logit_gradient import LOGIT_GRADIENT
from grader.exercises.chapter_05.mlp_backward import MLP_BACKWARD
from grader.exercises.chapter_05.mlp_forward import MLP_FORWARD
from grader.exercises.chapter_05.mlp_grpo_gradient import MLP_GRPO_GRADIENT
from grader.exercises.chapter_05.paired_difference import PAIRED_DIFFERENCE
from grader.exercises.chapter_05.read_run import READ_RUN
from grader.exercises.chapter_05.train_mlp import TRAIN_MLP

EXERCISES = (
    ENCODE,
    MLP_FORWARD,
    LOGIT_GRADIENT,
    MLP_BACKWARD,
    MLP_GRPO_GRADIENT,
    TRAIN_MLP,
    PAIRED_DIFFERENCE,
    READ_RUN,
    HELD_OUT_SPLIT,
)
