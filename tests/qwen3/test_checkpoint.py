"""Folders that are complete or not there, pointers, pruning, and what is said when the disk refuses."""

import errno
import json
import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import PROBLEMS, CoinReward, digits_reward, micro_model, same_weights, settings, weights

from grpo.qwen3 import checkpoint
from grpo.qwen3.checkpoint import CheckpointError, RunFolder, verify_folder, write_folder
from grpo.qwen3.model import load_model
from grpo.qwen3.trainer import Trainer


def fill(text="hello", name="a.txt"):
    def write(path):
        (path / "inner").mkdir()
        (path / "inner" / name).write_text(text)

    return write


def test_a_folder_appears_whole_and_verifies(tmp_path):
    folder = write_folder(tmp_path / "new", fill())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]
    assert list(json.loads((folder / "manifest.json").read_text())) == ["inner/a.txt"]
    verify_folder(folder)


def test_a_failure_leaves_no_trace_and_the_old_folder(tmp_path):
    write_folder(tmp_path / "new", fill("old"))

    def broken(path):
        (path / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "new", broken)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new" / "inner" / "a.txt").read_text() == "old"


def test_an_older_folder_and_left_overs_of_a_kill_are_replaced(tmp_path):
    write_folder(tmp_path / "new", fill("old", "b.txt"))
    (tmp_path / ".unfinished-new").mkdir()
    (tmp_path / ".unfinished-new" / "stale.txt").write_text("stale")
    folder = write_folder(tmp_path / "new", fill())
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert [path.name for path in folder.rglob("*.txt")] == ["a.txt"]
    verify_folder(folder)


def test_nothing_is_renamed_before_everything_is_on_the_disk(tmp_path, monkeypatch):
    flushed, rename = [], Path.rename
    monkeypatch.setattr(checkpoint, "_flush_to_disk", lambda path: flushed.append(path.name))
    monkeypatch.setattr(Path, "rename", lambda path, target: flushed.append("rename") or rename(path, target))
    write_folder(tmp_path / "new", fill())
    before = flushed[: flushed.index("rename")]
    assert {"inner", "a.txt", "manifest.json", ".unfinished-new"} <= set(before)
    assert flushed[-1] == tmp_path.name  # the rename itself


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "inner" / "a.txt").write_text("hellx"), "a.txt has changed"),
        (lambda folder: (folder / "inner" / "a.txt").write_text("hell"), "a.txt has 4 bytes where 5 were written"),
        (lambda folder: (folder / "inner" / "a.txt").unlink(), "a.txt is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "not complete"),
        (lambda folder: (folder / "manifest.json").write_text('{"inner/a.txt": 5}'), "not complete"),
    ],
)
def test_damage_is_found(tmp_path, damage, message):
    folder = write_folder(tmp_path / "new", fill())
    damage(folder)
    with pytest.raises(CheckpointError, match=message):
        verify_folder(folder)


def test_checkpoints_are_pointed_to_and_the_oldest_are_dropped(tmp_path):
    run = RunFolder(tmp_path / "run", keep=2)
    run.claim({})
    for step in (0, 5, 10, 15):
        run.save(step, fill(str(step)))
        assert (run.path / "checkpoints" / "latest").read_text() == f"step-{step:06d}\n"
    assert run.steps() == [10, 15]
    path, faults = run.newest()
    assert path.name == "step-000015" and faults == []


