"""The exercise `run_cost`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

from types import SimpleNamespace

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common import CHAPTER, close, number_under, numbers_under


def _named(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=0.0):
    return SimpleNamespace(**locals())


def _decode(r):
    return max(r.lengths) * r.decode_ms / 1000


def _prefill(r):
    return r.prompt_tokens / r.prefill_rate


def _trained(r):
    return r.prompt_tokens + sum(r.lengths)


# Other ideas of the GPU-hours and of what they cost, by the name of the mistake; s and t are a step's seconds.
OTHER_HOURS = {
    "minutes": lambda r, s, t: r.gpus * r.steps * (s + t) / 60,
    "seconds": lambda r, s, t: r.gpus * r.steps * (s + t),
    "one step": lambda r, s, t: r.gpus * (s + t) / 3600,
    "sampling once": lambda r, s, t: r.gpus * (s + r.steps * t) / 3600,
    "training beside sampling": lambda r, s, t: r.gpus * r.steps * max(s, t) / 3600,
    "training only": lambda r, s, t: r.gpus * r.steps * t / 3600,
    "sampling only": lambda r, s, t: r.gpus * r.steps * s / 3600,
    "hours, not GPU-hours": lambda r, s, t: r.steps * (s + t) / 3600,
    "divided by the GPUs": lambda r, s, t: r.steps * (s + t) / 3600 / r.gpus,
    "hours rounded": lambda r, s, t: float(round(r.gpus * r.steps * (s + t) / 3600)),
}
OTHER_COSTS = {
    "each GPU paid twice": lambda r, hours: hours * r.gpus * r.price,
    "one GPU paid": lambda r, hours: hours / r.gpus * r.price,
    "divided by the price": lambda r, hours: hours / r.price,
    "paid per step": lambda r, hours: hours * r.price / r.steps,
}


def _cost(
    sample=lambda r: _prefill(r) + _decode(r),
    train=lambda r: _trained(r) / r.train_rate,
    gpu_hours=lambda r, sample, train: r.gpus * r.steps * (sample + train) / 3600,
    cost=lambda r, gpu_hours: gpu_hours * r.price,
):
    """A cost with one of its four figures made otherwise; what is built on it follows."""

    def run_cost(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=0.0):
        r = _named(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus, price)
        sample_s, train_s = sample(r), train(r)
        hours = gpu_hours(r, sample_s, train_s)
        return {"sample_s": sample_s, "train_s": train_s, "gpu_hours": hours, "cost": cost(r, hours)}

    return run_cost


run_cost = _cost()


def _a_price_by_default(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=1.0):
    return run_cost(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus, price)


def _step_by_step(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=0.0):
    """Decodes token by token until no rollout is left, then adds up the seconds of all steps."""
    sample_s, token = prompt_tokens / prefill_rate, 0
    while any(length > token for length in lengths):
        sample_s += decode_ms * 1e-3
        token += 1
    train_s = prompt_tokens / train_rate
    for length in lengths:
        train_s += length / train_rate
    seconds = sum(sample_s + train_s for _ in range(steps))
    gpu_hours = seconds / 60 / 60 * gpus
    return {"cost": price * gpu_hours, "gpu_hours": gpu_hours, "train_s": train_s, "sample_s": sample_s}


def _with_numpy(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=0.0):
    import numpy as np

    lengths = np.asarray(lengths)
    seconds = np.array([prompt_tokens / prefill_rate + decode_ms * lengths.max() / 1e3, 0.0])
    seconds[1] = (lengths.sum() + prompt_tokens) / train_rate
    hours = np.float64(steps * gpus) * seconds.sum() / 3600
    return {"sample_s": seconds[0], "train_s": seconds[1], "gpu_hours": hours, "cost": np.float64(price) * hours}


def _lengths(rng, most=400):
    """Lengths of which the longest stands neither first nor last, and far above the mean."""
    lengths = rng.integers(most // 8, most // 2, int(rng.integers(5, 9)))
    lengths[int(rng.integers(1, len(lengths) - 1))] = most + int(rng.integers(1, 40))
    return [int(length) for length in lengths]


def _drawn(rng):
    return call(
        int(rng.integers(50, 400)),
        _lengths(rng),
        int(rng.integers(300, 900)),
        float(rng.choice([12.5, 18.0, 23.5])),
        float(rng.choice([400.0, 700.0, 900.0])),
        float(rng.choice([350.0, 520.0, 640.0])),
        gpus=int(rng.integers(2, 5)),
        price=float(rng.choice([1.7, 2.4, 3.1])),
    )


def _long_prompts(rng):
    """Reading takes longer than decoding here, and training longer than both."""
    rate = float(rng.choice([400.0, 700.0, 900.0]))
    steps, prompt_tokens = int(rng.integers(50, 400)), int(rng.integers(3000, 5000))
    return call(steps, _lengths(rng, 120), prompt_tokens, 12.5, rate, rate / 2, gpus=2, price=1.9)


_LESSON = call(3600, [2, 4], 10, 500, 10, 16, gpus=2, price=1.5)
_ONE_GPU = call(100, [512, 130, 260, 400], 600, 20.0, 8000.0, 4000.0, price=2.5, note="one GPU")
_NO_PRICE = call(100, [512, 130, 260, 400], 600, 20.0, 8000.0, 4000.0, gpus=3, note="no price")


def _cause(key, values, calls):
    """The name of the known mistake that gives the same under this key in all calls of a part, as a question.

    Whoever makes two slips in two entries has made neither of the known mistakes as a whole.
    """
    for mistake in RUN_COST.mistakes:
        theirs = [mistake.code(*one.args, **one.kwargs)[key] for one in calls]
        if all(close(number_under(value, key)[0], their) for value, their in zip(values, theirs, strict=True)):
            return f" ({mistake.name}?)"
    return ""


def _cause_from_own(others, key, own, values, calls):
    """The same for a figure that is judged by the student's own others, whose names are `own`."""
    rows = [(value, _named(*one.args, **one.kwargs)) for value, one in zip(values, calls, strict=True)]
    for name, other in others.items():
        if all(close(value[key], other(r, *(value[mine] for mine in own))) for value, r in rows):
            return f" ({name}?)"
    return ""


