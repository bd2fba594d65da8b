"""Chapter 07, Qwen3 on a GPU: its exercises as data. Importing them does not import torch."""

from grader.exercises.chapter_07.capture_state import CAPTURE_STATE
from grader.exercises.chapter_07.chunked_logprobs import CHUNKED_LOGPROBS
from grader.exercises.chapter_07.count_parameters import COUNT_PARAMETERS
from grader.exercises.chapter_07.majority_vote import MAJORITY_VOTE
from grader.exercises.chapter_07.memory_budget import MEMORY_BUDGET
from grader.exercises.chapter_07.nucleus_logprobs import NUCLEUS_LOGPROBS
from grader.exercises.chapter_07.render_prompt import RENDER_PROMPT
from grader.exercises.chapter_07.run_cost import RUN_COST
from grader.exercises.chapter_07.wilson_interval import WILSON_INTERVAL

EXERCISES = (
    COUNT_PARAMETERS,
    MEMORY_BUDGET,
    CHUNKED_LOGPROBS,
    RENDER_PROMPT,
    NUCLEUS_LOGPROBS,
    CAPTURE_STATE,
    MAJORITY_VOTE,
    WILSON_INTERVAL,
    RUN_COST,
)
