"""The expression game: GRPO that learns in seconds on one core, with every result exact.

- `game`: tokens, grammar, enumeration, evaluation
- `task`: prompts: numbers and targets
- `verifier`: what a response earns, pure functions
- `rewards`: the verifier as the trainer's reward function
- `policy`: what a policy is; the walk through the tree
- `tabular`: one logits vector per prompt and prefix
- `mlp`: one hidden layer, shared by all prompts
- `advantages`: GRPO's group advantage and its rivals
- `objective`: ratio, clip gate and KL per token; loss and derivative
- `optimizers`: SGD, Adam
- `trainer`: the loop; knows nothing of expressions
- `evaluator`: exact success, greedy success, entropy, KL
- `per_token`: one iteration as a reader would write it
- `tables`: the finished pieces of chapter 04, on a policy that is a plain dict
- `networks`: the finished pieces of chapter 05, on a network that is a plain dict
- `faulty_runs`: training runs with a known fault, to learn reading curves from
- `parts`: a reader's own functions as parts of the trainer
- `experiment`: many seeds, start and end, curves
- `compare`: paired differences and their interval
- `countdown`: Countdown-lite: does a network share what it learns?
- `study`: the ablation studies of chapter 05
"""

from grpo.expressions.advantages import RunningMean, global_advantages, group_advantages, make_advantage
from grpo.expressions.compare import Difference, paired_difference
from grpo.expressions.evaluator import Evaluation, Evaluator
from grpo.expressions.experiment import Run, ablate, default_settings, run_experiment
from grpo.expressions.game import EXPRESSIONS, PREFIXES, TARGETS, TOKENS, evaluate, explain_malformed, grammar_mask
from grpo.expressions.mlp import MLPPolicy, count_features, one_hot_features
from grpo.expressions.objective import TokenLoss, kl_penalty, token_loss, token_weights
from grpo.expressions.optimizers import SGD, Adam
from grpo.expressions.per_token import per_token_policy
from grpo.expressions.policy import Policy, Rollouts
from grpo.expressions.rewards import TableReward
from grpo.expressions.tabular import TabularPolicy
from grpo.expressions.task import Task, expression_task
from grpo.expressions.trainer import Curves, StepSignals, TrainSettings, train
from grpo.expressions.verifier import RewardWeights, Verdict, group_rewards, length_terms, verify

__all__ = [
    "EXPRESSIONS",
    "PREFIXES",
    "SGD",
    "TARGETS",
    "TOKENS",
    "Adam",
    "Curves",
    "Difference",
    "Evaluation",
    "Evaluator",
    "MLPPolicy",
    "Policy",
    "RewardWeights",
    "Rollouts",
    "Run",
    "RunningMean",
    "StepSignals",
    "TableReward",
    "TabularPolicy",
    "Task",
    "TokenLoss",
    "TrainSettings",
    "Verdict",
    "ablate",
    "count_features",
    "default_settings",
    "evaluate",
    "explain_malformed",
    "expression_task",
    "global_advantages",
    "grammar_mask",
    "group_advantages",
    "group_rewards",
    "kl_penalty",
    "length_terms",
    "make_advantage",
    "one_hot_features",
    "paired_difference",
    "per_token_policy",
    "run_experiment",
    "token_loss",
    "token_weights",
    "train",
    "verify",
]
