"""Two processes never write into one folder, and a killed one leaves no lock behind."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import PROBLEMS, digits_reward, micro_model, settings
from other_process import other_process, says

from grpo.qwen3 import checkpoint, evaluation_folder
from grpo.qwen3.checkpoint import CheckpointError, RunFolder
from grpo.qwen3.evaluation_folder import EvaluationFolder
from grpo.qwen3.folder_lock import LOCK_FILE, FolderInUse, hold_folder
from grpo.qwen3.trainer import Trainer

REMEDY = "wait until it has ended, or end it, then try again; or choose another --out"


def test_a_second_process_is_kept_out_until_the_first_is_killed(tmp_path):
    with other_process(tmp_path) as (process, said):
        assert said == "held"
        with pytest.raises(FolderInUse) as error:
            hold_folder(tmp_path)
        assert f"another process writes into {tmp_path}," in str(error.value) and REMEDY in str(error.value)
        process.kill()
        process.wait()
        with hold_folder(tmp_path):
            assert (tmp_path / LOCK_FILE).exists()


def test_one_process_may_hold_a_folder_several_times(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    with hold_folder(tmp_path / "run"):
        with hold_folder("run"):
            assert says(tmp_path / "run") == "kept out"
        assert says(tmp_path / "run") == "kept out"
    assert says(tmp_path / "run") == "held"


def test_a_run_that_another_process_trains_is_left_alone(tmp_path):
    out = tmp_path / "run"
    trainer = Trainer(*micro_model(), PROBLEMS, digits_reward, settings(steps=3), out_dir=out)
    trainer.train(1)
    before = (out / "metrics.jsonl").read_bytes()
    with other_process(out) as (_, said):
        assert said == "held"  # between two calls of train the folder is free
        with pytest.raises(FolderInUse, match=r"another process writes into .*run, and two would spoil"):
            trainer.train()
        with pytest.raises(FolderInUse, match=REMEDY):
            Trainer.resume(out, PROBLEMS, digits_reward)  # it would cut off the other one's signals
    assert (out / "metrics.jsonl").read_bytes() == before and trainer.steps_done == 1
    held = []
    trainer.train(callback=lambda *step: held.append(says(out)))
    assert held == ["kept out", "kept out"] and says(out) == "held"


def test_a_new_run_keeps_others_out_until_its_first_checkpoint_is_there(tmp_path, monkeypatch):
    held, save = [], RunFolder.save
    monkeypatch.setattr(RunFolder, "save", lambda folder, *rest: held.append(says(folder.path)) or save(folder, *rest))
    Trainer(*micro_model(), PROBLEMS, digits_reward, settings(), out_dir=tmp_path / "run")
    assert held == ["kept out"] and says(tmp_path / "run") == "held"
    with other_process(tmp_path), pytest.raises(FolderInUse, match=REMEDY):
        RunFolder(tmp_path).hold()


def test_a_folder_that_holds_no_run_is_left_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for attempt in (
        lambda: Trainer.resume(tmp_path, PROBLEMS, digits_reward),
        lambda: Trainer(*micro_model(), PROBLEMS, digits_reward, settings(), out_dir=tmp_path),
        lambda: EvaluationFolder(tmp_path, {}),
        lambda: EvaluationFolder(tmp_path, {}, resume=True),
    ):
        with pytest.raises((CheckpointError, ValueError), match="holds"):
            attempt()
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def faster(monkeypatch, module):
    """Somebody writes into the folder after it was looked at and before it is held."""

    def hold(folder):
        Path(folder).mkdir()
        (Path(folder) / "theirs.txt").write_text("first")
        return hold_folder(folder)

    monkeypatch.setattr(module, "hold_folder", hold)


def test_whoever_was_faster_keeps_the_folder(tmp_path, monkeypatch):
    faster(monkeypatch, checkpoint)
    faster(monkeypatch, evaluation_folder)
    with pytest.raises(CheckpointError, match="holds files already"):
        RunFolder(tmp_path / "run").claim({})
    with pytest.raises(ValueError, match="holds files already"):
        EvaluationFolder(tmp_path / "answers", {})
    for name in ("run", "answers"):
        assert {path.name for path in (tmp_path / name).iterdir()} == {LOCK_FILE, "theirs.txt"}


def test_a_lock_file_alone_is_no_content(tmp_path):
    for folder in ("run", "answers"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / LOCK_FILE).touch()
    RunFolder(tmp_path / "run").claim({})
    EvaluationFolder(tmp_path / "answers", {})
    assert (tmp_path / "run" / "run.json").exists() and (tmp_path / "answers" / "evaluation.json").exists()


def test_an_evaluation_that_another_process_answers_is_left_alone(tmp_path):
    folder = EvaluationFolder(tmp_path / "out", {"seed": 1})
    with (
        other_process(tmp_path / "out"),
        pytest.raises(FolderInUse, match=f"another process writes into .*out.*{REMEDY}"),
    ):
        folder.hold()
    with folder.hold():
        assert says(tmp_path / "out") == "kept out"
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot be written: .*choose another --out"):
        EvaluationFolder(tmp_path / "file" / "out", {})
