"""What a trainer leaves on the disk, and how it comes back from there."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict

import torch

from grpo.qwen3.checkpoint import CheckpointError, RunFolder, verify_folder, write_folder
from grpo.qwen3.health import SignalLog
from grpo.qwen3.settings import GRPOSettings

# What may change when a run goes on. All but the first three have no say in the numbers beyond their rounding.
CHANGEABLE = (
    "steps",
    "checkpoint_every",
    "keep_checkpoints",
    "micro_batch_size",
    "chunk_size",
    "checkpoint_layers",
    "rollout_wave",
)
POLICY, OPTIMIZER, STATE = "policy", "optimizer.safetensors", "state.json"


class RunRecord:
    """The folder of a trainer's run. Made by `start` or `resume_trainer`.

    Args:
        folder: RunFolder, claimed.
        saved: int, the step of the newest checkpoint; -1 if there is none.
        faults: list of str, what is wrong with newer checkpoints that were passed over.
    """

    def __init__(self, folder, saved=-1, faults=()):
        self.folder, self.saved, self.faults = folder, saved, list(faults)
        self.signals = SignalLog(folder.metrics)

    @classmethod
    def start(cls, trainer, out_dir):
        """Claim the folder, and write reference and first checkpoint. Raises as RunFolder.claim."""
        folder = RunFolder(out_dir, trainer.settings.keep_checkpoints)
        folder.require_free()
        with folder.hold():
            folder.claim(_about(trainer))
            if trainer.reference is not None:
                with folder.disk_errors():
                    write_folder(folder.reference, lambda path: _save_model(trainer.reference, trainer.tokenizer, path))
            record = cls(folder)
            record.save(trainer)
        return record

    def save(self, trainer):
        """Write the checkpoint of the trainer's step, if it has none. Returns its Path, or None."""
        if trainer.steps_done == self.saved:
            return None

        def fill(path):
            from safetensors.torch import save_file

            _save_model(trainer.model, trainer.tokenizer, path / POLICY)
            save_file(_optimizer_tensors(trainer.optimizer), path / OPTIMIZER)
            (path / STATE).write_text(json.dumps(_state(trainer), indent=1) + "\n", encoding="utf-8")

        path = self.folder.save(trainer.steps_done, fill)
        self.saved = trainer.steps_done
        return path

    def log(self, signals):
        """Append a step to metrics.jsonl. Raises CheckpointError if the disk refuses."""
        with self.folder.disk_errors():
            self.signals.append(signals)

    def newest_policy(self):
        """Path of the newest checkpoint's policy, a folder that `load_model` reads."""
        return self.folder.newest()[0] / POLICY

    def left(self):
        """One sentence: what can be gone back to."""
        return f"The checkpoint of step {self.saved} in {self.folder.path} is intact: --resume goes on from it."


def resume_trainer(trainer_class, out_dir, problems, reward, device, changes):
    """See `Trainer.resume`."""
    folder = RunFolder(out_dir)
    if not folder.steps():
        folder.newest()  # says what is wrong, and leaves the folder as it is
    with folder.hold():
        return _resumed(trainer_class, folder, problems, reward, device, changes)


def _resumed(trainer_class, folder, problems, reward, device, changes):
    from grpo.qwen3.model import load_model

    path, faults = folder.newest()
    state = json.loads((path / STATE).read_text(encoding="utf-8"))
    settings = changed_settings(GRPOSettings.from_dict(state["settings"]), changes)
    folder.keep = settings.keep_checkpoints
    if fingerprint(problems) != state["problems"]:
        raise ValueError(f"{folder.path} was started with other problems: pass the same ones to go on with it")

    model, tokenizer = load_model(path / POLICY, dtype=torch.float32, device=device)
    reference = None
    if settings.needs_reference:
        verify_folder(folder.reference)
        reference, _ = load_model(folder.reference, dtype=torch.float32, device=device)
    trainer = trainer_class(
        model,
        tokenizer,
        problems,
        reward,
        settings,
        reference=reference,
        stop_ids=state["stop_ids"],
        notes=state["notes"],
    )
    _load_optimizer(trainer.optimizer, path / OPTIMIZER)
    trainer.scaler.load_state_dict(state.get("scaler"))  # checkpoints from before there was one have no entry
    trainer.steps_done = state["step"]
    trainer.prompt_order.drawn = state["prompts_drawn"]
    trainer.generator.set_state(torch.frombuffer(bytearray(base64.b64decode(state["generator"])), dtype=torch.uint8))
    if state["reward"] is not None:
        reward.load_state_dict(state["reward"])
    trainer.record = RunRecord(folder, saved=state["step"], faults=faults)
    with folder.disk_errors():
        trainer.history = trainer.record.signals.resume(state["step"])
    return trainer


def changed_settings(settings, changes):
    """The settings to go on with. Raises ValueError for a change that would make it another run."""
    wanted = settings.changed(**changes)
    for name in changes:
        old, new = getattr(settings, name), getattr(wanted, name)
        if name not in CHANGEABLE and old != new:
            raise ValueError(
                f"{name} was {old!r} when the run was started and cannot become {new!r} now: leave it out, or start "
                f"a new run (what may change: {', '.join(CHANGEABLE)})"
            )
    return wanted


def fingerprint(problems):
    """SHA-256 of all prompts and truths in their order, as hexadecimal digits."""
    text = json.dumps([[problem.prompt, problem.truth] for problem in problems])
    return hashlib.sha256(text.encode()).hexdigest()


def _about(trainer):
    import transformers

    return {
        "settings": asdict(trainer.settings),
        "notes": trainer.notes,
        "problems": {"number": len(trainer.problems), "sha256": fingerprint(trainer.problems)},
        "parameters": sum(parameter.numel() for parameter in trainer.parameters),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _state(trainer):
    saver = getattr(trainer.reward, "state_dict", None)
    return {
        "step": trainer.steps_done,
        "settings": asdict(trainer.settings),
        "problems": fingerprint(trainer.problems),
        "prompts_drawn": trainer.prompt_order.drawn,
        "epoch": trainer.prompt_order.drawn // trainer.prompt_order.count,
        "generator": base64.b64encode(trainer.generator.get_state().numpy().tobytes()).decode(),
        "scaler": trainer.scaler.state_dict(),
        "reward": None if saver is None else saver(),
        "stop_ids": sorted(trainer.stop_ids),
        "notes": trainer.notes,
    }


def _save_model(model, tokenizer, path):
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        # One file: a later reader should not have to look for shards. Tied weights are in it once.
        model.save_pretrained(path, max_shard_size="1000GB")
    finally:
        if bars:
            logging.enable_progress_bar()
    tokenizer.save_pretrained(path)


def _optimizer_tensors(optimizer):
    """AdamW's state as flat names: "<number of the parameter>.<exp_avg|exp_avg_sq|step>"."""
    return {
        f"{number}.{name}": value.contiguous()
        for number, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def _load_optimizer(optimizer, path):
    from safetensors.torch import load_file

    state = {}
    for name, value in load_file(path).items():
        number, _, kind = name.partition(".")
        state.setdefault(int(number), {})[kind] = value
    parameters = sum(len(group["params"]) for group in optimizer.param_groups)
    if state and sorted(state) != list(range(parameters)):
        raise CheckpointError(f"{path} holds the state of {len(state)} parameters, the model has {parameters}")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
