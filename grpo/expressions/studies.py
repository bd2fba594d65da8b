"""What each ablation study compares: arms as data. `study` runs them.

Every study names its baseline arm and, before anything is run, the margin of exact success within which two arms count
as equal. All use the MLP policy and the course's settings except for what an arm changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MARGIN = 0.05


@dataclass(frozen=True)
class Arm:
    """One way to train. settings: changed TrainSettings; weights: changed RewardWeights. rate: multiplies the learning
    rate; "matched" makes the step as long as the standard run's. then: changes for 200 more steps. first_batch_fails:
    the first iteration is scored as if every answer were wrong."""

    settings: dict = field(default_factory=dict)
    weights: dict = field(default_factory=dict)
    rate: float | str = 1.0
    then: dict | None = None
    first_batch_fails: bool = False


@dataclass(frozen=True)
class Study:
    """question: what it asks. arms: name -> Arm. baselines: name of an arm -> the arm it is compared with.
    stalled_below: compare only the seeds whose exact success, when the second stage begins, is below this."""

    question: str
    arms: dict[str, Arm]
    baselines: dict[str, str]
    margin: float = MARGIN
    stalled_below: float | None = None


def _against(baseline, arms):
    return {name: baseline for name in arms if name != baseline}


def baselines():
    """Group or global mean, with or without the division by the std, at equal and at matched step."""
    arms, pairs = {}, {}
    names = {
        "group": "group mean, std",
        "group_no_std": "group mean, no std",
        "global": "global mean, std",
        "global_no_std": "global mean, no std",
        "running_mean": "running mean, no std",
    }
    for average in ("mean", "sum"):
        standard = f"{names['group']}, token {average}"
        for kind, name in names.items():
            settings = {"advantage": kind, "token_average": average}
            arms[f"{name}, token {average}"] = Arm(settings)
            if kind != "group":
                arms[f"{name}, token {average}, matched step"] = Arm(settings, rate="matched")
        pairs |= _against(standard, [name for name in arms if f"token {average}" in name])
    return Study("Does GRPO need its group, its std, or only the step length they give?", arms, pairs)


def no_kl():
    """The weight of the KL penalty, 0 included."""
    arms, pairs = {}, {}
    for average in ("mean", "sum"):
        for beta in (0.0, 0.01, 0.04, 0.1, 0.3, 1.0):
            arms[f"beta {beta:g}, token {average}"] = Arm({"kl_coef": beta, "token_average": average})
        pairs |= _against(f"beta 0.04, token {average}", [name for name in arms if f"token {average}" in name])
    return Study("Without the KL penalty, is the drift larger and the success lower?", arms, pairs)


def kl_kinds():
    """k1, k2, k3 and k3 with a capped gradient, at the standard setting and where the policy moves faster."""
    arms, pairs = {}, {}
    cases = {
        "standard": {},
        "token sum": {"token_average": "sum"},
        "token sum, beta 0.1": {"token_average": "sum", "kl_coef": 0.1},
        "four inner updates": {"inner_updates": 4},
        "beta 0.3, 3 x step": {"kl_coef": 0.3, "learning_rate": 0.9},
    }
    for case, settings in cases.items():
        for kind in ("k3", "k1", "k2", "k3_capped"):
            arms[f"{kind}, {case}"] = Arm({"kl_kind": kind, **settings})
        arms[f"no KL, {case}"] = Arm({**settings, "kl_coef": 0.0})
        pairs |= _against(f"k3, {case}", [name for name in arms if name.split(", ", 1)[1] == case])
    return Study("Which KL estimate is a good loss, and which destroys runs?", arms, pairs)


def length_term():
    """The Kimi k1.5 length term, plain and gated, with and without the division by the std."""
    arms, pairs = {}, {}
    for kind, label in (("group", "std"), ("group_no_std", "no std, matched step")):
        rate = 1.0 if kind == "group" else "matched"
        none = f"weight 0, {label}"
        arms[none] = Arm({"advantage": kind}, rate=rate)
        for weight in (0.02, 0.1, 0.3):
            for gated in (False, True):
                name = f"weight {weight:g}, {'gated' if gated else 'plain'}, {label}"
                arms[name] = Arm({"advantage": kind}, {"length": weight, "gated": gated}, rate=rate)
        pairs |= _against(none, [name for name in arms if name.endswith(label)])
    return Study("What does a length term do to success and length, and what repairs it?", arms, pairs)


def advice_stalled():
    """Advice 1: exact success below .5 at step 200: raise the group or cut the step.

    Two ways to be there: slow (the standard run is at .3), and stuck (with four inner updates some runs collapse).
    """
    changes = {
        "go on as before": {},
        "group 16": {"group_size": 16},
        "group 32": {"group_size": 32},
        "half the step": {"learning_rate": 0.15},
        "a quarter of the step": {"learning_rate": 0.075},
        "twice the step": {"learning_rate": 0.6},
    }
    arms, pairs = {}, {}
    for case, settings in (("slow", {}), ("stuck", {"inner_updates": 4})):
        for name, change in changes.items():
            arms[f"{case}, {name}"] = Arm({"steps": 200, **settings}, then=change)
        pairs |= _against(f"{case}, go on as before", [name for name in arms if name.startswith(case)])
    return Study(
        "Below .5 at 200 steps: does a larger group or a smaller step help in the next 200?",
        arms,
        pairs,
        stalled_below=0.5,
    )


def advice_negative_reward():
    """Advice 2: mean reward negative without format violations: raise beta."""
    heavy = {"length": 2.0}
    arms = {f"length weight 2, beta {beta:g}": Arm({"kl_coef": beta}, heavy) for beta in (0.04, 0.2, 1.0)}
    arms["length weight 2, gated, beta 0.04"] = Arm({}, {"length": 2.0, "gated": True})
    arms["length weight 0, beta 0.04"] = Arm()
    return Study(
        "Mean reward negative although every response is well formed: is a larger beta the remedy?",
        arms,
        _against("length weight 2, beta 0.04", arms),
    )


def advice_length():
    """Advice 3: length inflates before accuracy, and the length term keeps it flat."""
    arms = {
        "no length term": Arm(),
        "weight 0.05, plain": Arm({}, {"length": 0.05}),
        "weight 0.05, gated": Arm({}, {"length": 0.05, "gated": True}),
        "weight 0.3, gated": Arm({}, {"length": 0.3, "gated": True}),
    }
    return Study(
        "Does length grow before accuracy does, and does the length term keep it flat?",
        arms,
        _against("no length term", arms),
    )


def advice_overshoot():
    """Advice 4: without group normalisation an all-fail first batch makes later advantages overshoot."""
    arms = {}
    for kind in ("running_mean", "running_mean_before", "group"):
        label = {
            "running_mean": "running mean with the batch",
            "running_mean_before": "running mean before the batch",
            "group": "group",
        }[kind]
        arms[label] = Arm({"advantage": kind})
        arms[f"{label}, first batch fails"] = Arm({"advantage": kind}, first_batch_fails=True)
    pairs = {name: name.removesuffix(", first batch fails") for name in arms if name.endswith("fails")}
    return Study("Does an all-fail first batch make the advantages of a running mean overshoot?", arms, pairs)


STUDIES = {
    "baselines": baselines,
    "no_kl": no_kl,
    "kl_kinds": kl_kinds,
    "length_term": length_term,
    "advice_stalled": advice_stalled,
    "advice_negative_reward": advice_negative_reward,
    "advice_length": advice_length,
    "advice_overshoot": advice_overshoot,
}