def _seconds_under(key):
    def holds(values, calls):
        for i, (value, one) in enumerate(zip(values, calls, strict=True)):
            mine, sentence = number_under(value, key)
            if mine is None:
                return i, sentence
            right = run_cost(*one.args, **one.kwargs)[key]
            if not close(mine, right):
                return i, f"under {key!r} {right:.6g} s are due, yours are {mine:.6g} s{_cause(key, values, calls)}"
        return None

    return holds


def _hours_are_right(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        found, sentence = numbers_under(value, ("sample_s", "train_s", "gpu_hours"))
        if found is None:
            return i, sentence
        steps, gpus = one.args[0], one.kwargs.get("gpus", 1)
        due = gpus * steps * (found["sample_s"] + found["train_s"]) / 3600
        right = close(found["gpu_hours"], run_cost(*one.args, **one.kwargs)["gpu_hours"])
        if not right and not (due > 0 and close(found["gpu_hours"], due)):
            return i, (
                f"with your {found['sample_s']:.6g} s and {found['train_s']:.6g} s a step, {steps} steps on {gpus} "
                f"GPU{'s' if gpus > 1 else ''} take {due:.6g} GPU-hours; yours are {found['gpu_hours']:.6g}"
                + _cause_from_own(OTHER_HOURS, "gpu_hours", ("sample_s", "train_s"), values, calls)
            )
    return None


def _price_is_right(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        found, sentence = numbers_under(value, ("gpu_hours", "cost"))
        if found is None:
            return i, sentence
        price = one.kwargs.get("price", 0.0)
        due = found["gpu_hours"] * price
        if not (found["gpu_hours"] > 0 and close(found["cost"], due)):
            return i, (
                f"your {found['gpu_hours']:.6g} GPU-hours at {price:g} each cost {due:.6g}; yours cost "
                f"{found['cost']:.6g}" + _cause_from_own(OTHER_COSTS, "cost", ("gpu_hours",), values, calls)
            )
    return None


RUN_COST = Exercise(
    name="run_cost",
    chapter=CHAPTER,
    difficulty=1,
    minutes=12,
    reference=run_cost,
    parts=(
        Part(
            says="seconds of sampling in a step",
            points=1,
            calls=lambda rng: [_LESSON, _drawn(rng), _long_prompts(rng)],
            holds=_seconds_under("sample_s"),
            hint="First the prompts are read, all of them at `prefill_rate`, then tokens are drawn until the last "
            "rollout has ended. How many decode steps is that? These are the seconds of one step of the run.",
        ),
        Part(
            says="seconds of training in a step",
            points=1,
            calls=lambda rng: [_LESSON, _drawn(rng)],
            holds=_seconds_under("train_s"),
            hint="How many tokens does the training pass see, and how many a second?",
        ),
        Part(
            says="GPU-hours of the run",
            points=1,
            calls=lambda rng: [_LESSON, _ONE_GPU, _drawn(rng), _long_prompts(rng)],
            holds=_hours_are_right,
            hint="Sampling and training come one after the other, in every step. Every GPU that is held counts.",
        ),
        Part(
            says="what the run costs",
            points=1,
            calls=lambda rng: [_LESSON, _drawn(rng), _NO_PRICE],
            holds=_price_is_right,
            hint="The price is for one GPU and one hour.",
        ),
    ),
    mistakes=(
        Mistake(
            "milliseconds as seconds",
            _cost(sample=lambda r: _prefill(r) + max(r.lengths) * r.decode_ms),
            "The milliseconds of a decode step were added to seconds: sampling takes about a thousand times too long.",
        ),
        Mistake(
            "mean length",
            _cost(sample=lambda r: _prefill(r) + sum(r.lengths) / len(r.lengths) * r.decode_ms / 1000),
            "Decoding was counted for a rollout of mean length. The rollouts run side by side, and the last one keeps "
            "the GPU waiting: one long rollout makes the whole step long.",
        ),
        Mistake(
            "one rollout after the other",
            _cost(sample=lambda r: _prefill(r) + sum(r.lengths) * r.decode_ms / 1000),
            "Every token of every rollout got a decode step of its own. One step gives a token to all rollouts that "
            "are still going: that is what the batch is for.",
        ),
        Mistake(
            "first rollout",
            _cost(sample=lambda r: _prefill(r) + r.lengths[0] * r.decode_ms / 1000),
            "The length of the first rollout was taken. Sampling ends with the last that is still going.",
        ),
        Mistake(
            "shortest rollout",
            _cost(sample=lambda r: _prefill(r) + min(r.lengths) * r.decode_ms / 1000),
            "The length of the shortest rollout was taken. Sampling ends with the longest.",
        ),
        Mistake(
            "prompts not read",
            _cost(sample=_decode),
            "Reading the prompts is missing. It comes before the first token is drawn.",
        ),
        Mistake(
            "reading beside decoding",
            _cost(sample=lambda r: max(_prefill(r), _decode(r))),
            "Of reading and decoding the longer one was taken, as if they ran side by side. The first token can only "
            "be drawn when its prompt has been read.",
        ),
        Mistake(
            "prompts read once for each rollout",
            _cost(sample=lambda r: len(r.lengths) * _prefill(r) + _decode(r)),
            "The prompts were read once for each rollout. `prompt_tokens` are all of a step, and each prompt is read "
            "once for its whole group.",
        ),
        Mistake(
            "prompts decoded",
            _cost(sample=lambda r: (r.prompt_tokens + max(r.lengths)) * r.decode_ms / 1000),
            "The prompts were read with one decode step for each token. They are read all at once, at `prefill_rate`.",
        ),
        Mistake(
            "reading divided among the GPUs",
            _cost(sample=lambda r: _prefill(r) / r.gpus + _decode(r)),
            "The rate of reading was multiplied by the GPUs. The rates are those of all GPUs together already.",
        ),
        Mistake(
            "sampling divided among the GPUs",
            _cost(sample=lambda r: (_prefill(r) + _decode(r)) / r.gpus),
            "The seconds of sampling were divided by the GPUs. The rates are those of all GPUs together already.",
        ),
        Mistake(
            "training divided among the GPUs",
            _cost(train=lambda r: _trained(r) / (r.train_rate * r.gpus)),
            "The rate of training was multiplied by the GPUs. The rates are those of all GPUs together already.",
        ),
        Mistake(
            "both rates times the GPUs",
            _cost(
                sample=lambda r: _prefill(r) / r.gpus + _decode(r),
                train=lambda r: _trained(r) / (r.train_rate * r.gpus),
            ),
            "The rates of reading and of training were multiplied by the GPUs. They are those of all GPUs together "
            "already.",
        ),
        Mistake(
            "sampling of the whole run",
            _cost(sample=lambda r: r.steps * (_prefill(r) + _decode(r))),
            "Under 'sample_s' stand the seconds of the whole run: those of one step are asked for. And the hours "
            "multiply by the steps once more.",
        ),
        Mistake(
            "sampling of the whole run, training of a step",
            _cost(
                sample=lambda r: r.steps * (_prefill(r) + _decode(r)),
                gpu_hours=lambda r, s, t: r.gpus * (s + r.steps * t) / 3600,
            ),
            "The hours are right. Under 'sample_s' stand the seconds of the whole run: those of one step are asked "
            "for, as under 'train_s'.",
        ),
        Mistake(
            "seconds of the whole run",
            _cost(
                sample=lambda r: r.steps * (_prefill(r) + _decode(r)),
                train=lambda r: r.steps * _trained(r) / r.train_rate,
                gpu_hours=lambda r, s, t: r.gpus * (s + t) / 3600,
            ),
            "The hours are right. The seconds are those of the whole run: 'sample_s' and 'train_s' are asked for one "
            "step.",
        ),
        Mistake(
            "multiplied by the rate",
            _cost(train=lambda r: _trained(r) * r.train_rate),
            "Tokens were multiplied by tokens per second. Look at the units: what has to come out is seconds.",
        ),
        Mistake(
            "rollouts trained without their prompts",
            _cost(train=lambda r: sum(r.lengths) / r.train_rate),
            "The training pass was counted without the prompts. Their tokens earn no loss, but they run through the "
            "model.",
        ),
        Mistake(
            "prompts trained once for each rollout",
            _cost(train=lambda r: (len(r.lengths) * r.prompt_tokens + sum(r.lengths)) / r.train_rate),
            "The prompts were trained once for each rollout. `prompt_tokens` are all of a step, and each prompt runs "
            "through the model once for its whole group.",
        ),
        Mistake(
            "padding trained",
            _cost(train=lambda r: (r.prompt_tokens + len(r.lengths) * max(r.lengths)) / r.train_rate),
            "Every rollout was trained at the length of the longest. The rate is for real tokens; padding is not "
            "counted.",
        ),
        Mistake(
            "longest rollout trained",
            _cost(train=lambda r: (r.prompt_tokens + max(r.lengths)) / r.train_rate),
            "Only the longest rollout was trained. Side by side they take the time of the longest only while they are "
            "decoded; the rate of training counts tokens.",
        ),
        Mistake(
            "trained at the rate of reading",
            _cost(train=lambda r: _trained(r) / r.prefill_rate),
            "Training was counted at the rate at which prompts are read. It has a backward pass too: see `train_rate`.",
        ),
        Mistake(
            "minutes",
            _cost(gpu_hours=OTHER_HOURS["minutes"]),
            "These are GPU-minutes: an hour has 3600 seconds.",
        ),
        Mistake(
            "seconds",
            _cost(gpu_hours=OTHER_HOURS["seconds"]),
            "These are GPU-seconds: an hour has 3600 of them.",
        ),
        Mistake(
            "one step",
            _cost(gpu_hours=OTHER_HOURS["one step"]),
            "The hours of one step were counted. The run has `steps` of them.",
        ),
        Mistake(
            "sampling once",
            _cost(gpu_hours=OTHER_HOURS["sampling once"]),
            "Sampling was counted once for the whole run. Every step samples anew from the policy as it is then.",
        ),
        Mistake(
            "training beside sampling",
            _cost(gpu_hours=OTHER_HOURS["training beside sampling"]),
            "Of sampling and training the longer one was taken, as if they ran side by side. Training has to wait for "
            "the rollouts, and the next rollouts for the new policy.",
        ),
        Mistake(
            "training only",
            _cost(gpu_hours=OTHER_HOURS["training only"]),
            "Sampling is missing in the hours. It takes the larger part of most runs.",
        ),
        Mistake(
            "sampling only",
            _cost(gpu_hours=OTHER_HOURS["sampling only"]),
            "Training is missing in the hours.",
        ),
        Mistake(
            "hours, not GPU-hours",
            _cost(gpu_hours=OTHER_HOURS["hours, not GPU-hours"]),
            "These are the hours that you wait. Each GPU that is held counts by itself.",
        ),
        Mistake(
            "divided by the GPUs",
            _cost(gpu_hours=OTHER_HOURS["divided by the GPUs"]),
            "The hours were divided by the GPUs. The rates are those of all GPUs together already; more GPUs make more "
            "GPU-hours of an hour.",
        ),
        Mistake(
            "hours rounded",
            _cost(gpu_hours=OTHER_HOURS["hours rounded"]),
            "The GPU-hours were rounded to whole ones. Leave rounding to whoever prints them.",
        ),
        Mistake(
            "each GPU paid twice",
            _cost(cost=OTHER_COSTS["each GPU paid twice"]),
            "The number of GPUs went into the price once more. GPU-hours have it in them.",
        ),
        Mistake(
            "one GPU paid",
            _cost(cost=OTHER_COSTS["one GPU paid"]),
            "One GPU was paid. The price is for each GPU and hour.",
        ),
        Mistake(
            "divided by the price",
            _cost(cost=OTHER_COSTS["divided by the price"]),
            "The hours were divided by the price.",
        ),
        Mistake(
            "a price where none is given",
            _a_price_by_default,
            "Where no price is passed in, the run costs 0: the default of `price` is 0.0, as in the text.",
        ),
        Mistake(
            "paid per step",
            _cost(cost=OTHER_COSTS["paid per step"]),
            "The cost is that of one step. The whole run is asked for.",
        ),
    ),
    alternatives=(
        Alternative("token by token, step by step", _step_by_step),
        Alternative("numpy", _with_numpy),
    ),
    hint="Seconds of a step: reading, decoding, training. Then steps, hours, GPUs, price.",
)
