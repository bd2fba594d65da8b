"""One iteration of GRPO without numpy, token by token. It exists for `grpo bench expressions`.

The same arithmetic as `per_token`, on lists of floats.
"""

from __future__ import annotations

from math import exp, log, tanh

from grpo.expressions.game import END, PREFIXES, TOKENS, grammar_mask
from grpo.expressions.mlp import count_features
from grpo.expressions.verifier import verify

_LEGAL = {prefix: [i for i, ok in enumerate(grammar_mask(prefix)) if ok] for prefix in PREFIXES}
_COUNTS = {prefix: row.tolist() for prefix, row in zip(PREFIXES, count_features(), strict=True)}
_IDS = range(len(TOKENS))


class PurePythonTabular:
    """logits: dict, (prompt, prefix) -> list of V floats."""

    def __init__(self, policy, seed=0):
        table = policy.parameters["logits"][seed]
        self.rows = {
            (prompt, prefix): table[:, prompt, policy.column[state]].tolist()
            for prompt in range(policy.n_prompts)
            for state, prefix in enumerate(PREFIXES)
        }

    def logits(self, prompt, prefix):
        return self.rows[prompt, prefix]

    def zero_gradient(self):
        return {}

    def add_gradient(self, gradient, prompt, prefix, slopes):
        row = gradient.setdefault((prompt, prefix), [0.0] * len(TOKENS))
        for i in _IDS:
            row[i] += slopes[i]

    def step(self, gradient, learning_rate):
        for key, slopes in gradient.items():
            row = self.rows[key]
            for i in _IDS:
                row[i] -= learning_rate * slopes[i]


class PurePythonMLP:
    """w1: H lists of D floats; b1: H; w2: V lists of H; b2: V."""

    def __init__(self, policy, seed=0):
        self.w1, self.b1, self.w2, self.b2 = (policy.parameters[k][seed].tolist() for k in ("w1", "b1", "w2", "b2"))
        self.prompts = policy.prompt_features.tolist()

    def _hidden(self, prompt, prefix):
        x = _COUNTS[prefix] + self.prompts[prompt]
        hidden = []
        for weights, bias in zip(self.w1, self.b1, strict=True):
            total = bias
            for weight, value in zip(weights, x, strict=True):
                total += weight * value
            hidden.append(tanh(total))
        return x, hidden

    def logits(self, prompt, prefix):
        hidden = self._hidden(prompt, prefix)[1]
        logits = []
        for weights, bias in zip(self.w2, self.b2, strict=True):
            total = bias
            for weight, value in zip(weights, hidden, strict=True):
                total += weight * value
            logits.append(total)
        return logits

    def zero_gradient(self):
        h, d = len(self.w1), len(self.w1[0])
        return [[0.0] * d for _ in range(h)], [0.0] * h, [[0.0] * h for _ in _IDS], [0.0] * len(TOKENS)

    def add_gradient(self, gradient, prompt, prefix, slopes):
        w1, b1, w2, b2 = gradient
        x, hidden = self._hidden(prompt, prefix)
        for i in _IDS:
            b2[i] += slopes[i]
            row = w2[i]
            for j, value in enumerate(hidden):
                row[j] += slopes[i] * value
        for j, value in enumerate(hidden):
            below = 0.0
            for i in _IDS:
                below += self.w2[i][j] * slopes[i]
            below *= 1.0 - value * value
            b1[j] += below
            row = w1[j]
            for k, feature in enumerate(x):
                row[k] += below * feature

    def step(self, gradient, learning_rate):
        w1, b1, w2, b2 = gradient
        for rows, slopes in ((self.w1, w1), (self.w2, w2)):
            for row, slope in zip(rows, slopes, strict=True):
                for k in range(len(row)):
                    row[k] -= learning_rate * slope[k]
        for row, slope in ((self.b1, b1), (self.b2, b2)):
            for k in range(len(row)):
                row[k] -= learning_rate * slope[k]


def iteration(policy, reference, targets, group_size, rng, learning_rate):
    """Sample, reward, advantages, gradient, step. policy, reference: PurePython...; rng: random.Random."""
    groups = [[_sample(policy, prompt, rng) for _ in range(group_size)] for prompt in range(len(targets))]
    policy.step(loss_gradient(policy, reference, targets, groups), learning_rate)


def loss_gradient(policy, reference, targets, groups, clip_eps=0.2, kl_coef=0.04):
    """The gradient of the loss. groups: a list of G (response, logps) per target."""
    n_rollouts = sum(map(len, groups))
    gradient = policy.zero_gradient()
    for prompt, (target, group) in enumerate(zip(targets, groups, strict=True)):
        for (response, old_logps), advantage in zip(group, _advantages(group, target), strict=True):
            weight = 1.0 / (n_rollouts * len(response))
            for position, token in enumerate(response):
                prefix, token_id = response[:position], TOKENS.index(token)
                probs, logp = _softmax(policy.logits(prompt, prefix), prefix, token_id)
                ref_logp = _softmax(reference.logits(prompt, prefix), prefix, token_id)[1]
                ratio = exp(logp - old_logps[position])
                shut = (advantage > 0 and ratio > 1.0 + clip_eps) or (advantage < 0 and ratio < 1.0 - clip_eps)
                coefficient = (0.0 if shut else advantage * ratio) - kl_coef * (1.0 - exp(ref_logp - logp))
                slopes = [weight * coefficient * p for p in probs]
                slopes[token_id] -= weight * coefficient
                policy.add_gradient(gradient, prompt, prefix, slopes)
    return gradient


def _advantages(group, target):
    rewards = []
    for response, _ in group:
        verdict = verify(response, target)
        rewards.append(0.1 * verdict.well_formed + 1.0 * verdict.correct)
    mean = sum(rewards) / len(group)
    std = (sum((reward - mean) ** 2 for reward in rewards) / (len(group) - 1)) ** 0.5
    return [(reward - mean) / (std + 1e-4) for reward in rewards]


def _softmax(logits, prefix, token_id):
    legal = _LEGAL[prefix]
    largest = max(logits[i] for i in legal)
    probs, total = [0.0] * len(TOKENS), 0.0
    for i in legal:
        probs[i] = exp(logits[i] - largest)
        total += probs[i]
    return [p / total for p in probs], logits[token_id] - largest - log(total)


def _sample(policy, prompt, rng):
    prefix, logps = (), []
    while True:
        logits = policy.logits(prompt, prefix)
        probs, _ = _softmax(logits, prefix, _LEGAL[prefix][0])
        token_id = rng.choices(_IDS, probs)[0]
        logps.append(log(probs[token_id]))
        prefix = (*prefix, TOKENS[token_id])
        if TOKENS[token_id] == END:
            return prefix, logps
