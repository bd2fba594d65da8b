"""The command line `grpo`: train the course's policies, and measure how fast that is."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="GRPO from scratch: train and measure.",
)
train_app = typer.Typer(no_args_is_help=True, help="Train a policy with GRPO.")
app.add_typer(train_app, name="train")
console = Console()

OWN_BENCHMARKS = {
    "expressions": "grpo.expressions.bench:bench_expressions",
    "qwen3": "grpo.qwen3.bench:bench_qwen3",
}
# What the qwen3 part needs beyond the rest: the extra of that name.
QWEN3_LIBRARIES = ("torch", "transformers", "safetensors")
INSTALL_QWEN3 = 'pip install "grpo-from-scratch[qwen3]", or make lab EXTRAS=qwen3'


class Ablation(StrEnum):
    """What can be taken out of the standard run."""

    NO_KL = "no-kl"
    NO_GROUP_NORM = "no-group-norm"


AblationOption = Annotated[
    Ablation | None,
    typer.Option(
        help="Run only this ablation. no-kl: beta 0. no-group-norm: the baseline is the running mean of all rewards, "
        "no std. Without this option the standard run is followed by both, and all three are compared."
    ),
]
SeedsOption = Annotated[int, typer.Option(min=1, help="How many seeds, side by side.")]
FirstSeedOption = Annotated[int, typer.Option(min=0, help="Seeds count up from here.")]
StepsOption = Annotated[int, typer.Option(min=1, help="Iterations: a fresh batch of rollouts each.")]
InnerOption = Annotated[int, typer.Option(min=1, help="Gradient steps per batch. With 1 the clip never acts.")]
GroupOption = Annotated[int, typer.Option(min=2, help="Rollouts per prompt.")]
RateOption = Annotated[float | None, typer.Option(help="Step of SGD. (default: 3 for tabular, 0.3 for mlp)")]
BetaOption = Annotated[float, typer.Option(min=0.0, help="Weight of the KL penalty.")]
TokensOption = Annotated[str, typer.Option(help="mean divides a rollout's tokens by their number, sum does not.")]
JsonOption = Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Write all numbers here.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", dir_okay=False, help="Draw the curves here (.png, .svg, .pdf).")
]


def _add_expressions(policy, about):
    """The command that trains one of the policies of the expression game; they have the same options."""

    @train_app.command(policy, help=about)
    def train(
        ablation: AblationOption = None,
        seeds: SeedsOption = 20,
        first_seed: FirstSeedOption = 0,
        steps: StepsOption = 300,
        inner_updates: InnerOption = 1,
        group_size: GroupOption = 8,
        learning_rate: RateOption = None,
        kl_coef: BetaOption = 0.04,
        token_average: TokensOption = "mean",
        json_file: JsonOption = None,
        plot_file: PlotOption = None,
    ):
        changes = _changes(locals())
        _train(policy, ablation, range(first_seed, first_seed + seeds), changes, json_file, plot_file)


_add_expressions("tabular", "The expression game with one logits vector per prompt and prefix.")
_add_expressions("mlp", "The expression game with a hidden layer of 48, shared by all prompts.")


def _knob(help_text, *names, **limits):
    """An option that is a setting of GRPO. Not given, it is what suits the model."""
    return typer.Option(*names, help=help_text, show_default=False, rich_help_panel="Settings of GRPO", **limits)


@train_app.command()
def qwen3(
    model: Annotated[
        str | None,
        typer.Option(
            help="tiny, a hub name such as Qwen/Qwen3-0.6B-Base, a folder, or real-shape: a rehearsal with random "
            "weights in the shape of Qwen3-0.6B. (default: tiny)"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="New folder for signals and checkpoints; without it nothing is kept.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
    data: Annotated[
        Path | None,
        typer.Option(help='Problems, one {"prompt": ..., "truth": ...} per line.  [default: additions of two numbers]'),
    ] = None,
    test_data: Annotated[
        Path | None, typer.Option(help="Problems of the same form, answered before and after the training.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="strict: the text in the last box; math: its value. (default: strict)")
    ] = None,
    evaluate: Annotated[
        int | None, typer.Option(min=0, help="Test problems answered before and after. (default: 1000, or 200)")
    ] = None,
    cold_start: Annotated[
        bool | None,
        typer.Option(
            "--cold-start/--no-cold-start",
            help="Teach the tiny model the form of an answer first. (default: yes for tiny)",
        ),
    ] = None,
    plot_file: PlotOption = None,
    json_file: JsonOption = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            help="Such as 15GB: choose waves, micro-batches, checkpointing and, on a GPU, half precision to fit, and "
            "say what was chosen."
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show the memory plan and stop.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the memory plan, take one step, keep nothing.")
    ] = False,
    steps: Annotated[int | None, _knob("Iterations: a batch of fresh rollouts each.", min=1)] = None,
    prompts_per_step: Annotated[int | None, _knob("Prompts per iteration.", "--prompts", min=1)] = None,
    group_size: Annotated[int | None, _knob("Rollouts per prompt.", min=2)] = None,
    max_new_tokens: Annotated[int | None, _knob("Longest completion, in tokens.", min=1)] = None,
    temperature: Annotated[float | None, _knob("Of the sampling; above 0.")] = None,
    prompt_style: Annotated[str | None, _knob("plain, base, step_by_step, chat_thinking or chat_direct.")] = None,
    rollout_dtype: Annotated[str | None, _knob("float32; bfloat16 or float16: samples from a rounded copy.")] = None,
    precision: Annotated[
        str | None, _knob("Of the training pass: float32, bfloat16, or float16 for a GPU without bfloat16.")
    ] = None,
    learning_rate: Annotated[float | None, _knob("Of AdamW.")] = None,
    warmup_steps: Annotated[
        int | None, _knob("Iterations in which the learning rate rises.", "--warmup", min=0)
    ] = None,
    max_grad_norm: Annotated[float | None, _knob("The gradient is scaled down to this norm.")] = None,
    inner_updates: Annotated[int | None, _knob("Gradient steps per batch.", min=1)] = None,
    level: Annotated[str | None, _knob("What one ratio stands for: token, rollout or gspo.")] = None,
    aggregate: Annotated[str | None, _knob("rollout_mean, rollout_sum, token_mean or constant.")] = None,
    clip_low: Annotated[float | None, _knob("The ratio is clipped from 1 - clip_low ...")] = None,
    clip_high: Annotated[float | None, _knob("... to 1 + clip_high.")] = None,
    kl_coef: Annotated[float | None, _knob("Weight of the KL penalty; 0 needs no reference.")] = None,
    kl: Annotated[str | None, _knob("k3, k2, k1 or k1_in_reward.")] = None,
    scale_by_std: Annotated[
        bool | None, _knob("Divide advantages by the group's std.", "--scale-by-std/--no-scale-by-std")
    ] = None,
    rollout_wave: Annotated[int | None, _knob("Rollouts decoded at a time: memory.", "--wave", min=1)] = None,
    micro_batch_size: Annotated[
        int | None, _knob("Rollouts per backward pass: memory.", "--micro-batch", min=1)
    ] = None,
    checkpoint_layers: Annotated[
        bool | None, _knob("Recompute layers: less memory, more time.", "--checkpoint-layers/--no-checkpoint-layers")
    ] = None,
    checkpoint_every: Annotated[int | None, _knob("Iterations between checkpoints.", min=0)] = None,
    keep_checkpoints: Annotated[int | None, _knob("How many of the newest stay.", "--keep", min=1)] = None,
    seed: Annotated[int | None, _knob("Of the tiny model, the prompts and the sampling.", min=0)] = None,
) -> None:
    """A Qwen3 model: a tiny one on this computer, or a published one on a GPU.

    Without any option, the tiny one: it is shown the form of an answer, then learns to add from rewards alone.
    """
    options = locals()
    _require_folder(json_file, "--json")
    _require_folder(plot_file, "--plot", suffixes=(".png", ".svg", ".pdf"))
    _require_qwen3("a Qwen3 model")
    from grpo.qwen3.command import run_from_command_line

    result = run_from_command_line(console, options)
    if json_file is not None:
        _write_json(json_file, result)


@app.command()
def evaluate(
    model: Annotated[
        str,
        typer.Option(
            help="tiny or real-shape (random weights), a hub name such as Qwen/Qwen3-0.6B-Base, a folder with a model, "
            "the --out folder of a run of grpo train qwen3, or one of its checkpoints."
        ),
    ] = "tiny",
    data: Annotated[
        str,
        typer.Option(help="arithmetic, a file (.jsonl, .json, .csv, .parquet), or a hub name: HuggingFaceH4/MATH-500."),
    ] = "arithmetic",
    split: Annotated[str, typer.Option(help="Part of the data: test, validation, train.")] = "test",
    votes: Annotated[
        int | None, typer.Option(min=1, help="Answers per problem; the majority counts. (default: 1, greedy)")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Of the sampling of votes. (default: 0.7)")] = None,
    controls: Annotated[
        bool,
        typer.Option("--controls", help="Three rows: the plain prompt, step by step, and a majority vote on top."),
    ] = False,
    reward: Annotated[
        str | None,
        typer.Option(help="strict: the text in the last box; math: its value. (default: strict for sums, else math)"),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(help="plain, base, step_by_step, chat_thinking or chat_direct. (default: the run's; base)"),
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="Longest answer, in tokens. (default: the run's; 26 for tiny, 2048)")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first problems.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Answers at a time: memory. (default: 256, or 32)")] = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
    dtype: Annotated[
        str | None,
        typer.Option(help="Of the products: float32, bfloat16 or float16. (default: what the device is fast at)"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sampling, and of random weights.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="New folder for the answers, kept as soon as they are there.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the evaluation in --out.")] = False,
    json_file: JsonOption = None,
) -> None:
    """How many problems a Qwen3 model answers right, and what the same model does when it is asked otherwise."""
    options = locals()
    _require_folder(json_file, "--json")
    _require_qwen3("a Qwen3 model")
    from grpo.qwen3.evaluate_command import evaluate_from_command_line

    result = evaluate_from_command_line(console, options)
    if json_file is not None:
        _write_json(json_file, result)


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks; default all.", metavar="[NAME]...")] = None,
    device: Annotated[
        str | None,
        typer.Option(help="With qwen3: cuda or cpu; the shape of Qwen3-0.6B there, instead of comparisons on a CPU."),
    ] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="With --device: the tiny model; every line, in a minute.")
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="With --device: of all; what does not fit is left out.")
    ] = 540.0,
    json_file: JsonOption = None,
) -> None:
    """Run benchmarks and print their tables. Use one thread: OMP_NUM_THREADS=1."""
    if device is not None or tiny:
        _bench_device(names, device, tiny, seconds, json_file)
        return
    known = benchmarks()
    for name in names or []:
        if name not in known:
            raise typer.BadParameter(f"no benchmark is called {name!r}; there are: {', '.join(known)}")
    _require_folder(json_file, "--json")
    if "qwen3" in (names or ()):
        _require_qwen3("benchmark qwen3")
    results = {}
    for name in names or known:
        missing = _missing_qwen3() if name == "qwen3" else ()
        if missing:
            console.print(f"left out qwen3: it needs {' and '.join(missing)} ({INSTALL_QWEN3})", highlight=False)
            continue
        results[name] = known[name]()(console)
    if json_file is not None:
        _write_json(json_file, results)


def _bench_device(names, device, tiny, seconds, json_file):
    if list(names or []) != ["qwen3"] or device is None:
        raise typer.BadParameter("--device and --tiny are for one benchmark: grpo bench qwen3 --device cuda")
    _require_folder(json_file, "--json")
    _require_qwen3("benchmark qwen3")
    from grpo.qwen3.bench_device import bench_device

    try:
        result = bench_device(console, device, tiny, seconds)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if json_file is not None:
        _write_json(json_file, {"qwen3": result})


def benchmarks():
    """dict, name -> callable that loads the benchmark function (console) -> dict. Own ones, then installed ones.

    Other packages add theirs under the entry-point group "grpo.bench".
    """
    found = {name: lambda target=target: _load(target) for name, target in OWN_BENCHMARKS.items()}
    for point in entry_points(group="grpo.bench"):
        found.setdefault(point.name, point.load)
    return found


def main() -> None:
    """Entry point of the console script."""
    app()


def _changes(options):
    """The settings among a command's options; None means "the default of this policy"."""
    names = ("steps", "inner_updates", "group_size", "learning_rate", "kl_coef", "token_average")
    return {name: options[name] for name in names if options[name] is not None}