def test_a_damaged_newest_checkpoint_is_passed_over_and_said(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim({})
    for step in (1, 2):
        run.save(step, fill(str(step)))
    (run.path / "checkpoints" / "step-000002" / "inner" / "a.txt").write_text("3")
    path, faults = run.newest()
    assert path.name == "step-000001" and len(faults) == 1 and "step-000002" in faults[0]
    (path / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"no complete checkpoint.*start anew"):
        run.newest()


def test_somebody_elses_folder_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match="holds files already"):
        RunFolder(tmp_path).claim({})
    with pytest.raises(CheckpointError, match=r"thesis\.tex is a file"):
        RunFolder(tmp_path / "thesis.tex").claim({})
    with pytest.raises(CheckpointError, match="holds no run to resume"):
        RunFolder(tmp_path).newest()
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("name", ["reference", "checkpoints", "metrics.jsonl", ".unfinished-reference"])
def test_a_folder_of_the_same_names_is_no_run_of_ours(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "paper.pdf").write_text("a year of reading")
    with pytest.raises(CheckpointError, match="holds files already"):
        RunFolder(tmp_path).claim({})
    assert (tmp_path / name / "paper.pdf").exists()


def test_an_abandoned_start_with_something_else_in_it_is_kept(tmp_path):
    RunFolder(tmp_path).claim({})
    (tmp_path / "paper.pdf").write_text("a year of reading")
    with pytest.raises(CheckpointError, match="holds a run already"):
        RunFolder(tmp_path).claim({})
    assert (tmp_path / "paper.pdf").exists()


