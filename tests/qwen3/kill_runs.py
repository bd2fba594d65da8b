"""Runs that are killed by SIGKILL wherever it hurts, resumed until they are done, and compared with one left alone.

A script of its own: it imports torch once and forks a child per attempt (`python kill_runs.py FOLDER` prints JSON).
A child counts what Python does in the modules that train and save (calls of functions, renames, writes, flushes) and
kills itself at a random one of these events; or its parent kills it from outside at a random time.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
import transformers.models.qwen3.modeling_qwen3  # noqa: F401  paid once, not in every child

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import PROBLEMS, CoinReward, micro_model, settings

import grpo.qwen3 as package
from grpo.qwen3.checkpoint import CheckpointError
from grpo.qwen3.trainer import Trainer

COUNTED = ("trainer", "batch", "prompt_order", "run", "checkpoint", "folder_lock", "health")
MODULES = {str(Path(package.__file__).parent / f"{name}.py"): name for name in COUNTED}
STEPS = 5


def work(folder):
    """Start or resume the run, and train to the end."""
    run = settings(steps=STEPS, checkpoint_every=2, kl_coef=0.1, inner_updates=2, micro_batch_size=3, seed=4)
    try:
        trainer = Trainer.resume(folder, PROBLEMS, CoinReward(2))
    except CheckpointError:
        model, tokenizer = micro_model()
        trainer = Trainer(model, tokenizer, PROBLEMS, CoinReward(2), run, out_dir=folder)
    trainer.train()


def attempt(folder, die_at=None, seconds=None):
    """One child. Returns: (whether it came to the end, as `count_events`; None if it was killed)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            events = count_events(lambda: work(folder), die_at)
            with os.fdopen(writer, "w") as pipe:
                json.dump(events, pipe)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    os.close(writer)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        events = pipe.read()
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"a child failed in {folder}")
    return os.WIFEXITED(status), json.loads(events) if events else None


def count_events(function, die_at):
    """Call it, and count the events inside our package; at number `die_at` this process is gone.

    Returns: (how many there were, the numbers of those in the module that writes checkpoints).
    """
    counted, saving = 0, []

    def profile(frame, kind, argument):
        nonlocal counted
        if frame.f_code.co_filename in MODULES:
            counted += 1
            if MODULES[frame.f_code.co_filename] == "checkpoint":
                saving.append(counted)
            if counted == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return counted, saving


def outcome(folder):
    """What must be equal: weights, optimizer, generators, and the signals without their seconds."""
    newest = folder / "checkpoints" / (folder / "checkpoints" / "latest").read_text().strip()
    state = json.loads((newest / "state.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    signals = [{name: value for name, value in row.items() if not name.endswith("seconds")} for row in rows]
    tensors = {name: (newest / name).read_bytes() for name in ("policy/model.safetensors", "optimizer.safetensors")}
    return {"state": state, "signals": signals, **tensors}


def main(root):
    torch.set_num_threads(1)
    rng = random.Random(1)
    alone = root / "alone"
    started = time.perf_counter()
    done, (total, saving) = attempt(alone)
    duration = time.perf_counter() - started
    assert done
    expected = outcome(alone)
    result = {"events": total, "runs": []}
    for number in range(14):
        folder, kills, torn, starts = root / f"run-{number}", 0, 0, []
        for _ in range(2):
            if number < 10:  # every second one somewhere in a checkpoint
                limits = {"die_at": rng.choice(saving) if number % 2 else rng.randint(1, total)}
            else:
                limits = {"seconds": rng.uniform(0.0, duration)}
            done, _ = attempt(folder, **limits)
            kills += not done
            torn += any(folder.rglob(".unfinished*"))
            starts.append(len(list(folder.glob("checkpoints/step-*"))))
            if done:
                break
        if not done:
            done, _ = attempt(folder)
        found = outcome(folder)
        different = [name for name in expected if found[name] != expected[name]]
        result["runs"].append({"kills": kills, "torn": torn, "different": different, "checkpoints": starts})
        shutil.rmtree(folder)
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
