"""The exercise `diagnose_run`: its parts, its known mistakes, and correct alternatives.

The runs are trained when a check begins, with seeds of its own.
"""

from __future__ import annotations

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import CHAPTER, draw_seed
from grpo.expressions.faulty_runs import BROKEN_SIGN, DEAD_CLIP, DIAGNOSES, HEALTHY, LEAKING, faulty_runs


def _mean(curve, where):
    n = max(1, len(curve) // 4)
    return float(np.mean(curve[:n] if where == "start" else curve[-n:]))


def _learns(signals):
    return _mean(signals["reward"], "end") > _mean(signals["reward"], "start")


def _clip_never_acts(signals):
    return signals["inner_updates"] > 1 and max(signals["clip_fraction"]) == 0.0


def _reference_follows(signals):
    """The policy has become another one, and the KL to the reference does not show it."""
    return signals["entropy"][0] - signals["entropy"][-1] > 0.3 and _mean(signals["kl"], "end") < 0.1


def _diagnose(signals):
    if not _learns(signals):
        return BROKEN_SIGN
    if _clip_never_acts(signals):
        return DEAD_CLIP
    return LEAKING if _reference_follows(signals) else HEALTHY


def _diagnose_clip_always(signals):
    return DEAD_CLIP if _learns(signals) and max(signals["clip_fraction"]) == 0.0 else _diagnose(signals)


def _diagnose_rare_clip(signals):
    rare = signals["inner_updates"] > 1 and signals["clip_fraction"][-1] < 0.05
    return DEAD_CLIP if rare and _learns(signals) else _diagnose(signals)


def _diagnose_one_idle_clip(signals):
    idle = signals["inner_updates"] > 1 and min(signals["clip_fraction"]) == 0.0
    return DEAD_CLIP if idle and _learns(signals) else _diagnose(signals)


def _diagnose_several_means_many(signals):
    found = _diagnose(signals)
    return HEALTHY if found == DEAD_CLIP and signals["inner_updates"] < 4 else found


def _diagnose_by_loss(signals):
    rises = _mean(signals["loss"], "end") > _mean(signals["loss"], "start")
    return BROKEN_SIGN if rises else _diagnose(signals)


def _diagnose_growing_kl(signals):
    found = _diagnose(signals)
    if found in (HEALTHY, LEAKING):
        return LEAKING if signals["kl"][-1] > signals["kl"][0] + 0.1 else HEALTHY
    return found


def _diagnose_growing_kl_first(signals):
    return LEAKING if signals["kl"][-1] > signals["kl"][0] + 0.1 else _diagnose(signals)


def _diagnose_without_leak(signals):
    """Also what comes of asking whether the KL is exactly 0: it never is."""
    found = _diagnose(signals)
    return HEALTHY if found == LEAKING else found


def _diagnose_always_healthy(signals):
    return HEALTHY


def _diagnose_entropy(signals):
    return BROKEN_SIGN if signals["entropy"][-1] < signals["entropy"][0] - 0.3 else _diagnose(signals)


def _diagnose_reward_reversed(signals):
    if _learns(signals):
        return BROKEN_SIGN
    return HEALTHY


def _diagnose_names_exchanged(signals):
    return {DEAD_CLIP: LEAKING, LEAKING: DEAD_CLIP}.get(_diagnose(signals), _diagnose(signals))


def _diagnose_dead_groups(signals):
    found = _diagnose(signals)
    return DEAD_CLIP if found == HEALTHY and max(signals["zero_variance_share"]) > 0.2 else found


def _diagnose_without_sign(signals):
    if _clip_never_acts(signals):
        return DEAD_CLIP
    return LEAKING if _mean(signals["kl"], "end") < 0.1 else HEALTHY


def _diagnose_without_clip(signals):
    found = _diagnose(signals)
    return HEALTHY if found == DEAD_CLIP else found


def _diagnose_as_list(signals):
    return [_diagnose(signals)]


def _diagnose_by_levels(signals):
    """Plain levels, the questions in another order."""
    if signals["inner_updates"] != 1 and sum(signals["clip_fraction"]) < 1e-9:
        return "dead clip"
    if signals["reward"][-1] < 0.25:
        return "broken sign"
    return "healthy" if max(signals["kl"]) > 0.5 else "leaking reference"


def _diagnose_by_trends(signals):
    x = np.arange(len(signals["reward"]))
    trend = {name: np.polyfit(x, curve, 1)[0] for name, curve in signals.items() if name != "inner_updates"}
    if trend["reward"] < 0:
        return BROKEN_SIGN
    if signals["inner_updates"] >= 2 and not np.any(signals["clip_fraction"]):
        return DEAD_CLIP
    return HEALTHY if trend["kl"] > -0.1 * trend["entropy"] else LEAKING


def _run_call(signals):
    kl, clip, n = signals["kl"], max(signals["clip_fraction"]), signals["inner_updates"]
    note = (
        f"{n} update{'s' if n > 1 else ''} per batch; reward {_mean(signals['reward'], 'start'):.2f} to "
        f"{_mean(signals['reward'], 'end'):.2f}, KL {kl[0]:.3f} to {kl[-1]:.3f}, clip fraction at most {clip:.3f}"
    )
    return call(signals, note=note)


def _single(rng, *faults):
    return [_run_call(one) for one in faulty_runs(faults, 1, float(rng.uniform(24, 36)), draw_seed(rng))]


def _several(rng, *faults, updates=4, rates=(20, 30), idle=False):
    """Runs with several updates per batch: how many is not drawn, since `inner_updates > 3` must not pass by luck.

    `idle` says whether a clip that is at work stands still in some iteration; neither may that be luck.
    """
    while True:
        runs = faulty_runs(faults, updates, float(rng.uniform(*rates)), draw_seed(rng))
        clips = [one["clip_fraction"] for one, fault in zip(runs, faults, strict=True) if fault in (HEALTHY, LEAKING)]
        if all(max(clip) > 0 and (min(clip) == 0) == idle for clip in clips):
            return [_run_call(one) for one in runs]


def _dead_or_normal(rng):
    """Two updates and short steps: a clip that is at work stands still in many iterations, and not in all."""
    return [
        *_single(rng, HEALTHY),
        *_several(rng, DEAD_CLIP, updates=2),
        *_several(rng, HEALTHY, updates=2, rates=(14, 17), idle=True),
    ]


def _all_kinds(rng):
    calls = _single(rng, HEALTHY, BROKEN_SIGN, LEAKING)
    calls += _several(rng, DEAD_CLIP, HEALTHY, LEAKING, BROKEN_SIGN)
    return [calls[i] for i in rng.permutation(len(calls))]


DIAGNOSE_RUN = Exercise(
    name="diagnose_run",
    chapter=CHAPTER,
    difficulty=2,
    minutes=25,
    reference=_diagnose,
    parts=(
        Part(
            says="a run that learns, and one whose sign is broken",
            points=1,
            calls=lambda rng: _single(rng, HEALTHY, BROKEN_SIGN),
            hint="Only one of the curves is what we want more of. Compare its beginning with its end; single "
            "iterations are noisy, so take means of several.",
        ),
        Part(
            says="a clip that never acts: normal with one update per batch, dead with several",
            points=1,
            calls=_dead_or_normal,
            hint="When is every ratio exactly 1, and so the clip fraction exactly 0, in a correct program?",
        ),
        Part(
            says="a reference that follows the policy",
            points=1,
            calls=lambda rng: _several(rng, LEAKING, HEALTHY, LEAKING),
            hint="A falling entropy says that the policy has become another one. What should the KL to the start then "
            "do?",
        ),
        Part(
            says="seven fresh runs of all kinds",
            points=2,
            calls=_all_kinds,
            hint="Ask the questions in a fixed order, and let each answer only what it can know.",
        ),
    ),
    mistakes=(
        Mistake(
            "clip fraction 0 taken for dead with one update",
            _diagnose_clip_always,
            "A healthy run with one update per batch was called a dead clip. There every ratio is 1, and nothing can "
            "be clipped: look at `inner_updates` too.",
        ),
        Mistake(
            "always a dead clip",
            lambda signals: DEAD_CLIP,
            "Every run is called a dead clip.",
        ),
        Mistake(
            "a rare clip taken for a dead one",
            _diagnose_rare_clip,
            "A run was called a dead clip although tokens were clipped in it. A clip acts rarely when little is left "
            "to learn. Dead is something else: it never acts, not even when the policy moves fast.",
        ),
        Mistake(
            "one iteration without a clip taken for a dead one",
            _diagnose_one_idle_clip,
            "A run was called a dead clip although tokens were clipped in it. A single iteration in which nothing is "
            "clipped says nothing. Dead is a clip that never acts, in no iteration at all.",
        ),
        Mistake(
            "two updates taken for one",
            _diagnose_several_means_many,
            "A run with two updates per batch was treated as if it had one. From the second update on the policy is "
            "not the one that sampled, so the clip could act.",
        ),
        Mistake(
            "loss taken for progress",
            _diagnose_by_loss,
            "Your diagnosis follows the loss. It starts near 0 in every batch and mostly shows the penalty; in a "
            "healthy run it rises. Which signal is progress?",
        ),
        Mistake(
            "a growing KL taken for a leak",
            _diagnose_growing_kl,
            "The KL to a frozen reference grows in a healthy run: to learn is to move away from the start. A leak is "
            "the opposite.",
        ),
        Mistake(
            "a growing KL taken for a leak, before all other questions",
            _diagnose_growing_kl_first,
            "Every run was called a leak. If it was a growing KL that told you so: the KL to a frozen reference grows "
            "in every run that moves. A leak is the opposite.",
        ),
        Mistake(
            "leaking reference overlooked",
            _diagnose_without_leak,
            "Runs with a leaking reference were called healthy. Such a run has become another policy (its entropy "
            "fell), and yet its KL stays small all the time. Small, not exactly 0: the reference is one iteration "
            "behind.",
        ),
        Mistake(
            "leak and dead clip overlooked",
            lambda signals: HEALTHY if _learns(signals) else BROKEN_SIGN,
            "Only two of the four diagnoses occur: every run that learns was called healthy. A rising reward does not "
            "prove that clip and penalty work. Look at the clip fraction, and at KL and entropy together.",
        ),
        Mistake(
            "always healthy",
            _diagnose_always_healthy,
            "Every run is called healthy.",
        ),
        Mistake(
            "falling entropy taken for a fault",
            _diagnose_entropy,
            "Every run was called broken. If it was the entropy that told you so: it falls in a healthy run too, since "
            "the policy makes up its mind. What matters is on what.",
        ),
        Mistake(
            "reward read the wrong way round",
            _diagnose_reward_reversed,
            "A run whose reward rises was called broken.",
        ),
        Mistake(
            "dead clip and leak exchanged",
            _diagnose_names_exchanged,
            "The two names are exchanged: a dead clip shows in the clip fraction, a leaking reference in the KL.",
        ),
        Mistake(
            "groups without signal taken for a dead clip",
            _diagnose_dead_groups,
            "Groups without signal have nothing to do with the clip: in them all rewards are equal. In a healthy run "
            "there are many at the start and at the end.",
        ),
        Mistake(
            "broken sign overlooked",
            _diagnose_without_sign,
            "A run whose reward falls was called something else. Ask first whether the policy gets better at all.",
        ),
        Mistake(
            "dead clip overlooked",
            _diagnose_without_clip,
            "A run that makes several updates per batch and never clips a single token was called healthy.",
        ),
        Mistake(
            "diagnosis in a list",
            _diagnose_as_list,
            "The diagnosis came in a list or a tuple. Asked for is the text alone.",
            symptom=lambda values, calls: all(isinstance(value, (list, tuple)) for value in values),
        ),
        Mistake(
            "another spelling",
            lambda signals: _diagnose(signals).replace(" ", "_").title(),
            "Some of your diagnoses are none of the four texts. They are compared letter by letter: small letters, and "
            'a space between the words: "healthy", "broken sign", "dead clip", "leaking reference".',
            symptom=lambda values, calls: any(isinstance(value, str) and value not in DIAGNOSES for value in values),
        ),
    ),
    alternatives=(
        Alternative("plain levels, in another order", _diagnose_by_levels),
        Alternative("fitted trends", _diagnose_by_trends),
    ),
    hint="Three questions: does it get better, can the clip act, does the KL tell the truth?",
)