def test_a_start_that_died_before_its_first_file_is_free(tmp_path):
    (tmp_path / ".unfinished-run.json").write_text("{")
    RunFolder(tmp_path).claim({"number": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "checkpoints", "run.json"]


def test_a_run_is_not_started_twice_unless_the_first_start_never_got_anywhere(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim({"number": 1})
    (run.path / ".unfinished-reference").mkdir()
    (run.path / "reference").mkdir()
    (run.path / "checkpoints" / ".unfinished-step-000000").mkdir()
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        run.newest()
    run.claim({"number": 2})
    assert run.about() == {"number": 2} and not list(run.path.rglob(".unfinished*"))
    run.save(0, fill())
    with pytest.raises(CheckpointError, match="holds a run already: add --resume"):
        run.claim({})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full: free some space"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "your quota is used up"),
        (PermissionError(errno.EACCES, "Permission denied"), "writing is not permitted"),
        (OSError(errno.EROFS, "Read-only file system"), "that file system is read-only"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
    ],
)
def test_a_disk_that_refuses_gives_one_message_and_the_last_checkpoint_stays(tmp_path, error, message):
    run = RunFolder(tmp_path / "run")
    run.claim({})
    run.save(3, fill())

    def refuse(path):
        (path / "half").write_text("x")
        raise error

    with pytest.raises(CheckpointError) as caught:
        run.save(4, refuse)
    assert message in str(caught.value) and str(run.path) in str(caught.value)
    assert "The checkpoint of step 3 is complete: --resume goes on from it." in str(caught.value)
    assert run.newest()[0].name == "step-000003"
    assert not list(run.path.rglob(".unfinished*"))


def test_other_errors_keep_their_own_message(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim({})

    def slip(path):
        raise TypeError("a slip of the program")

    with pytest.raises(TypeError, match="a slip"):
        run.save(0, slip)


def test_a_full_disk_under_safetensors_is_understood(tmp_path, monkeypatch):
    """safetensors writes by itself and reports the system's error inside its own message only."""
    import safetensors.torch
    from safetensors import SafetensorError

    model, tokenizer = micro_model()
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(), out_dir=tmp_path / "run")
    trainer.step()

    def full(tensors, filename, metadata=None):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(CheckpointError, match="the disk is full"):
        trainer.save()
    monkeypatch.undo()
    assert trainer.record.folder.newest()[0].name == "step-000000"
    assert trainer.save().name == "step-000001"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_disk_that_is_really_full_is_understood(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim({})
    (run.path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match="the disk is full"), run.disk_errors():
        with run.metrics.open("a") as file:
            file.write("a step")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused_before_anything_runs(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match="writing is not permitted"):
            RunFolder(tmp_path / "run").claim({})
    finally:
        tmp_path.chmod(0o700)


def test_a_parent_that_is_a_file_is_one_message(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write to"):
        RunFolder(tmp_path / "file" / "run").claim({})


def test_the_saved_policy_is_a_model_folder_with_the_tied_matrix_once(tmp_path):
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    model, tokenizer = micro_model()
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(), out_dir=tmp_path / "run")
    trainer.train(1)
    policy = trainer.record.newest_policy()
    with safe_open(policy / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert names == {name for name, _ in model.named_parameters()} and "lm_head.weight" not in names

    again, its_tokenizer = load_model(policy)
    assert same_weights(weights(again), weights(model))
    assert its_tokenizer.get_vocab() == tokenizer.get_vocab()
    theirs = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
    assert same_weights(weights(theirs), weights(model))
    ids = torch.tensor([tokenizer("What is 1+1?\n")["input_ids"]])
    assert torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)


def test_a_policy_with_keys_of_torch_compile_is_refused_by_name(tmp_path):
    """E10: a lenient reader would leave random weights, and only the accuracy would tell."""
    from safetensors.torch import load_file, save_file

    model, tokenizer = micro_model()
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(), out_dir=tmp_path / "run")
    policy = trainer.record.newest_policy()
    tensors = load_file(policy / "model.safetensors")
    renamed = {name.replace("model.", "model._orig_mod.", 1): value for name, value in tensors.items()}
    save_file(renamed, policy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="_orig_mod"):
        load_model(policy)
    # And the changed file is seen before a run would go on from it.
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        Trainer.resume(tmp_path / "run", PROBLEMS, digits_reward)


def test_everything_that_a_run_is_made_of_comes_back(tmp_path):
    reward = CoinReward(3)
    model, tokenizer = micro_model()
    trainer = Trainer(
        model,
        tokenizer,
        PROBLEMS,
        reward,
        settings(kl_coef=0.1, steps=4, seed=5),
        out_dir=tmp_path / "run",
        stop_ids={1, 7},
        notes={"model": "micro"},
    )
    trainer.train(2)
    again = Trainer.resume(tmp_path / "run", PROBLEMS, CoinReward(99))
    assert again.settings == trainer.settings and again.steps_done == 2
    assert again.stop_ids == {1, 7} and again.notes == {"model": "micro"}
    assert again.prompt_order.drawn == trainer.prompt_order.drawn == 4
    assert torch.equal(again.generator.get_state(), trainer.generator.get_state())
    assert again.reward.state_dict() == reward.state_dict()
    assert again.history == trainer.history
    assert same_weights(weights(again.model), weights(model))
    assert same_weights(weights(again.reference), weights(trainer.reference))
    ours, theirs = ([one.optimizer.state[parameter] for parameter in one.parameters] for one in (trainer, again))
    assert len(ours) == len(again.optimizer.state) == 13
    for left, right in zip(ours, theirs, strict=True):
        assert left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_a_resume_is_refused_where_it_would_be_another_run(tmp_path):
    model, tokenizer = micro_model()
    Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(), out_dir=tmp_path / "run")
    with pytest.raises(ValueError, match="other problems"):
        Trainer.resume(tmp_path / "run", PROBLEMS[:-1], digits_reward)
    with pytest.raises(ValueError, match=r"learning_rate was 0.01 .* cannot become 0.5"):
        Trainer.resume(tmp_path / "run", PROBLEMS, digits_reward, learning_rate=0.5)
    again = Trainer.resume(tmp_path / "run", PROBLEMS, digits_reward, steps=9, learning_rate=0.01, keep_checkpoints=5)
    assert again.settings.steps == 9 and again.record.folder.keep == 5


def test_a_damaged_reference_is_refused(tmp_path):
    model, tokenizer = micro_model()
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(kl_coef=0.1), out_dir=tmp_path / "run")
    with (trainer.record.folder.reference / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    with pytest.raises(CheckpointError, match="has changed since it was written"):
        Trainer.resume(tmp_path / "run", PROBLEMS, digits_reward)
