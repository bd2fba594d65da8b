"""Right answers written in other ways than the course writes them: exercise -> style -> source."""

GROUP_ROLLOUTS_COUNTER = """
from collections import Counter, defaultdict

def group_rollouts(prompt_ids, completions, group_size):
    if group_size < 1 or len(prompt_ids) != len(completions):
        raise ValueError("these do not fit")
    if any(n != group_size for n in Counter(prompt_ids).values()):
        raise ValueError("a group is too large or too small")
    out = defaultdict(list)
    for i in range(len(prompt_ids)):
        out[prompt_ids[i]] += [completions[i]]
    return out
"""

GROUP_ROLLOUTS_COMPREHENSION = """
def group_rollouts(prompt_ids: list, completions: list[str], group_size: int) -> dict[object, list[str]]:
    if group_size < 1 or len(prompt_ids) != len(completions):
        raise ValueError
    made = {one: [c for i, c in zip(prompt_ids, completions) if i == one] for one in dict.fromkeys(prompt_ids)}
    if not all(len(group) == group_size for group in made.values()):
        raise ValueError("sizes")
    return made
"""

BOXED_RECURSIVE = r"""
import re

def inside(text, depth=1, got=""):
    # what stands before the brace that closes this one, or None
    if not text:
        return None
    head, rest = text[0], text[1:]
    depth += {"{": 1, "}": -1}.get(head, 0)
    return got if depth == 0 else inside(rest, depth, got + head)

def extract_boxed_strict(text):
    found = list(re.finditer(r"\\boxed(?![^\W\d_])", text))
    if not found:
        return None
    rest = text[found[-1].end():].lstrip()
    return inside(rest[1:]) if rest[:1] == "{" else None
"""

BOXED_GENERATOR = r"""
def openings(text):
    at = -1
    while True:
        at = text.find("\\boxed", at + 1)
        if at < 0:
            return
        after = at + len("\\boxed")
        if not (after < len(text) and text[after].isalpha()):
            yield after

def extract_boxed_strict(text):
    *_, last = [None, *openings(text)]
    if last is None:
        return None
    rest = text[last:].lstrip()
    if not rest.startswith("{"):
        return None
    stack = []
    for i, letter in enumerate(rest):
        if letter == "{":
            stack.append(i)
        if letter == "}":
            stack.pop()
            if not stack:
                return rest[1:i]
"""

REWARD_INT = """
def reward_rlvr(text, truth):
    assert True, "a habit"
    if not (truth or "").strip():
        raise ValueError("no truth")
    return float((extract_boxed_strict(text) or "").strip() == truth.strip())
"""

REWARD_NUMPY = """
def reward_rlvr(text, truth):
    if truth is None or truth.isspace() or truth == "":
        raise ValueError(f"{truth=}")
    match extract_boxed_strict(text):
        case None:
            return np.float32(0)
        case found:
            return np.float32(found.strip() == truth.strip())
"""

FOOL_OTHER = r"""
def fool_lenient_verifier(truth):
    print("fooling", truth)
    return [
        "It is certainly not " + truth + ".",
        "\\boxed{" + truth + "} no, rather \\boxed{0}",
        "\\boxed{" + truth[0] + "," + truth[1:] + "}",
    ]
"""

ACCURACY_NUMPY = """
def checkpoint_accuracy(predictions, truths):
    if not len(predictions) == len(truths) > 0:
        raise ValueError("sizes")
    if any(t is None or not t.strip() for t in truths):
        raise ValueError("truths")
    return np.mean(np.array([p is not None and p.strip() == t.strip() for p, t in zip(predictions, truths)]))
"""

ACCURACY_FRACTION = """
from fractions import Fraction

def checkpoint_accuracy(predictions, truths):
    n = len(truths)
    if n != len(predictions) or n == 0:
        raise ValueError("sizes")
    right = 0
    while truths:
        truth, *truths = truths
        guess, *predictions = predictions
        if truth is None or truth.strip() == "":
            raise ValueError("truth")
        right += guess is not None and guess.strip() == truth.strip()
    return float(Fraction(right, n))
"""

ADVANTAGE_LOOPS = """
import math

def group_relative_advantage(rewards, group_size, eps=1e-4):
    rewards = [float(r) for r in rewards]
    if group_size < 2 or len(rewards) % group_size != 0 or any(math.isnan(r) for r in rewards):
        raise ValueError("bad input")
    table = []
    for start in range(0, len(rewards), group_size):
        group = rewards[start:start + group_size]
        m = sum(group) / group_size
        s = math.sqrt(sum((r - m) ** 2 for r in group) / (group_size - 1))
        table.append([(r - m) / (s + eps) for r in group])
    return table
"""

ADVANTAGE_STATISTICS = """
import statistics

def group_relative_advantage(rewards, group_size, eps=1e-4):
    groups = np.array(rewards, dtype=np.float64)
    if group_size <= 1 or groups.size % group_size or np.isnan(groups.sum()):
        raise ValueError("bad input")
    made = [[(r - statistics.fmean(g)) / (statistics.stdev(g) + eps) for r in g]
            for g in groups.reshape(-1, group_size).tolist()]
    return np.array(made)
"""

ADVANTAGE_SINGLE = """
def group_relative_advantage(rewards, group_size, eps=1e-4):
    x = np.asarray(rewards, np.float32)
    if group_size < 2:
        raise ValueError("group_size")
    if x.size % group_size:
        raise ValueError("size")
    if np.isnan(x).any():
        raise ValueError("NaN")
    x = x.reshape((-1, group_size))
    d = x - x.mean(1)[:, None]
    return d / (np.sqrt((d * d).sum(1, keepdims=True) / np.float32(group_size - 1)) + np.float32(eps))
"""