def _train(policy, ablation, seeds, changes, json_file, plot_file):
    from grpo.expressions.report import comparison_table, live_training, plot_runs, result_table

    _require_folder(json_file, "--json")
    _require_folder(plot_file, "--plot", suffixes=(".png", ".svg", ".pdf"))
    arms = _arms(policy, ablation, changes)
    runs = {name: live_training(console, policy, name, settings, seeds) for name, settings in arms.items()}
    for name, run in runs.items():
        console.print(result_table(name, run))
    if len(runs) > 1:
        console.print(comparison_table(runs))
    if json_file is not None:
        _write_json(json_file, {name: run.to_dict() for name, run in runs.items()})
    if plot_file is not None:
        plot_runs(runs, plot_file)
        console.print(f"wrote {plot_file}", highlight=False)


def _arms(policy, ablation, changes):
    """dict, name of the arm -> settings: one ablation, or the standard run and all ablations."""
    from grpo.expressions.experiment import ABLATIONS, ablate, default_settings

    try:
        standard = default_settings(policy, **changes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if ablation is not None:
        return {ablation.value: ablate(standard, ablation.value)}
    return {"standard": standard, **{name: ablate(standard, name) for name in ABLATIONS}}


def _require_folder(path, option, suffixes=None):
    """Say now, not after the training, that a file cannot be written."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise typer.BadParameter(f"{option} {path}: the folder {path.parent} does not exist")
    if suffixes and path.suffix.lower() not in suffixes:
        raise typer.BadParameter(f"{option} {path}: the name must end in {', '.join(suffixes)}")


def _write_json(path, data):
    path.write_text(json.dumps(_without_nan(data), allow_nan=False) + "\n", encoding="utf-8")
    console.print(f"wrote {path}", highlight=False)


def _without_nan(data):
    if isinstance(data, dict):
        return {name: _without_nan(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_without_nan(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _require_qwen3(what):
    if missing := _missing_qwen3():
        raise typer.BadParameter(f"{what} needs {' and '.join(missing)}: {INSTALL_QWEN3}")


def _missing_qwen3():
    return [name for name in QWEN3_LIBRARIES if find_spec(name) is None]


def _load(target):
    module, name = target.split(":")
    return getattr(import_module(module), name)


if __name__ == "__main__":
    main()
