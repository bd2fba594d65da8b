"""`grpo evaluate`: a model, problems, and a table of how well the one answers the other."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from grpo.qwen3.arithmetic import SPLITS, load_arithmetic
from grpo.qwen3.benchmarks import is_math_500, load_benchmark
from grpo.qwen3.checkpoint import CheckpointError, RunFolder
from grpo.qwen3.control_tables import compare_rows, comparison_table, controls_table
from grpo.qwen3.controls import (
    TEMPERATURE,
    VOTES,
    asked,
    can_read,
    control_batches,
    control_row,
    default_controls,
)
from grpo.qwen3.evaluation_folder import EvaluationFolder
from grpo.qwen3.guards import _is_out_of_memory as is_out_of_memory
from grpo.qwen3.model import DTYPES, REAL_SHAPE, TINY, load_model
from grpo.qwen3.precision import native_half
from grpo.qwen3.prompts import PROMPT_STYLES
from grpo.qwen3.published import PUBLISHED, published_table
from grpo.qwen3.rewards import REWARDS, named_reward
from grpo.qwen3.run import POLICY, fingerprint
from grpo.qwen3.settings import PRECISIONS
from grpo.qwen3.voting import same_value

ARITHMETIC = "arithmetic"
# (prompt style, tokens, completions at a time) of a model that reads the course's symbols only, and of any other.
TINY_DEFAULTS, DEFAULTS = ("plain", 26, 256), ("base", 2048, 32)


@dataclass(frozen=True)
class EvaluateOptions:
    """What the command line says. None: what suits the model and the problems.

    model: "tiny", "real-shape" (both with random weights), a hub name, a folder with a model, the folder of a run of
        `grpo train qwen3` (its newest checkpoint) or one of its checkpoints.
    data: "arithmetic", a file or a hub name (`grpo.qwen3.benchmarks`). split: "test", "validation", ...
    votes: completions a problem; 1 is greedy. temperature: of several votes.
    controls: run the plain prompt, step by step, and a vote, instead of one way of asking.
    reward: "strict" or "math". style: of the prompt. max_new_tokens: limit of a completion.
    limit: only the first problems. batch: completions decoded at a time.
    device: "cpu" or "cuda". dtype: in which the products are done and the cache is kept; weights stay float32.
        Default: float32 on a CPU, on a GPU the half precision that it is fast at. seed: of the sampling.
    out: folder for the answers. resume: go on with what it holds.
    """

    model: str = TINY
    data: str = ARITHMETIC
    split: str = "test"
    votes: int | None = None
    temperature: float = TEMPERATURE
    controls: bool = False
    reward: str | None = None
    style: str | None = None
    max_new_tokens: int | None = None
    limit: int | None = None
    batch: int | None = None
    device: str = "cpu"
    dtype: str | None = None
    seed: int = 0
    out: Path | None = None
    resume: bool = False

    def __post_init__(self):
        choices = {"reward": (None, *REWARDS), "style": (None, *PROMPT_STYLES), "dtype": (None, *PRECISIONS)}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}: choose {', '.join(filter(None, known))}")
        if self.temperature <= 0:
            raise ValueError(f"temperature is {self.temperature}: votes are sampled above 0; --votes 1 is greedy")
        if self.resume and self.out is None:
            raise ValueError("--resume needs --out: the folder of the evaluation to go on with")
        if self.data == ARITHMETIC and self.split not in SPLITS:
            raise ValueError(f"split is {self.split!r}: the sums have {', '.join(SPLITS)}")


@dataclass(frozen=True)
class _Plan:
    """Everything that is settled before the first answer."""

    controls: tuple
    max_new_tokens: int
    batch: int
    reward: str
    dtype: str


def evaluate_from_command_line(console, values):
    """`evaluate_command`: what goes wrong becomes one message and an exit status.

    Args:
        console: rich Console.
        values: dict, name of the option -> value, None for one that was not given.

    Returns: dict of all numbers, for --json.

    Raises: typer.BadParameter (status 2) for what can be put right on the command line; typer.Exit (status 1) if memory
        runs out, (130) after Ctrl-C.
    """
    options = {name: values[name] for name in EvaluateOptions.__dataclass_fields__ if values.get(name) is not None}
    try:
        return evaluate_command(console, EvaluateOptions(**options))
    except (ValueError, CheckpointError) as error:
        raise typer.BadParameter(str(error)) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        console.print("out of memory: lower --batch or --max-new-tokens", style="red", highlight=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        out = options.get("out")
        kept = f"what was finished is in {out}: add --resume to go on" if out else "with --out DIR answers are kept"
        console.print(f"stopped; {kept}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from error


def evaluate_command(console, options):
    """Answer the problems and print the tables.

    Args:
        console: rich Console.
        options: EvaluateOptions.

    Returns: dict: settings, rows (with the rewards of all completions, no texts), comparisons, and for MATH-500 the
        published figures under a name of their own.

    Raises: ValueError (one sentence) for what is wrong with model, problems or folder.
    """
    problems = load_problems(options)
    path, trained = find_policy(options.model)
    model, tokenizer = load_model(path, device=options.device, seed=options.seed)
    plan = _plan(options, tokenizer, trained)
    reward = named_reward(plan.reward)
    settings = _settings(options, path, problems, plan)
    folder = None if options.out is None else EvaluationFolder(options.out, settings, options.resume)
    console.print(_headline(options, path, problems, plan), highlight=False, soft_wrap=True)
    try:
        if same_value(reward) is not None:
            unread = unread_truths(reward.verifier, [problem.truth for problem in problems])
            if unread:
                console.print(_about_unread(unread, len(problems)), style="yellow", highlight=False, soft_wrap=True)
        with nullcontext() if folder is None else folder.hold():
            rows = _answer(console, model, tokenizer, problems, plan, options, reward, folder)
    finally:
        if hasattr(reward, "close"):
            reward.close()
    comparisons = compare_rows(rows)
    result = {
        "settings": settings,
        "rows": [row.summary() for row in rows],
        "comparisons": [asdict(pair) for pair in comparisons],
    }
    console.print(controls_table(rows, f"{path} on {len(problems)} problems of {options.data}: MEASURED here"))
    if comparisons:
        console.print(comparison_table(comparisons))
    if is_math_500(options.data, problems):
        console.print(published_table())
        result["published_not_measured_here"] = [asdict(figure) for figure in PUBLISHED]
    return result


def unread_truths(verifier, truths):
    r"""The truths that math-verify does not find worth themselves: there only the same text will count as right.

    Equal texts are equal without any mathematics, so each truth is compared with itself and a full stop.

    Args:
        verifier: grpo.qwen3.math_rewards.MathVerifier. truths: list of str.

    Returns: list of str, each once, in order of appearance.
    """
    truths = list(dict.fromkeys(truths))
    judged = verifier.scores([rf"\boxed{{{truth}.}}" for truth in truths], truths)
    return [truth for truth, verdict in zip(truths, judged, strict=True) if verdict.score != 1.0]


def load_problems(options):
    """The problems that the options ask for. Raises ValueError if they cannot be had."""
    if options.data == ARITHMETIC:
        problems = load_arithmetic(options.split)
    else:
        problems = load_benchmark(options.data, options.split)
    return problems[: options.limit]


def find_policy(name):
    """What `load_model` is to read, and what the model was trained with.

    Args:
        name: as EvaluateOptions.model.

    Returns: (str, name or folder; dict with prompt_style, max_new_tokens and reward of its run, empty without one).

    Raises: CheckpointError for the folder of a run without a complete checkpoint.
    """
    path = Path(name).expanduser().resolve()
    if not path.is_dir():
        return name, {}
    # The run itself, OUT/reference, OUT/checkpoints/step-000025 or its policy.
    run = next((parent for parent in (path, *path.parents[:3]) if RunFolder(parent).is_run()), None)
    if run is None:
        return name, {}
    about = RunFolder(run).about()
    if path == run:
        path = RunFolder(run).newest()[0]
    settings, notes = about.get("settings", {}), about.get("notes", {})
    trained = {key: settings.get(key) for key in ("prompt_style", "max_new_tokens")}
    trained["reward"] = notes["reward"] if notes.get("reward") in REWARDS else None
    return str(path / POLICY if (path / POLICY).is_dir() else path), trained


def _plan(options, tokenizer, trained):
    style, tokens, batch = DEFAULTS if can_read(tokenizer, "base") else TINY_DEFAULTS
    style = options.style or trained.get("prompt_style") or style
    if options.controls:
        controls = default_controls(tokenizer, style, options.votes or VOTES, options.temperature)
    else:
        controls = (asked(style, options.votes or 1, options.temperature),)
    by_data = "strict" if options.data == ARITHMETIC else "math"
    return _Plan(
        controls=controls,
        max_new_tokens=options.max_new_tokens or trained.get("max_new_tokens") or tokens,
        batch=options.batch or batch,
        reward=options.reward or trained.get("reward") or by_data,
        dtype=options.dtype or native_half(options.device) or "float32",
    )


def _answer(console, model, tokenizer, problems, plan, options, reward, folder):
    """The rows, answer by answer, under a progress bar."""
    truths, same, rows = [problem.truth for problem in problems], same_value(reward), []
    earlier = folder.take_back(plan.controls, len(problems), plan.batch) if options.resume else {}
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, refresh_per_second=5) as progress:
        for control in plan.controls:
            answers, seconds = earlier.get(control.name, ([], 0.0))
            task = progress.add_task(control.name, total=len(problems), completed=len(answers))
            batches = control_batches(
                model,
                tokenizer,
                problems,
                control,
                seed=options.seed,
                reward=reward,
                max_new_tokens=plan.max_new_tokens,
                batch_size=plan.batch,
                rollout_dtype=None if plan.dtype == "float32" else DTYPES[plan.dtype],
                done=len(answers),
            )
            for several, took in batches:
                if folder is not None:
                    folder.append(control.name, len(answers), several, took)
                answers, seconds = answers + several, seconds + took
                progress.update(task, completed=len(answers))
            rows.append(control_row(control, answers, truths, seconds, reward, same))
    return rows


def _settings(options, path, problems, plan):
    return {
        "model": path,
        "data": options.data,
        "split": options.split,
        "problems": len(problems),
        "problems_sha256": fingerprint(problems),
        "controls": [asdict(control) for control in plan.controls],
        "reward": plan.reward,
        "max_new_tokens": plan.max_new_tokens,
        "batch": plan.batch,
        "dtype": plan.dtype,
        "seed": options.seed,
        "device": options.device,
    }


def _headline(options, path, problems, plan):
    random = ", whose weights are random" if path in (TINY, REAL_SHAPE) else ""
    kept = f"answers are kept in {options.out}" if options.out else "answers are not kept (--out DIR keeps them)"
    return (
        f"{path}{random}: {len(problems)} problems of {options.data}, {plan.reward} reward, at most "
        f"{plan.max_new_tokens} tokens, {plan.batch} answers at a time in {plan.dtype} on {options.device}; {kept}"
    )


def _about_unread(truths, total):
    shown = ", ".join(truths[:3]) + (", ..." if len(truths) > 3 else "")
    return f"math-verify cannot read {len(truths)} truths of {total} problems ({shown}): there only equal text is right"
