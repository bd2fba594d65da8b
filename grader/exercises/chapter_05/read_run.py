"""The exercise `read_run`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER, draw_seed
from grpo.expressions.experiment import default_settings, run_experiment
from grpo.expressions.networks import COLLAPSE, HEALTHY, LABELS, TIED, end_of_run, read_run
from grpo.expressions.networks import HELD_BACK as HELD
from grpo.expressions.verifier import RewardWeights

EVERY = 3
SIGNALS = ("reward", "zero_variance_share", "length", "kl", "entropy")


# --- fresh runs ------------------------------------------------------------------------------------------------------


def _kinds(rng):
    """kind -> seeds at a time, settings, length weight, and what makes a run of that kind a clear case at its end."""
    held, weight = {"steps": 60, "kl_coef": float(rng.uniform(1.2, 2.0))}, float(rng.uniform(0.05, 0.3))
    return {
        "finished": (
            5,
            {"steps": 99, "learning_rate": 1.3, "kl_coef": 0.1},
            0.0,
            lambda e: e["reward"] > 1.0 and e["ties"] > 0.88,
        ),
        COLLAPSE: (3, {"steps": 75, "learning_rate": 0.15}, weight, lambda e: e["length"] < 2.3),
        TIED: (
            6,
            {"steps": 60, "learning_rate": 6.0, "kl_coef": 0.0},
            0.0,
            lambda e: 0.3 < e["reward"] < 0.75 and e["ties"] > 0.96 and e["length"] > 4.0,
        ),
        HELD: (3, held, 0.0, lambda e: e["kl"] < 0.1 and e["entropy"] > 3.0),
    }


@lru_cache(maxsize=64)
def _runs(seed):
    """kind -> two runs of that kind, each a dict of lists: fresh seeds, and clear cases only."""
    rng = np.random.default_rng(seed)
    found = {kind: [] for kind in ("learning", *_kinds(rng))}
    for kind, (n_seeds, settings, weight, is_clear) in _kinds(rng).items():
        settings = default_settings("mlp", token_average="sum", kl_kind="k3_capped", **settings)
        while len(found[kind]) < 2 or len(found["learning"]) < 2:
            seeds = [draw_seed(rng) for _ in range(n_seeds)]
            run = run_experiment("mlp", settings, seeds, RewardWeights(length=weight), evaluate_every=EVERY)
            for column in range(n_seeds):
                curves = {name: np.round(run.curves[name][:, column], 3).tolist() for name in SIGNALS}
                if kind == "finished":
                    # The first quarter of such a run is one that is still learning.
                    early = {name: values[: len(values) // 4] for name, values in curves.items()}
                    end = _end(early)
                    if 0.4 < end["reward"] < 0.85 and end["ties"] < 0.6 and end["kl"] > 0.6 and end["entropy"] < 2.7:
                        found["learning"].append(early)
                if is_clear(_end(curves)):
                    found[kind].append(curves)
        # The two kinds of healthy runs are two runs, not one and its beginning.
        found[kind] = found[kind][-2:] if kind == "finished" else found[kind][:2]
    return found


def _end(curves):
    end = end_of_run(curves)
    return {**end, "ties": end["zero_variance_share"]}


def _shown(*wanted):
    """The calls of a part: (kind, number) for each. All parts of one check show the same runs."""

    def calls(rng):
        # No part draws from rng, so all parts find the same state and, with it, the same runs.
        runs = _runs(rng.bit_generator.state["state"]["state"] % 2**31)
        return [call(runs[kind][number]) for kind, number in wanted]

    return calls


# --- mistakes --------------------------------------------------------------------------------------------------------


def _ties_first(curves):
    end = _end(curves)
    if end["ties"] > 0.8 and end["reward"] < 0.9:
        return TIED
    return read_run(curves)


def _any_ties(curves):
    end = _end(curves)
    if end["length"] < 3.0:
        return COLLAPSE
    return TIED if end["ties"] > 0.8 else read_run(curves)


def _start_of_the_run(curves):
    return read_run({name: values[:1] for name, values in curves.items()})


def _low_reward_is_kl(curves):
    return HELD if _end(curves)["reward"] < 0.8 else HEALTHY


def _low_reward_is_ties(curves):
    end = _end(curves)
    if end["length"] < 3.0:
        return COLLAPSE
    return TIED if end["reward"] < 0.4 or (end["ties"] > 0.85 and end["reward"] < 0.9) else HEALTHY


def _small_kl_is_healthy(curves):
    found = read_run(curves)
    return HEALTHY if found == HELD else found


def _always_healthy(curves):
    return HEALTHY


def _kl_turned_round(curves):
    end = _end(curves)
    if end["length"] < 3.0:
        return COLLAPSE
    if end["ties"] > 0.85 and end["reward"] < 0.9:
        return TIED
    return HELD if end["kl"] > 1.0 else HEALTHY


def _never_collapsed(curves):
    rising = curves["reward"][-1] >= curves["reward"][0]
    found = read_run(curves)
    return (HEALTHY if rising else HELD) if found == COLLAPSE else found


def _rising_is_healthy(curves):
    if np.mean(curves["reward"][-3:]) > np.mean(curves["reward"][:3]) + 0.05:
        return HEALTHY
    if np.mean(curves["length"][-3:]) < 2.5:
        return COLLAPSE
    return HELD if np.mean(curves["kl"][-3:]) < 0.3 else TIED


def _ties_first_and_alone(curves):
    return TIED if _end(curves)["ties"] > 0.8 else read_run(curves)


# --- symptoms: the answers, by the kind of run ------------------------------------------------------------------------


def _answers(values, calls):
    """kind -> the set of answers to runs of that kind."""
    found = {}
    for value, kind in zip(values, _ORDER, strict=True):
        found.setdefault(kind, set()).add(value)
    return found


def _right_for(said, *kinds):
    return all(said[kind] == {HEALTHY if kind in ("learning", "finished") else kind} for kind in kinds)


def _looks_tied_first(values, calls):
    said = _answers(values, calls)
    return TIED in said[COLLAPSE] and TIED not in said["finished"]


def _looks_tied_alone(values, calls):
    said = _answers(values, calls)
    return TIED in said["finished"] and TIED not in said[COLLAPSE]


def _looks_tied_everywhere(values, calls):
    said = _answers(values, calls)
    return TIED in said["finished"] and TIED in said[COLLAPSE]


def _looks_like_blame(values, calls):
    said = _answers(values, calls)
    return _right_for(said, HELD, "finished") and any(HELD in said[kind] for kind in ("learning", TIED, COLLAPSE))


def _looks_tied_when_low(values, calls):
    said = _answers(values, calls)
    return _right_for(said, "finished", COLLAPSE) and (TIED in said[HELD] or TIED in said["learning"])


def _looks_still(values, calls):
    said = _answers(values, calls)
    return HEALTHY in said[HELD] and _right_for(said, "learning", "finished", TIED, COLLAPSE)


def _looks_risen(values, calls):
    said = _answers(values, calls)
    return HEALTHY in said[TIED] and _right_for(said, "learning", "finished")


def _looks_blind_to_collapse(values, calls):
    said = _answers(values, calls)
    return not said[COLLAPSE] & {COLLAPSE, TIED} and _right_for(said, "learning", "finished", TIED, HELD)


def _with_the_entropy(curves):
    """Other signals, other thresholds: entropy instead of KL, and medians."""
    last = {name: float(np.median(values[-4:])) for name, values in curves.items()}
    if last["length"] <= 3.4:
        return "length collapse"
    if last["entropy"] > 2.8:
        return "held back"
    return "tied groups" if last["zero_variance_share"] >= 0.85 and last["reward"] < 0.95 else "healthy"


def _reward_last(curves):
    if np.max(curves["reward"][-3:]) > 0.95:
        return "healthy"
    if max(curves["length"][-3:]) < 3.5:
        return "length collapse"
    if np.mean(curves["zero_variance_share"][-6:]) > 0.85:
        return "tied groups"
    return "held back" if curves["kl"][-1] < 0.3 else "healthy"


_SHOWN = (
    (("learning", 0), ("finished", 0), (TIED, 0)),
    ((COLLAPSE, 0), (COLLAPSE, 1), ("learning", 1)),
    ((TIED, 0), (TIED, 1), ("finished", 1), (COLLAPSE, 0)),
    ((HELD, 0), (HELD, 1), ("learning", 0)),
)
_ORDER = tuple(kind for runs in _SHOWN for kind, _ in runs)  # of all calls


READ_RUN = Exercise(
    name="read_run",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=read_run,
    parts=(
        Part(
            says="healthy runs, one still learning and one that has finished; and one that is stuck",
            points=1,
            calls=_shown(*_SHOWN[0]),
            hint="How do these three differ in their last points? Reward and tied groups, looked at together, tell "
            "them apart.",
        ),
        Part(
            says="a length collapse",
            points=1,
            calls=_shown(*_SHOWN[1]),
            hint="How many tokens has the shortest response, its end token included? Look at the length first.",
        ),
        Part(
            says="tied groups: stuck with wrong answers",
            points=1,
            calls=_shown(*_SHOWN[2]),
            hint="Tied groups alone say little: finished and collapsed runs have them as well. What else do you see?",
        ),
        Part(
            says="held back by the penalty",
            points=1,
            calls=_shown(*_SHOWN[3]),
            hint="The reward hardly moves although there are groups to learn from. Has the policy moved at all?",
        ),
    ),
    mistakes=(
        Mistake(
            "another spelling",
            lambda curves: read_run(curves).replace(" ", "_"),
            "Some answer is none of the four texts. They are compared letter by letter: 'healthy', 'length collapse', "
            "'tied groups', 'held back'.",
            symptom=lambda values, calls: all(isinstance(v, str) for v in values) and not set(values) <= set(LABELS),
        ),
        Mistake("always healthy", _always_healthy, "Every run was called healthy."),
        Mistake(
            "start of the run",
            _start_of_the_run,
            "The verdict depends on the first points of the curves, where all runs look alike. The last ones count.",
        ),
        Mistake(
            "a large KL is the penalty",
            _kl_turned_round,
            "Runs with a large KL were read as held back. It is the other way round: the penalty holds a run *near* "
            "the reference.",
        ),
        Mistake(
            "collapse not seen",
            _never_collapsed,
            "The collapsed runs were not seen: their reward rises a little in the end, since short answers are paid. "
            "Look at their length.",
            symptom=_looks_blind_to_collapse,
        ),
        Mistake(
            "ties before length",
            _ties_first,
            "A collapsed run was read as tied groups. Its groups are tied, but that is the consequence: everybody "
            "writes the same short answer. Look for the cause first.",
            symptom=_looks_tied_first,
        ),
        Mistake(
            "ties alone",
            _any_ties,
            "A run that has finished was read as stuck. Both have tied groups: in one they are all right, in the other "
            "all wrong. The reward tells them apart.",
            symptom=_looks_tied_alone,
        ),
        Mistake(
            "ties first and alone",
            _ties_first_and_alone,
            "Finished runs and collapsed ones were read as stuck: all three kinds have tied groups. Ties say that "
            "there is nothing left to learn from, not why. Another signal says that.",
            symptom=_looks_tied_everywhere,
        ),
        Mistake(
            "low reward is the penalty's fault",
            _low_reward_is_kl,
            "A run was put down to the penalty that has another trouble, or none yet. Not every run with a low reward "
            "is held back; the other signals say which one is.",
            symptom=_looks_like_blame,
        ),
        Mistake(
            "low reward means ties",
            _low_reward_is_ties,
            "A run was put down to tied groups although many of its groups still have a signal. A low reward alone "
            "does not say that a run is stuck.",
            symptom=_looks_tied_when_low,
        ),
        Mistake(
            "rising is healthy",
            _rising_is_healthy,
            "A run in trouble was called healthy. Whatever its reward did on the way, look at its end: is the reward "
            "near the top, or is there a group left to learn from?",
            symptom=_looks_risen,
        ),
        Mistake(
            "a small KL is healthy",
            _small_kl_is_healthy,
            "A run that stays at its start was called healthy. Not drifting is easy for a policy that does not move.",
            symptom=_looks_still,
        ),
    ),
    alternatives=(
        Alternative("medians, entropy for KL", _with_the_entropy),
        Alternative("reward first", _reward_last),
    ),
    hint="Four questions in a row, the most telling signal first. Average a few last points: single ones are noisy.",
)
