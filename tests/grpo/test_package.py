"""The package as a whole: flat names, documented functions, untouched arguments."""

import importlib
import inspect

import numpy as np
import pytest

import grpo

MODULES = ["rollouts", "rewards", "advantages", "logprobs", "objective", "gradients", "signals"]


def test_every_public_function_is_exported_flat():
    defined = {
        name
        for module in MODULES
        for name, thing in vars(importlib.import_module(f"grpo.{module}")).items()
        if getattr(thing, "__module__", None) == f"grpo.{module}" and not name.startswith("_")
    }
    assert set(grpo.__all__) == defined
    assert all(hasattr(grpo, name) for name in grpo.__all__)


@pytest.mark.parametrize("name", [name for name in grpo.__all__ if name != "HealthSignals"])
def test_every_function_documents_arguments_and_result(name):
    function = getattr(grpo, name)
    doc = inspect.getdoc(function)
    assert "eturns" in doc
    if "as in" not in doc:
        for parameter in inspect.signature(function).parameters:
            assert parameter in doc, f"{name} does not document {parameter}"


def frozen(values):
    array = np.array(values)
    array.setflags(write=False)
    return array


def read_only_calls():
    rewards, ids, logits = frozen([1, 0, 0, 1]), frozen([0, 1, 0, 1]), frozen([0.3, -0.2, 0.1, 0.0])
    actions, advantages = frozen([0, 1, 2, 3]), frozen([1.0, -1.0, 0.5, 0.0])
    logps, rows, mask = frozen([-1.0, -2.0, -1.5, -0.5]), frozen(np.ones((3, 4))), frozen([1, 1, 0, 0])
    probs = frozen([0.1, 0.2, 0.3, 0.4])
    ratios = np.exp(advantages)
    ratios.setflags(write=False)
    batch = logits, actions, advantages
    return {
        "group_rollouts": (ids, actions, 2),
        "score_completions": (lambda completions, truths: rewards, list("abcd"), list("abcd")),
        "group_relative_advantage": (rewards, 2),
        "rollout_advantages": (ids, rewards, 2),
        "zero_variance_fraction": (rewards, 2),
        "no_signal_probability": (probs, 2),
        "log_softmax": (logits,),
        "entropy": (logits,),
        "token_logprobs": (rows, actions, 2),
        "sequence_logprob": (rows, actions, 2, 0.5),
        "completion_mask": (actions, {2}),
        "masked_sum": (logps, mask),
        "rollout_ratio": (logps, logps),
        "sequence_mean_ratio": (logps, logps),
        "token_ratios": (logps, logps),
        "clipped_surrogate": (ratios, advantages),
        "clip_gate": (ratios, advantages),
        "clip_fraction": (ratios, advantages),
        "kl_k1": (advantages,),
        "kl_k2": (advantages,),
        "kl_k3": (advantages,),
        "kl_k3_slope": (advantages,),
        "grpo_loss": (ratios, advantages, logits, 0.2, 0.1),
        "aggregate_token_losses": (rows, frozen(np.ones((3, 4))), "token_mean"),
        "softmax": (logits,),
        "policy_gradient_objective": batch,
        "policy_gradient_analytic": batch,
        "finite_diff_gradient": (lambda x: x.sum(), logits),
        "categorical_kl": (probs, probs),
        "reverse_kl_gradient": (logits, advantages),
        "full_objective": (*batch, advantages, 0.1),
        "full_objective_gradient": (*batch, advantages, 0.1),
        "k_loss_expected_gradient": ("k3", logits, advantages),
        "sample_group": (logits, 3, np.random.default_rng(0)),
        "toy_loss": (*batch, logps, logps, 0.2, 0.1),
        "toy_loss_gradient": (*batch, logps, logps, 0.2, 0.1),
        "toy_grpo_step": (logits, advantages, logits, actions, rewards),
    }


@pytest.mark.parametrize("name", read_only_calls())
def test_arguments_are_never_changed(name):
    # Writing to a read-only array would raise.
    getattr(grpo, name)(*read_only_calls()[name])


def test_results_do_not_share_memory_with_arguments():
    for name, arguments in read_only_calls().items():
        result = getattr(grpo, name)(*arguments)
        if isinstance(result, np.ndarray) and name != "score_completions":
            shared = [np.shares_memory(result, x) for x in arguments if isinstance(x, np.ndarray)]
            assert not any(shared), name
