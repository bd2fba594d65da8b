"""One iteration of GRPO as a reader would write it: loops over prompts, rollouts and tokens, one policy, one seed.

The vectorised policies and `token_loss` give the same numbers (to 1e-12, a test compares), only faster. The two
policies here are views of the same parameters: build one with `per_token_policy`.
"""

from __future__ import annotations

import numpy as np

from grpo.expressions.game import END, NUMBERS, TOKENS, grammar_mask, state_of
from grpo.expressions.mlp import MLPPolicy, count_features
from grpo.expressions.objective import kl_penalty
from grpo.expressions.tabular import TabularPolicy


class PerTokenTabular:
    """logits: (V, P, K) array, one column per prefix with a choice. column: (70,) int, prefix -> column."""

    def __init__(self, parameters, column):
        self.parameters, self.column = parameters, column

    def logits(self, prompt, prefix):
        """(V,) logits of the next token, before the grammar mask."""
        return self.parameters["logits"][:, prompt, self.column[state_of(prefix)]]

    def add_gradient(self, gradient, prompt, prefix, logit_gradient):
        """Add what a (V,) gradient of these logits means for the parameters."""
        gradient["logits"][:, prompt, self.column[state_of(prefix)]] += logit_gradient


class PerTokenMLP:
    """logits = w2 tanh(w1 x + b1) + b2, x = (token counts of the prefix, features of the prompt)."""

    def __init__(self, parameters, prompt_features, prefix_features):
        self.parameters, self.prompt_features, self.prefix_features = parameters, prompt_features, prefix_features

    def logits(self, prompt, prefix):
        """(V,) logits of the next token, before the grammar mask."""
        return self.parameters["w2"] @ self._hidden(prompt, prefix)[1] + self.parameters["b2"]

    def add_gradient(self, gradient, prompt, prefix, logit_gradient):
        """Back-propagate a (V,) gradient of these logits and add it to the parameters' gradient."""
        x, hidden = self._hidden(prompt, prefix)
        below = (self.parameters["w2"].T @ logit_gradient) * (1.0 - hidden**2)
        gradient["w2"] += np.outer(logit_gradient, hidden)
        gradient["b2"] += logit_gradient
        gradient["w1"] += np.outer(below, x)
        gradient["b1"] += below

    def _hidden(self, prompt, prefix):
        x = np.concatenate([self.prefix_features[state_of(prefix)], self.prompt_features[prompt]])
        return x, np.tanh(self.parameters["w1"] @ x + self.parameters["b1"])


def per_token_policy(policy, seed=0, prefix_features=None):
    """The per-token view of one seed of a vectorised policy; it shares the parameters' memory.

    Args:
        policy: TabularPolicy or MLPPolicy.
        seed: which of its seeds.
        prefix_features: (70, C), for an MLPPolicy that was built with others than `count_features()`.

    Returns: PerTokenTabular or PerTokenMLP.

    Raises: ValueError for another kind of policy.
    """
    if not isinstance(policy, (TabularPolicy, MLPPolicy)):
        raise ValueError(f"policy is of type {type(policy).__name__}: pass a TabularPolicy or an MLPPolicy")
    parameters = {name: value[seed] for name, value in policy.parameters.items()}
    if isinstance(policy, TabularPolicy):
        return PerTokenTabular(parameters, policy.column)
    features = count_features() if prefix_features is None else prefix_features
    return PerTokenMLP(parameters, policy.prompt_features, features)


def next_token_logprobs(policy, prompt, prefix, numbers=NUMBERS):
    """(V,) log-probs of the next token; -inf where the grammar forbids it. The mask comes before the softmax."""
    logits = np.where(grammar_mask(prefix, numbers), policy.logits(prompt, prefix), -np.inf)
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def sample_response(policy, prompt, rng):
    """Sample token by token until the end token.

    Args:
        policy: a per-token policy.
        prompt: int.
        rng: numpy Generator.

    Returns: list of strings, the end token included, and (T,) log-probs captured on the way.
    """
    response, logps = [], []
    while END not in response:
        distribution = next_token_logprobs(policy, prompt, response)
        cumulative = np.cumsum(np.exp(distribution))
        token = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        logps.append(distribution[token])
        response.append(TOKENS[token])
    return response, np.array(logps)


def sample_groups(policy, n_prompts, group_size, rng):
    """A group per prompt: list of P lists of G (response, logps)."""
    return [[sample_response(policy, prompt, rng) for _ in range(group_size)] for prompt in range(n_prompts)]


def score_response(policy, prompt, response):
    """(T,) log-probs of a given response's tokens, the end token included."""
    return np.array(
        [
            next_token_logprobs(policy, prompt, response[:position])[TOKENS.index(token)]
            for position, token in enumerate(response)
        ]
    )


def loss_and_gradient(
    policy, reference, groups, advantages, *, clip_eps=0.2, kl_coef=0.04, kl_kind="k3", token_average="mean"
):
    """The loss of a batch and its gradient, token by token.

    loss = -(1/N) sum over rollouts of (1/|o|) sum_t [ min(r_t A, clip(r_t) A) - kl_coef * k_t ]

    Args:
        policy, reference: per-token policies.
        groups: P lists of G (response, logps captured while sampling).
        advantages: (P, G).
        clip_eps, kl_coef, kl_kind, token_average: as in TrainSettings.

    Returns: float, and a dict of arrays like the policy's parameters.
    """
    n_rollouts = sum(len(group) for group in groups)
    gradient = {name: np.zeros_like(value) for name, value in policy.parameters.items()}
    loss = 0.0
    for prompt, group in enumerate(groups):
        for rollout, (response, old_logps) in enumerate(group):
            advantage = advantages[prompt][rollout]
            weight = 1.0 / n_rollouts
            if token_average == "mean":
                weight /= len(response)
            ref_logps = score_response(reference, prompt, response)
            for position, token in enumerate(response):
                prefix, token_id = response[:position], TOKENS.index(token)
                distribution = next_token_logprobs(policy, prompt, prefix)
                logp = distribution[token_id]
                ratio = np.exp(logp - old_logps[position])
                clipped = min(max(ratio, 1.0 - clip_eps), 1.0 + clip_eps)
                penalty, penalty_slope = kl_penalty(ref_logps[position] - logp, kl_kind)
                loss -= weight * (min(ratio * advantage, clipped * advantage) - kl_coef * penalty)

                shut = (advantage > 0 and ratio > 1.0 + clip_eps) or (advantage < 0 and ratio < 1.0 - clip_eps)
                coefficient = (0.0 if shut else advantage * ratio) - kl_coef * penalty_slope
                one_hot = np.zeros(len(TOKENS))
                one_hot[token_id] = 1.0
                policy.add_gradient(gradient, prompt, prefix, -weight * coefficient * (one_hot - np.exp(distribution)))
    return float(loss), gradient


def sgd_step(policy, gradient, learning_rate):
    """Plain gradient descent, in place."""
    for name, value in policy.parameters.items():
        value -= learning_rate * gradient[name]
