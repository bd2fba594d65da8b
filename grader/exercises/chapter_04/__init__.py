"""Chapter 04, GRPO on a table: its exercises as data."""

from grader.exercises.chapter_04.diagnose_run import DIAGNOSE_RUN
from grader.exercises.chapter_04.legal_tokens import LEGAL_TOKENS
from grader.exercises.chapter_04.length_term import LENGTH_TERM
from grader.exercises.chapter_04.masked_probs import MASKED_PROBS
from grader.exercises.chapter_04.sample_rollouts import SAMPLE_ROLLOUTS
from grader.exercises.chapter_04.tabular_update import TABULAR_UPDATE
from grader.exercises.chapter_04.token_coefficients import TOKEN_COEFFICIENTS
from grader.exercises.chapter_04.train_tabular import TRAIN_TABULAR
from grader.exercises.chapter_04.verify_expression import VERIFY_EXPRESSION

EXERCISES = (
    LEGAL_TOKENS,
    MASKED_PROBS,
    VERIFY_EXPRESSION,
    LENGTH_TERM,
    SAMPLE_ROLLOUTS,
    TOKEN_COEFFICIENTS,
    TABULAR_UPDATE,
    TRAIN_TABULAR,
    DIAGNOSE_RUN,
)
