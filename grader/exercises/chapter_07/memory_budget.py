"""The exercise `memory_budget`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common import (
    CHAPTER,
    QWEN3_0_6B,
    SMALL,
    close,
    draw_config,
    number_under,
    numbers_under,
)

POLICY = ("weights", "gradients", "optimizer", "sampling_copy")
SAMPLING = ("weights", "optimizer", "sampling_copy", "kv_cache")
TRAINING = ("weights", "optimizer", "gradients", "logits")
ITEMS = (*POLICY, "kv_cache", "logits")


def _a_token(r):
    """Bytes that a token leaves in the cache."""
    return 2 * r.layers * r.kv_heads * r.dim * r.rollout_bytes


def _cached_tokens(r):
    return r.prompts * (r.prompt_tokens + r.group_size * r.new_tokens)


def _chunk(r):
    return min(r.chunk_tokens, r.prompts * r.group_size * r.new_tokens)


def _largest(found):
    return max(found["sampling"], found["training"]) / 1e9


# Other ideas of what the run needs, by the name of the mistake.
OTHER_PEAKS = {
    "both phases added": lambda found: (found["sampling"] + found["training"]) / 1e9,
    "each item once": lambda found: sum(found[name] for name in ITEMS) / 1e9,
    "the smaller phase": lambda found: min(found["sampling"], found["training"]) / 1e9,
    "always training": lambda found: found["training"] / 1e9,
    "always sampling": lambda found: found["sampling"] / 1e9,
    "GiB for GB": lambda found: max(found["sampling"], found["training"]) / 2**30,
    "bytes for GB": lambda found: max(found["sampling"], found["training"]),
    "MB for GB": lambda found: max(found["sampling"], found["training"]) / 1e6,
}


def _budget(
    number=4,
    gradients=lambda r: 4 * r.parameters,
    optimizer=lambda r: 8 * r.parameters,
    sampling_copy=lambda r: 0 if r.rollout_bytes == 4 else r.rollout_bytes * r.parameters,
    a_token=_a_token,
    cached_tokens=_cached_tokens,
    chunk=_chunk,
    a_logit=lambda r: 8,
    sampling=SAMPLING,
    training=TRAINING,
    peak=_largest,
):
    """A budget with some of its items made otherwise."""

    def budget(
        config, parameters, prompts, group_size, prompt_tokens, new_tokens, chunk_tokens, rollout_bytes=2
    ):  # fmt: skip
        r = SimpleNamespace(
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            dim=config["head_dim"],
            hidden=config["hidden_size"],
            parameters=parameters,
            prompts=prompts,
            group_size=group_size,
            prompt_tokens=prompt_tokens,
            new_tokens=new_tokens,
            chunk_tokens=chunk_tokens,
            rollout_bytes=rollout_bytes,
        )
        found = {
            "weights": (number(r) if callable(number) else number) * parameters,
            "gradients": gradients(r),
            "optimizer": optimizer(r),
            "sampling_copy": sampling_copy(r),
            "kv_cache": a_token(r) * cached_tokens(r),
            "logits": chunk(r) * config["vocab_size"] * a_logit(r),
        }
        found["sampling"] = sum(found[name] for name in sampling)
        found["training"] = sum(found[name] for name in training)
        found["peak_gb"] = peak(found)
        return found

    return budget


memory_budget = _budget()


def _numbers_for_bytes(*args, **kwargs):
    """Every item in numbers, as if each took one byte."""
    found = memory_budget(*args, **kwargs)
    rollout_bytes = kwargs.get("rollout_bytes", args[7] if len(args) > 7 else 2)
    for name in ITEMS:
        found[name] //= rollout_bytes if name in ("sampling_copy", "kv_cache") else 4
    found["sampling"], found["training"] = (sum(found[name] for name in names) for names in (SAMPLING, TRAINING))
    return {**found, "peak_gb": max(found["sampling"], found["training"]) / 1e9}


def _by_loop(config, parameters, prompts, group_size, prompt_tokens, new_tokens, chunk_tokens, rollout_bytes=2):
    """The cache filled token by token and layer by layer; all amounts are floats."""
    cache = 0.0
    for _ in range(config["num_hidden_layers"]):
        per_token = (config["head_dim"] + config["head_dim"]) * config["num_key_value_heads"]
        for _ in range(prompts):
            cache += per_token * prompt_tokens * rollout_bytes
            for _ in range(group_size):
                cache += per_token * new_tokens * rollout_bytes
    scored = prompts * group_size * new_tokens
    budget = {"weights": 4.0 * parameters, "gradients": 4.0 * parameters, "optimizer": 2 * 4.0 * parameters}
    budget["sampling_copy"] = 2.0 * parameters if rollout_bytes == 2 else 0.0
    budget["kv_cache"] = cache
    budget["logits"] = 2 * 4.0 * config["vocab_size"] * (chunk_tokens if chunk_tokens < scored else scored)
    both = budget["weights"] + budget["optimizer"]
    budget["sampling"] = both + budget["sampling_copy"] + budget["kv_cache"]
    budget["training"] = both + budget["gradients"] + budget["logits"]
    budget["peak_gb"] = max(budget["sampling"], budget["training"]) * 1e-9
    return budget


def _with_numpy(config, parameters, prompts, group_size, prompt_tokens, new_tokens, chunk_tokens, rollout_bytes=2):
    import numpy as np

    scored = np.int64(prompts) * group_size * new_tokens
    weights, gradients, optimizer = np.array([4, 4, 8], dtype=np.int64) * parameters
    copy = np.where(rollout_bytes < 4, rollout_bytes, 0) * parameters
    shape = ("num_hidden_layers", "num_key_value_heads", "head_dim")
    cache = 2 * np.prod([config[name] for name in shape]) * (prompts * prompt_tokens + scored) * rollout_bytes
    logits = np.minimum(chunk_tokens, scored) * config["vocab_size"] * 8
    sums = np.array([weights + optimizer + copy + cache, weights + optimizer + gradients + logits])
    amounts = (weights, gradients, optimizer, copy, cache, logits, *sums, sums.max() / 1e9)
    return dict(zip((*ITEMS, "sampling", "training", "peak_gb"), amounts, strict=True))


# --- the calls -------------------------------------------------------------------------------------------------------


def _drawn(rng, prompts=None, group_size=None, chunk_tokens=None, rollout_bytes=2):
    config = draw_config(rng)
    prompts = int(rng.integers(2, 5)) if prompts is None else prompts
    group_size = int(rng.integers(3, 6)) if group_size is None else group_size
    new_tokens = int(rng.integers(12, 30))
    chunk_tokens = int(rng.integers(5, 11)) if chunk_tokens is None else chunk_tokens
    numbers = (int(rng.integers(5_000, 9_000)), prompts, group_size, int(rng.integers(31, 50)), new_tokens)
    return call(config, *numbers, chunk_tokens, rollout_bytes)


_LESSON = call(SMALL, 192, 1, 2, 3, 5, 4)
_REAL = call(QWEN3_0_6B, 596_049_920, 8, 8, 150, 512, 64, note="Qwen3-0.6B, 64 rollouts")
_REAL_FLOAT32 = call(QWEN3_0_6B, 596_049_920, 2, 4, 150, 512, 64, rollout_bytes=4, note="rollouts in float32")


def _policy_calls(rng):
    return [_LESSON, _drawn(rng, rollout_bytes=4), _REAL]


def _token_calls(rng):
    return [_drawn(rng, 1, 1), _drawn(rng, 1, 1, rollout_bytes=4)]


def _group_calls(rng):
    one = _drawn(rng, 1, 1)
    config, parameters, _, _, *rest = one.args
    prompts, group_size = int(rng.integers(2, 5)), int(rng.integers(3, 7))
    return [
        call(config, parameters, 1, 1, *rest),
        call(config, parameters, 1, group_size, *rest, note=f"one prompt, {group_size} rollouts"),
        call(config, parameters, prompts, group_size, *rest, note=f"{prompts} prompts, {group_size} rollouts each"),
    ]


def _logits_calls(rng):
    # Both sizes of a rollout's number: with 2 alone, twice that is as much as logits without their gradient.
    return [_LESSON, _drawn(rng), _drawn(rng, chunk_tokens=4096), _drawn(rng, rollout_bytes=4)]


def _peak_calls(rng):
    return [_drawn(rng), _REAL, _REAL_FLOAT32]


# --- what must hold of what came back: each item by itself, the sums of the student's own items ----------------------


def _right_under(*keys):
    def holds(values, calls):
        for i, (value, one) in enumerate(zip(values, calls, strict=True)):
            right = memory_budget(*one.args, **one.kwargs)
            for key in keys:
                mine, sentence = number_under(value, key)
                if mine is None:
                    return i, sentence
                if not close(mine, right[key]):
                    cause = _cause(key, values, calls)
                    return i, f"under {key!r} {right[key]:,} bytes are due, yours are {mine:,.0f}{cause}"
        return None

    return holds


def _cause(key, values, calls):
    """The name of the known mistake that gives the same under this key in all calls of a part, as a question.

    Whoever makes two slips in two entries has made neither of the known mistakes as a whole.
    """
    for mistake in MEMORY_BUDGET.mistakes:
        theirs = [mistake.code(*one.args, **one.kwargs)[key] for one in calls]
        if all(close(number_under(value, key)[0], their) for value, their in zip(values, theirs, strict=True)):
            return f" ({mistake.name}?)"
    return ""


def _as_added(amount, found, due):
    """The items that add up to this amount, as a question; empty if none do.

    Weights and gradients are equally large and the optimizer's averages are both together, so of several choices the
    one next to the right items is taken.
    """
    choices = [names for size in range(1, 7) for names in combinations(ITEMS, size)]
    choices = [names for names in choices if sum(map(found.get, names)) == amount]
    nearest = min(choices, key=lambda names: len(set(names) ^ set(due)), default=())
    return f" ({' + '.join(nearest)}?)" if nearest else ""


def _group_shares_its_prompt(values, calls):
    cached = []
    for i, value in enumerate(values):
        mine, sentence = number_under(value, "kv_cache")
        if mine is None:
            return i, sentence
        cached.append(mine)
    if not cached[0] > 0:
        return 0, f"under 'kv_cache' stands {cached[0]:,.0f}"
    right = [memory_budget(*one.args)["kv_cache"] for one in calls]
    for i in (1, 2):
        mine, due = cached[i] / cached[0], right[i] / right[0]
        if not close(mine, due):
            return i, (
                f"for one rollout of one prompt your cache has {cached[0]:,.0f} bytes, and here {mine:.4g} times as "
                f"many; {due:.4g} times as many are due"
            )
    return None


def _sums_are_right(values, calls):
    for i, value in enumerate(values):
        found, sentence = numbers_under(value, (*ITEMS, "sampling", "training"))
        if found is None:
            return i, sentence
        for name, parts in (("sampling", SAMPLING), ("training", TRAINING)):
            due = sum(found[part] for part in parts)
            if not (found[name] > 0 and close(found[name], due)):
                return i, (
                    f"your own items that are there while {name} add up to {due:,.0f} bytes, and under {name!r} stand "
                    f"{found[name]:,.0f}{_as_added(found[name], found, parts)}"
                )
    return None


def _cause_of_peak(values):
    for name, peak in OTHER_PEAKS.items():
        if all(close(value["peak_gb"], peak(value)) for value in values):
            return f" ({name}?)"
    return ""


def _peak_is_right(values, calls):
    for i, value in enumerate(values):
        found, sentence = numbers_under(value, (*ITEMS, "sampling", "training", "peak_gb"))
        if found is None:
            return i, sentence
        due = _largest(found)
        if not (due > 0 and close(found["peak_gb"], due)):
            return i, (
                f"with your {found['sampling']:,.0f} bytes for sampling and {found['training']:,.0f} for training the "
                f"run needs {due:.4g} GB; yours are {found['peak_gb']:.4g}{_cause_of_peak(values)}"
            )
    return None


MEMORY_BUDGET = Exercise(
    name="memory_budget",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=memory_budget,
    parts=(
        Part(
            says="the policy, its gradients, AdamW's averages, and the copy that samples",
            points=1,
            calls=_policy_calls,
            holds=_right_under(*POLICY),
            hint="How many numbers does each of them hold for one parameter, and how many bytes has such a number? "
            "With float32 rollouts the policy samples by itself.",
        ),
        Part(
            says="the cache of one rollout: its tokens, over all layers",
            points=1,
            calls=_token_calls,
            holds=_right_under("kv_cache"),
            hint="What does a token leave behind in one layer, and for how many heads? `rollout_bytes` is the size of "
            "one number.",
        ),
        Part(
            says="the cache of a batch: a group shares its prompt",
            points=1,
            calls=_group_calls,
            holds=_group_shares_its_prompt,
            hint="Count tokens: those of the prompts, each once, and those of the rollouts.",
        ),
        Part(
            says="the logits of one chunk, with their gradient",
            points=1,
            calls=_logits_calls,
            holds=_right_under("logits"),
            hint="Tokens of one chunk x vocabulary x bytes, twice. How many tokens are there in all, if the chunk "
            "could hold more?",
        ),
        Part(
            says="what is there while sampling, and what while training",
            points=1,
            calls=lambda rng: [_LESSON, _drawn(rng)],
            holds=_sums_are_right,
            hint="The policy and AdamW's averages are always there. The others come and go: which of them does "
            "sampling need, and which training?",
        ),
        Part(
            says="what the run needs, in GB",
            points=1,
            calls=_peak_calls,
            holds=_peak_is_right,
            hint="Sampling and training take turns. 1 GB is 1e9 bytes.",
        ),
    ),
    shortcuts=("memory_plan",),
    mistakes=(
        Mistake(
            "one average of AdamW",
            _budget(optimizer=lambda r: 4 * r.parameters),
            "AdamW was given one number per parameter. It keeps two running averages: one of the gradient and one of "
            "its square.",
        ),
        Mistake(
            "AdamW in the rollouts' precision",
            _budget(optimizer=lambda r: 2 * r.rollout_bytes * r.parameters),
            "AdamW's averages were counted with `rollout_bytes`. They are float32: in bfloat16 most of its small "
            "changes would be rounded away.",
        ),
        Mistake(
            "AdamW with the gradient or the weights",
            _budget(optimizer=lambda r: 12 * r.parameters),
            "AdamW was given three numbers per parameter. Its two averages are its own; gradients and weights have "
            "entries of their own here.",
        ),
        Mistake(
            "policy in the rollouts' precision",
            _budget(number=lambda r: r.rollout_bytes),
            "The policy was counted with `rollout_bytes`. That is the size of a number while sampling: the policy "
            "that is trained stays float32, and its copy samples.",
        ),
        Mistake(
            "gradients in the rollouts' precision",
            _budget(gradients=lambda r: r.rollout_bytes * r.parameters),
            "The gradients were counted with `rollout_bytes`. They have the precision of the policy, float32.",
        ),
        Mistake(
            "copy for float32 rollouts too",
            _budget(sampling_copy=lambda r: r.rollout_bytes * r.parameters),
            "A copy was counted for float32 rollouts too. Where the precision is the same, the policy samples by "
            "itself.",
        ),
        Mistake(
            "no copy",
            _budget(sampling_copy=lambda r: 0),
            "The bfloat16 copy that samples is missing. For Qwen3-0.6B it is 1.19 GB.",
        ),
        Mistake(
            "copy in float32",
            _budget(sampling_copy=lambda r: 0 if r.rollout_bytes == 4 else 4 * r.parameters),
            "The copy was counted as float32. It is there because its numbers are smaller: `rollout_bytes`.",
        ),
        Mistake(
            "numbers, not bytes",
            _numbers_for_bytes,
            "Numbers were counted, not bytes: a float32 has 4, a bfloat16 has 2.",
        ),
        Mistake(
            "keys without values",
            _budget(a_token=lambda r: r.layers * r.kv_heads * r.dim * r.rollout_bytes),
            "The cache is half as large as it is: a token leaves a key and a value.",
        ),
        Mistake(
            "heads for key/value heads",
            _budget(a_token=lambda r: 2 * r.layers * r.heads * r.dim * r.rollout_bytes),
            "The cache was counted with all heads. Several heads read one key and one value; only these are kept. "
            "That is what grouped attention is for.",
        ),
        Mistake(
            "hidden_size for keys",
            _budget(a_token=lambda r: 2 * r.layers * r.hidden * r.rollout_bytes),
            "A key was counted with `hidden_size` numbers. It has `head_dim` for each key/value head.",
        ),
        Mistake(
            "cache of one layer",
            _budget(a_token=lambda r: 2 * r.kv_heads * r.dim * r.rollout_bytes),
            "The cache of one layer was counted. Each layer has keys and values of its own.",
        ),
        Mistake(
            "heads forgotten",
            _budget(a_token=lambda r: 2 * r.layers * r.dim * r.rollout_bytes),
            "One key and one value per layer were counted. There is one for each key/value head.",
        ),
        Mistake(
            "cache in float32",
            _budget(a_token=lambda r: 2 * r.layers * r.kv_heads * r.dim * 4),
            "The cache was counted as float32, whatever `rollout_bytes` says.",
        ),
        Mistake(
            "cache in bfloat16",
            _budget(a_token=lambda r: 2 * r.layers * r.kv_heads * r.dim * 2),
            "The cache was counted with 2 bytes a number, whatever `rollout_bytes` says.",
        ),
        Mistake(
            "the prompt once per rollout",
            _budget(cached_tokens=lambda r: r.prompts * r.group_size * (r.prompt_tokens + r.new_tokens)),
            "The prompt was put into the cache once for each rollout. The rollouts of a group have it in common, and "
            "here its keys and values are kept once.",
        ),
        Mistake(
            "prompt not in the cache",
            _budget(cached_tokens=lambda r: r.prompts * r.group_size * r.new_tokens),
            "The tokens of the prompts are missing in the cache. Every new token looks back at them.",
        ),
        Mistake(
            "one rollout per prompt",
            _budget(cached_tokens=lambda r: r.prompts * (r.prompt_tokens + r.new_tokens)),
            "One rollout per prompt was counted. A group has `group_size`, and each has tokens of its own.",
        ),
        Mistake(
            "one prompt in all",
            _budget(cached_tokens=lambda r: r.prompt_tokens + r.prompts * r.group_size * r.new_tokens),
            "One prompt was counted for the whole batch. A group shares its prompt; other groups have others.",
        ),
        Mistake(
            "cache of one group",
            _budget(cached_tokens=lambda r: r.prompt_tokens + r.group_size * r.new_tokens),
            "The cache of one group was counted. All groups of the step are sampled side by side.",
        ),
        Mistake(
            "logits of all tokens",
            _budget(chunk=lambda r: r.prompts * r.group_size * r.new_tokens),
            "The logits of all tokens were counted at once. For 64 rollouts of 512 tokens that would be 39.8 GB: it is "
            "why they are made chunk by chunk.",
        ),
        Mistake(
            "a chunk larger than all there is",
            _budget(chunk=lambda r: r.chunk_tokens),
            "A whole chunk was counted where there are fewer tokens than that. `chunk_tokens` is the most.",
        ),
        Mistake(
            "a chunk of each rollout",
            _budget(chunk=lambda r: min(r.chunk_tokens, r.new_tokens) * r.prompts * r.group_size),
            "One chunk was counted for each rollout. A chunk is cut from the tokens of all rollouts together, and one "
            "chunk is there at a time.",
        ),
        Mistake(
            "chunk cut off at one rollout",
            _budget(chunk=lambda r: min(r.chunk_tokens, r.new_tokens)),
            "The chunk ends where one rollout ends. It is cut from the tokens of all rollouts together.",
        ),
        Mistake(
            "prompt scored too",
            _budget(chunk=lambda r: min(r.chunk_tokens, r.prompts * (r.prompt_tokens + r.group_size * r.new_tokens))),
            "The tokens of the prompts were counted among those with logits. Only what the policy wrote is scored.",
        ),
        Mistake(
            "logits without their gradient",
            _budget(a_logit=lambda r: 4),
            "The logits were counted once. Their gradient is there at the same time, and as large.",
        ),
        Mistake(
            "logits in the rollouts' precision",
            _budget(a_logit=lambda r: 2 * r.rollout_bytes),
            "The logits of the training pass were counted with `rollout_bytes`. They are float32: a log-prob with the "
            "three digits of bfloat16 would spoil the ratio.",
        ),
        Mistake(
            "logits in the rollouts' precision, without their gradient",
            _budget(a_logit=lambda r: r.rollout_bytes),
            "The logits were counted with `rollout_bytes`, and once. In the training pass they are float32, and their "
            "gradient is there at the same time, as large as they are.",
        ),
        Mistake(
            "gradients while sampling",
            _budget(sampling=(*SAMPLING, "gradients")),
            "Gradients were counted while sampling. They are set free after the step, before the next batch is "
            "sampled.",
        ),
        Mistake(
            "AdamW away while sampling",
            _budget(sampling=("weights", "sampling_copy", "kv_cache")),
            "AdamW's averages are missing while sampling. Nobody uses them then, but they stay where they are: the "
            "next step goes on with them.",
        ),
        Mistake(
            "only the copy while sampling",
            _budget(sampling=("optimizer", "sampling_copy", "kv_cache")),
            "The policy is missing while sampling. Its copy samples, but the policy has to stay: it is trained on.",
        ),
        Mistake(
            "cache while training",
            _budget(training=(*TRAINING, "kv_cache")),
            "The cache was counted while training. The training pass sees all tokens at once and needs none; the cache "
            "is gone by then.",
        ),
        Mistake(
            "copy while training",
            _budget(training=(*TRAINING, "sampling_copy")),
            "The copy that samples was counted while training. It is made anew for each batch from the new policy.",
        ),
        Mistake(
            "gradients forgotten",
            _budget(training=("weights", "optimizer", "logits")),
            "The gradients are missing while training. They take as much as the policy itself.",
        ),
        Mistake(
            "logits while sampling",
            _budget(sampling=(*SAMPLING, "logits")),
            "The logits of a training chunk were counted while sampling.",
        ),
        Mistake(
            "both phases added",
            _budget(peak=OTHER_PEAKS["both phases added"]),
            "The two phases were added. They take turns, so the run never needs both at one time.",
        ),
        Mistake(
            "each item once",
            _budget(peak=OTHER_PEAKS["each item once"]),
            "All items were added, as if they were there at the same time. Sampling and training take turns.",
        ),
        Mistake(
            "the smaller phase",
            _budget(peak=OTHER_PEAKS["the smaller phase"]),
            "The smaller of the two phases was taken. The other one would not fit.",
        ),
        Mistake(
            "always training",
            _budget(peak=OTHER_PEAKS["always training"]),
            "Training was taken to need more, without a look. With many or long rollouts it is sampling, for its "
            "cache.",
        ),
        Mistake(
            "always sampling",
            _budget(peak=OTHER_PEAKS["always sampling"]),
            "Sampling was taken to need more, without a look. With few rollouts it is training, for its gradients.",
        ),
        Mistake(
            "GiB for GB",
            _budget(peak=OTHER_PEAKS["GiB for GB"]),
            "These are GiB, of 1024 x 1024 x 1024 bytes: 7% less than GB. Both units are in use; the course writes "
            "GB, of 1e9 bytes.",
        ),
        Mistake(
            "bytes for GB",
            _budget(peak=OTHER_PEAKS["bytes for GB"]),
            "The peak came back in bytes. It is asked for in GB.",
        ),
        Mistake(
            "MB for GB",
            _budget(peak=OTHER_PEAKS["MB for GB"]),
            "The peak came back in MB. It is asked for in GB.",
        ),
    ),
    alternatives=(
        Alternative("the cache by loops, floats", _by_loop),
        Alternative("numpy", _with_numpy),
    ),
    hint="Item by item: how many numbers, how many bytes each. Then: which items are there at the same time?",
)