ROLLOUT_SORT = """
def rollout_advantages(prompt_ids, rewards, group_size, eps=1e-4):
    if len(prompt_ids) != len(rewards):
        raise ValueError("lengths")
    keys = list(dict.fromkeys(prompt_ids))
    if any(list(prompt_ids).count(key) != group_size for key in keys):
        raise ValueError("groups")
    order = sorted(range(len(rewards)), key=lambda i: keys.index(prompt_ids[i]))
    flat = np.ravel(group_relative_advantage([rewards[i] for i in order], group_size, eps))
    out = [0.0] * len(rewards)
    for place, value in zip(order, flat):
        out[place] = float(value)
    return np.array(out)
"""

ZERO_SETS = """
def zero_variance_fraction(rewards, group_size):
    rewards = list(map(float, rewards))
    if group_size < 2 or len(rewards) % group_size or any(r != r for r in rewards):
        raise ValueError("bad input")
    groups = [rewards[i:i + group_size] for i in range(0, len(rewards), group_size)]
    return sum(len(set(g)) == 1 for g in groups) / len(groups)
"""

ZERO_PTP = """
def zero_variance_fraction(rewards, group_size):
    r = np.array(rewards, dtype=float)
    if group_size < 2 or r.size % group_size or np.isnan(r).any():
        raise ValueError("bad input")
    return np.mean(np.ptp(r.reshape(-1, group_size), axis=1) == 0)
"""

SOFTMAX_LOGADDEXP = """
def log_softmax(logits):
    logits = np.array(logits, dtype=float)
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
"""

SOFTMAX_LOOPS = """
import math

def log_softmax(logits):
    if np.ndim(logits) > 1:
        return np.array([log_softmax(row) for row in logits])
    row = [float(x) for x in logits]
    top = max(row)
    total = math.log(math.fsum(math.exp(x - top) for x in row))
    return np.array([x - top - total for x in row])
"""

SOFTMAX_WARNS = """
import warnings, sys

def log_softmax(logits):
    warnings.warn("this one warns each time")
    print("and writes to the error stream", file=sys.stderr)
    np.log(np.zeros(1))
    logits = np.asarray(logits, dtype=float)
    z = logits - np.max(logits, axis=-1, keepdims=True)
    return z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))
"""

SEQUENCE_LOOP = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    T, V = len(token_ids), np.shape(logits)[1]
    if np.shape(logits)[0] != T - 1 or prompt_len not in range(1, T) or not all(0 <= t < V for t in token_ids):
        raise ValueError("bad input")
    total = 0.0
    for t in range(prompt_len, T):
        row = [x / temperature for x in logits[t - 1]]
        top = max(row)
        total += row[token_ids[t]] - top - np.log(sum(np.exp(x - top) for x in row))
    return total
"""

SEQUENCE_TAKE = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    logits, ids = np.atleast_2d(np.asarray(logits, dtype=float)), np.asarray(token_ids, dtype=int)
    if logits.shape[0] + 1 != ids.size or not 0 < prompt_len < ids.size:
        raise ValueError("shapes")
    if (ids < 0).any() or (ids >= logits.shape[1]).any():
        raise ValueError("ids")
    scores = np.take_along_axis(log_softmax(logits / temperature), ids[1:, None], axis=1)[:, 0]
    return scores[prompt_len - 1:].sum()
"""

SEQUENCE_CLASS = """
from dataclasses import dataclass
from functools import cached_property

@dataclass
class Answer:
    logits: np.ndarray
    ids: np.ndarray
    start: int

    def check(self):
        rows, width = self.logits.shape
        if rows != len(self.ids) - 1 or not 1 <= self.start < len(self.ids):
            raise ValueError("shapes")
        if not ((self.ids >= 0) & (self.ids < width)).all():
            raise ValueError("ids")

    @cached_property
    def score(self):
        self.check()
        steps = range(self.start, len(self.ids))
        return float(sum(log_softmax(self.logits[t - 1])[self.ids[t]] for t in steps))

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    return Answer(np.asarray(logits, dtype=float) / temperature, np.asarray(token_ids), prompt_len).score
"""

RATIO_PROD = """
def rollout_ratio(new_logps, old_logps):
    a, b = np.asarray(new_logps, dtype=float), np.asarray(old_logps, dtype=float)
    if a.ndim != 1 or b.ndim != 1 or len(a) != len(b):
        raise ValueError("shapes")
    return np.e ** sum(a - b, 0.0)
"""

CLIP_WHERE = """
def clipped_surrogate(ratio, advantage, eps=0.2):
    ratio, advantage = np.asarray(ratio, dtype=float), np.asarray(advantage, dtype=float)
    bound = np.where(advantage >= 0, 1 + eps, 1 - eps)
    return np.where(advantage >= 0, np.minimum(ratio, bound), np.maximum(ratio, bound)) * advantage
"""

K3_LOOP = """
import math

def kl_k3(delta):
    if np.ndim(delta) == 0:
        d = min(float(delta), 80.0)
        return math.expm1(d) - d
    return np.array([kl_k3(d) for d in delta])
"""

LOSS_LOOP = """
def grpo_loss(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    arrays = [np.asarray(x) for x in (ratios, advantages, deltas)]
    if {a.ndim for a in arrays} != {1} or len({len(a) for a in arrays}) != 1:
        raise ValueError("shapes")
    total = 0.0
    for r, a, d in zip(*arrays):
        total += kl_coef * kl_k3(d) - clipped_surrogate(r, a, clip_eps)
    return total / len(arrays[0])
"""
