"""GRPO on Qwen3 in torch: one code path for a tiny model on a laptop and for Qwen3-0.6B on a GPU.

The chain of one training step, in the order in which the trainer calls the modules:

    prompts     text to token ids (plain, or the chat template)
    sampler     rollouts from the current policy, with the log-probs captured while sampling (`decode`)
    rewards     the strict box after the reasoning; `math_rewards` for general answers
    objective   advantages, ratio, clip, KL, loss: the port of `grpo.token_loss`, checked against it
    logprobs    log-probs of the completions under the policy that is trained (`forward`, `packed`)
    trainer     the loop; `settings`, `health`, `checkpoint`, `memory` are what it needs beside it

Around it: `arithmetic` (the problems), `model` and `tokenizer` (the tiny Qwen3 and the real one), `sft` (the cold
start), `evaluate`, `recipes` (what was measured, and with which seeds).
"""

from grpo.qwen3.answers import Answer, answer_batches, boxed_answer
from grpo.qwen3.arithmetic import Problem, load_arithmetic, make_problem, make_problems, write_arithmetic
from grpo.qwen3.benchmarks import BenchmarkError, load_benchmark
from grpo.qwen3.checkpoint import CheckpointError, RunFolder, verify_folder, write_folder
from grpo.qwen3.control_tables import PairedRows, compare_rows, comparison_table, controls_table
from grpo.qwen3.controls import Control, ControlRow, default_controls, run_controls
from grpo.qwen3.decode import DecodeWeights, KVCache, decode_step, prefill
from grpo.qwen3.evaluate import Evaluation, evaluate, wilson_interval
from grpo.qwen3.fit import Fit, FitError, fit_to_memory, parse_bytes
from grpo.qwen3.guards import NotFiniteError, OutOfMemoryError, require_trainable
from grpo.qwen3.health import SIGNALS, SignalLog, diagnose, read_signals, sicknesses
from grpo.qwen3.logprobs import chunked_logprobs, completion_logprobs
from grpo.qwen3.masks import completion_lengths, left_pad, length_mask, masked_mean, masked_sum, position_ids
from grpo.qwen3.math_rewards import Judged, MathReward, MathVerifier, math_reward
from grpo.qwen3.memory import MemoryPlan, memory_plan, memory_table, readable_bytes
from grpo.qwen3.model import (
    ModelError,
    load_model,
    parameter_count,
    real_shape_config,
    stop_ids,
    tiny_config,
    tiny_model,
)
from grpo.qwen3.objective import (
    group_advantages,
    importance_weights,
    kl_in_reward,
    log_ratios,
    loss_metrics,
    token_grpo_loss,
    token_weights,
)
from grpo.qwen3.plot import plot_health
from grpo.qwen3.precision import LossScaler, native_half
from grpo.qwen3.problems import TextProblem, read_problems
from grpo.qwen3.prompt_order import PromptOrder
from grpo.qwen3.prompts import PROMPT_STYLES, QWEN3_STOP_IDS, encode_prompt, encode_prompts, render_prompt
from grpo.qwen3.published import PUBLISHED, Published, published_table
from grpo.qwen3.rewards import RandomReward, boxed_reward
from grpo.qwen3.sampler import Rollouts, draw_tokens, sample
from grpo.qwen3.settings import GRPOSettings
from grpo.qwen3.sft import ColdStart, cold_start, demonstration_batch, demonstration_loss
from grpo.qwen3.shape import ModelShape
from grpo.qwen3.tokenizer import completion_text, encode_text, tiny_tokenizer
from grpo.qwen3.trainer import Trainer, completion_texts
from grpo.qwen3.voting import VoteEvaluation, count_votes, evaluate_votes, majority_vote

__all__ = [
    "PROMPT_STYLES",
    "PUBLISHED",
    "QWEN3_STOP_IDS",
    "SIGNALS",
    "Answer",
    "BenchmarkError",
    "CheckpointError",
    "ColdStart",
    "Control",
    "ControlRow",
    "DecodeWeights",
    "Evaluation",
    "Fit",
    "FitError",
    "GRPOSettings",
    "Judged",
    "KVCache",
    "LossScaler",
    "MathReward",
    "MathVerifier",
    "MemoryPlan",
    "ModelError",
    "ModelShape",
    "NotFiniteError",
    "OutOfMemoryError",
    "PairedRows",
    "Problem",
    "PromptOrder",
    "Published",
    "RandomReward",
    "Rollouts",
    "RunFolder",
    "SignalLog",
    "TextProblem",
    "Trainer",
    "VoteEvaluation",
    "answer_batches",
    "boxed_answer",
    "boxed_reward",
    "chunked_logprobs",
    "cold_start",
    "compare_rows",
    "comparison_table",
    "completion_lengths",
    "completion_logprobs",
    "completion_text",
    "completion_texts",
    "controls_table",
    "count_votes",
    "decode_step",
    "default_controls",
    "demonstration_batch",
    "demonstration_loss",
    "diagnose",
    "draw_tokens",
    "encode_prompt",
    "encode_prompts",
    "encode_text",
    "evaluate",
    "evaluate_votes",
    "fit_to_memory",
    "group_advantages",
    "importance_weights",
    "kl_in_reward",
    "left_pad",
    "length_mask",
    "load_arithmetic",
    "load_benchmark",
    "load_model",
    "log_ratios",
    "loss_metrics",
    "majority_vote",
    "make_problem",
    "make_problems",
    "masked_mean",
    "masked_sum",
    "math_reward",
    "memory_plan",
    "memory_table",
    "native_half",
    "parameter_count",
    "parse_bytes",
    "plot_health",
    "position_ids",
    "prefill",
    "published_table",
    "read_problems",
    "read_signals",
    "readable_bytes",
    "real_shape_config",
    "render_prompt",
    "require_trainable",
    "run_controls",
    "sample",
    "sicknesses",
    "stop_ids",
    "tiny_config",
    "tiny_model",
    "tiny_tokenizer",
    "token_grpo_loss",
    "token_weights",
    "verify_folder",
    "wilson_interval",
    "write_arithmetic",
    "write_folder",
]
