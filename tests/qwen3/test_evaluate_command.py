"""`grpo evaluate`: options, tables, the folder of answers, and the way back after a kill."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import micro_model
from other_process import other_process, says

import grpo.cli
from grpo.qwen3 import answers as answers_module
from grpo.qwen3 import evaluate_command as command
from grpo.qwen3 import model as models
from grpo.qwen3 import rewards
from grpo.qwen3.answers import Answer
from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.checkpoint import CheckpointError
from grpo.qwen3.controls import Control
from grpo.qwen3.evaluate_command import EvaluateOptions, find_policy, load_problems
from grpo.qwen3.evaluation_folder import EvaluationFolder
from grpo.qwen3.prompts import encode_prompts
from grpo.qwen3.settings import GRPOSettings
from grpo.qwen3.trainer import Trainer

SMALL = ("--limit", 5, "--max-new-tokens", 6, "--batch", 4)


def call(*arguments):
    arguments = ["evaluate", *map(str, arguments)]
    result = CliRunner().invoke(grpo.cli.app, arguments, env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, re.sub(r"[\s│╭╮╰╯─┃━]+", " ", result.output)


@pytest.fixture(scope="module")
def micro(tmp_path_factory):
    """Folder of a saved micro model."""
    folder = tmp_path_factory.mktemp("micro") / "model"
    model, tokenizer = micro_model()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def varied(monkeypatch):
    """An untrained model boxes nothing: pay for something that varies."""

    def reward(text, truth, finished):
        return sum(map(ord, text)) % 10 / 10

    monkeypatch.setattr(rewards, "boxed_reward", reward)


def texts(rows):
    return [row for row in rows if row.pop("seconds") > 0]


def read_answers(folder):
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def test_a_whole_evaluation(micro, tmp_path, varied):
    out, numbers = tmp_path / "out", tmp_path / "numbers.json"
    status, output = call("--model", micro, *SMALL, "--controls", "--votes", 3, "--out", out, "--json", numbers)
    assert status == 0
    for text in (
        f"{micro}: 5 problems of arithmetic, strict reward, at most 6 tokens, 4 answers at a time in float32 on cpu",
        f"answers are kept in {out}",
        "on 5 problems of arithmetic: MEASURED here",
        "plain prompt",
        "<think> forced, majority of 3",
        "paired: second - first",
    ):
        assert text in output
    assert "PUBLISHED" not in output
    data = json.loads(numbers.read_text())
    assert [row["name"] for row in data["rows"]] == ["plain prompt", "<think> forced", "<think> forced, majority of 3"]
    assert [len(row["rewards"]) for row in data["rows"]] == [5, 5, 5]
    assert [len(row["vote_rewards"][0]) for row in data["rows"]] == [1, 1, 3]
    assert data["rows"][2]["vote"].keys() == {"single", "any_right", "agreement", "undecided"}
    assert len(data["comparisons"]) == 3 and "published_not_measured_here" not in data
    assert data["settings"]["problems"] == 5 and data["settings"]["batch"] == 4
    for problem in load_arithmetic("test")[:5]:
        assert problem.prompt.strip() not in numbers.read_text()
    lines = read_answers(out)
    assert len(lines) == 5 + 5 + 15
    rewards = [line["reward"] for line in lines if line["control"] == "plain prompt"]
    assert rewards == data["rows"][0]["rewards"]
    rewards = [line["reward"] for line in lines[10:]]
    assert rewards == [reward for votes in data["rows"][2]["vote_rewards"] for reward in votes]
    assert len(set(rewards)) > 1
    assert [(line["problem"], line["vote"]) for line in lines[10:]] == [(p, v) for p in range(5) for v in range(3)]
    assert all(line["tokens"] <= 6 and line["text"].startswith("<think>") for line in lines[5:])


def test_one_way_of_asking(micro, tmp_path, varied):
    numbers = tmp_path / "numbers.json"
    status, output = call(
        "--model", micro, "--limit", 2, "--votes", 2, "--temperature", 0.9, "--split", "validation", "--json", numbers,
        "--dtype", "bfloat16", "--seed", 3,
    )  # fmt: skip
    assert status == 0 and "plain prompt, majority of 2" in output and "paired" not in output
    assert "answers are not kept (--out DIR keeps them)" in output
    data = json.loads(numbers.read_text())
    assert data["settings"]["max_new_tokens"] == 26 and data["settings"]["seed"] == 3
    assert data["settings"]["dtype"] == "bfloat16"
    (row,) = data["rows"]
    assert (row["control"]["votes"], row["control"]["temperature"]) == (2, 0.9)
    assert load_problems(EvaluateOptions(split="validation", limit=2)) == load_arithmetic("validation")[:2]


def test_the_options_reach_the_sampler(micro, monkeypatch):
    seen = []
    sample = answers_module.sample

    def watched(model, prompts, group_size, **options):
        seen.append((prompts, group_size, options["rollout_dtype"], options["max_new_tokens"]))
        return sample(model, prompts, group_size, **options)

    monkeypatch.setattr(answers_module, "sample", watched)
    status, _ = call("--model", micro, *SMALL, "--dtype", "float16", "--style", "plain")
    prompts = encode_prompts(micro_model()[1], [problem.prompt for problem in load_arithmetic("test")[:5]])
    assert status == 0 and seen == [(prompts[:4], 1, torch.float16, 6), (prompts[4:], 1, torch.float16, 6)]
    seen.clear()
    call("--model", micro, *SMALL)
    monkeypatch.setattr(command, "native_half", lambda device: "bfloat16")  # as on a GPU
    call("--model", micro, *SMALL)
    assert [row[2] for row in seen] == [None, None, torch.bfloat16, torch.bfloat16]


# Models


def test_random_weights_are_called_so():
    status, output = call("--limit", 2, "--max-new-tokens", 2)
    assert status == 0 and "tiny, whose weights are random: 2 problems" in output


def test_the_real_shape_has_its_seed_and_a_tokenizer(monkeypatch):
    made = []

    def tiny_model(seed, config, dtype):
        made.append((seed, config.hidden_size, config.vocab_size))
        return micro_model()[0]

    monkeypatch.setattr(models, "tiny_model", tiny_model)
    status, output = call("--model", "real-shape", "--limit", 2, "--max-new-tokens", 2, "--seed", 4)
    assert status == 0 and made == [(4, 1024, 151_936)] and "real-shape, whose weights are random" in output


@pytest.fixture
def run(tmp_path):
    """Folder of a run with two checkpoints."""
    model, tokenizer = micro_model()
    settings = GRPOSettings(
        steps=2, prompts_per_step=2, group_size=2, max_new_tokens=5, checkpoint_every=1, keep_checkpoints=3
    )
    trainer = Trainer(
        model,
        tokenizer,
        load_arithmetic("train")[:4],
        lambda text, truth, finished: float(len(text) % 2),
        settings,
        out_dir=tmp_path / "run",
        notes={"reward": "strict"},
    )
    trainer.train()
    return tmp_path / "run"


def test_a_run_is_its_newest_checkpoint(run, tmp_path, monkeypatch):
    trained = {"prompt_style": "plain", "max_new_tokens": 5, "reward": "strict"}
    checkpoint = run / "checkpoints" / "step-000001"
    newest = str(run / "checkpoints" / "step-000002" / "policy")
    assert find_policy(str(run)) == (newest, trained)
    assert (
        find_policy(str(checkpoint)) == find_policy(str(checkpoint / "policy")) == (str(checkpoint / "policy"), trained)
    )
    assert find_policy(str(run / "reference")) == (str(run / "reference"), trained)
    monkeypatch.chdir(run)
    assert find_policy(".") == (newest, trained)
    monkeypatch.chdir(tmp_path)
    status, output = call("--model", run, "--limit", 2)
    assert status == 0 and f"{newest}: 2 problems of arithmetic, strict reward, at most 5 tokens" in output
    assert find_policy("tiny") == ("tiny", {}) and find_policy("no/such/folder") == ("no/such/folder", {})
    assert find_policy(str(tmp_path)) == (str(tmp_path), {})
    for path in (run / "checkpoints").glob("step-*/manifest.json"):
        path.unlink()
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        find_policy(str(run))


# Benchmarks


def write_benchmark(path):
    path.write_text('{"problem": "What is 1+1?", "answer": "2"}\n{"problem": "What is 2+2?", "answer": "4"}\n')
    return path


def test_a_benchmark_from_a_file_with_the_published_figures_apart(micro, tmp_path):
    numbers = tmp_path / "numbers.json"
    arguments = ("--model", micro, "--max-new-tokens", 3, "--reward", "strict", "--json", numbers)
    status, output = call(*arguments, "--data", write_benchmark(tmp_path / "MATH-500.jsonl"))
    assert status == 0 and output.index("MEASURED here") < output.index("PUBLISHED figures, not measured here")
    data = json.loads(numbers.read_text())
    assert len(data["published_not_measured_here"]) == 8 and len(data["rows"]) == 1
    assert data["rows"][0]["problems"] == 2 and "1+1" not in numbers.read_text()
    status, output = call(*arguments, "--data", write_benchmark(tmp_path / "other.jsonl"))
    assert status == 0 and "PUBLISHED" not in output and "published" not in numbers.read_text()


def test_the_math_reward_is_the_default_of_a_benchmark_and_ends_with_it(micro, tmp_path, monkeypatch):
    pytest.importorskip("math_verify")
    closed = []
    from grpo.qwen3.math_rewards import MathReward

    monkeypatch.setattr(MathReward, "close", lambda self: closed.append(self))
    path = write_benchmark(tmp_path / "a.jsonl")
    status, output = call("--model", micro, "--max-new-tokens", 3, "--data", path)
    assert status == 0 and "math reward" in output and len(closed) == 1
    monkeypatch.setattr(command, "control_batches", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("--model", micro, "--max-new-tokens", 3, "--data", path)
    assert len(closed) == 2


def test_truths_that_cannot_be_read_are_counted(micro, tmp_path):
    pytest.importorskip("math_verify")
    from grpo.qwen3.math_rewards import MathVerifier

    truths = ["2", r"\frac{1}{2}", "((5", r"[1,2)\cup(3,4]", r"\text{(B)}", "((5", "x+1"]
    with MathVerifier(seconds_per_answer=30.0, seconds_per_batch=300.0) as verifier:
        assert command.unread_truths(verifier, truths) == ["((5"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"problem": "What is 1+1?", "answer": truth}) + "\n" for truth in truths))
    status, output = call("--model", micro, "--max-new-tokens", 3, "--data", path)
    assert status == 0 and re.search(r"math-verify cannot read \d truths of 7 problems \(.*\(\(5", output)


# The folder


@pytest.mark.parametrize("left", ["a batch", "half a batch", "half a line", "all of one control", "nothing"])
def test_a_killed_evaluation_goes_on(micro, tmp_path, varied, left, monkeypatch):
    arguments = ("--model", micro, *SMALL, "--controls", "--votes", 2, "--temperature", 1.0)
    whole, out, numbers = tmp_path / "whole", tmp_path / "out", tmp_path / "numbers.json"
    call(*arguments, "--out", whole, "--json", numbers)
    expected = json.loads(numbers.read_text())
    call(*arguments, "--out", out)
    lines = (out / "answers.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 5 + 5 + 10
    cut = {
        "a batch": lines[:4],
        "half a batch": lines[:13],
        "half a line": [*lines[:14], lines[14][:20]],
        "all of one control": lines[:10],
        "nothing": [],
    }[left]
    (out / "answers.jsonl").write_text("".join(cut))
    answered = []
    prompts = answers_module.answer_prompts

    def watched(model, tokenizer, some, *rest, **options):
        answered.append(len(some) * options["group_size"])
        return prompts(model, tokenizer, some, *rest, **options)

    monkeypatch.setattr(answers_module, "answer_prompts", watched)
    status, _ = call(*arguments, "--out", out, "--resume", "--json", numbers)
    assert status == 0
    kept = {"a batch": 4, "half a batch": 10, "half a line": 14, "all of one control": 10, "nothing": 0}[left]
    assert sum(answered) == 20 - kept
    assert texts(read_answers(out)) == texts(read_answers(whole))
    again = json.loads(numbers.read_text())
    for row, same in zip(again["rows"], expected["rows"], strict=True):
        assert row["vote_rewards"] == same["vote_rewards"] and row["accuracy"] == same["accuracy"]
        assert row["seconds"] > 0


def test_a_finished_evaluation_is_only_shown_again(micro, tmp_path, monkeypatch):
    out = tmp_path / "out"
    call("--model", micro, *SMALL, "--out", out)
    monkeypatch.setattr(answers_module, "answer_prompts", lambda *a, **k: pytest.fail("answered again"))
    status, output = call("--model", micro, *SMALL, "--out", out, "--resume")
    assert status == 0 and "MEASURED here" in output


def test_another_evaluation_or_somebody_elses_folder_is_refused(micro, tmp_path):
    out = tmp_path / "out"
    call("--model", micro, *SMALL, "--out", out)
    before = (out / "answers.jsonl").read_bytes()
    for arguments, message in (
        ((), "holds an evaluation: add --resume to go on with it, or choose another --out"),
        (("--resume", "--limit", 3), "has problems 5, not 3: give the same options as before"),
        (("--resume", "--seed", 1), "has seed 0, not 1"),
        (("--resume", "--controls"), "has controls"),
        (("--resume", "--split", "validation"), "has split 'test', not 'validation'"),
    ):
        status, output = call("--model", micro, *SMALL, "--out", out, *arguments)
        assert status == 2 and message in output, output
        assert (out / "answers.jsonl").read_bytes() == before
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    for target, message in (
        (tmp_path / "thesis", "holds files already: or choose another --out"),
        (tmp_path / "thesis" / "thesis.tex", "is a file: choose another --out"),
        (tmp_path / "thesis" / "thesis.tex" / "x", "cannot be written"),
    ):
        status, output = call("--model", micro, *SMALL, "--out", target)
        assert status == 2 and message in output, output
    status, output = call("--model", micro, *SMALL, "--out", tmp_path / "thesis", "--resume")
    assert status == 2 and "holds no evaluation to resume" in output


def test_two_processes_do_not_answer_into_one_folder(micro, tmp_path, monkeypatch):
    out, held, prompts = tmp_path / "out", [], answers_module.answer_prompts

    def watched(*arguments, **options):
        held.append(says(out))
        return prompts(*arguments, **options)

    monkeypatch.setattr(answers_module, "answer_prompts", watched)
    assert call("--model", micro, "--limit", 1, "--max-new-tokens", 2, "--out", out)[0] == 0 and held == ["kept out"]
    with other_process(out):
        status, output = call("--model", micro, "--limit", 1, "--max-new-tokens", 2, "--out", out, "--resume")
    assert status == 2 and f"another process writes into {out}, and two would spoil" in output


def test_another_device_may_go_on(tmp_path):
    EvaluationFolder(tmp_path / "out", {"seed": 1, "device": "cpu"})
    EvaluationFolder(tmp_path / "out", {"seed": 1, "device": "cuda"}, resume=True)


def test_every_setting_is_compared_as_json_has_it(tmp_path):
    made = {"seed": 1, "controls": ({"name": "a"},), "device": "cpu"}
    EvaluationFolder(tmp_path / "out", made)
    EvaluationFolder(tmp_path / "out", made, resume=True)  # a tuple was written as a list
    with pytest.raises(ValueError, match="has split None, not 'test': give the same options"):
        EvaluationFolder(tmp_path / "out", {**made, "split": "test"}, resume=True)
    del made["seed"]
    with pytest.raises(ValueError, match="has seed 1, not None: give the same options"):
        EvaluationFolder(tmp_path / "out", made, resume=True)


def test_a_batch_is_on_the_disk_before_the_next_one_begins(tmp_path, monkeypatch):
    folder, written = EvaluationFolder(tmp_path / "out", {}), []
    monkeypatch.setattr(os, "fsync", lambda handle: written.append(os.fstat(handle).st_size))
    folder.append("plain", 0, [[Answer("t", None, 0.5, 3, True)]], 1.0)
    assert written == [(tmp_path / "out" / "answers.jsonl").stat().st_size] and written[0] > 0


def test_whole_batches_come_back(tmp_path):
    def several(count, votes):
        return [[Answer("t", None, 0.5, 3, True)] * votes for _ in range(count)]

    vote = Control("vote", votes=2, temperature=1.0)
    folder = EvaluationFolder(tmp_path / "out", {})
    folder.append("vote", 0, several(2, 2), 8.0)
    folder.append("vote", 2, several(1, 2), 3.0)
    # Batches of 4 completions are 2 problems: the third problem is finished only if it was the last one.
    assert folder.take_back([vote], 3, 4)["vote"] == (several(3, 2), pytest.approx(11.0))
    assert folder.take_back([Control("other"), vote], 5, 4) == {
        "other": ([], 0),
        "vote": (several(2, 2), pytest.approx(8.0)),
    }
    assert len(read_answers(tmp_path / "out")) == 4


def changed(number, **fields):
    """An edit of the lines of answers: other values of one line (counted from 0); None takes a field out."""

    def edit(lines):
        line = json.loads(lines[number]) | fields
        text = json.dumps({name: value for name, value in line.items() if fields.get(name, 0) is not None})
        return [*lines[:number], text, *lines[number + 1 :]]

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda lines: [lines[0], *lines],
            "line 2 answers problem 0, vote 0 of 'vote', where problem 0, vote 1 is due",
        ),
        (lambda lines: lines[1:], "line 1 answers problem 0, vote 1 of 'vote', where problem 0, vote 0 is due"),
        (lambda lines: lines[2:], "line 1 answers problem 1, vote 0 of 'vote', where problem 0, vote 0 is due"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "line 1 answers problem 0, vote 1"),
        (lambda lines: [*lines, lines[-1]], "line 7 answers problem 2, vote 1 of 'vote', where no further one is due"),
        (lambda lines: [*lines[:2], "{", *lines[2:]], "line 3 is not JSON"),
        (lambda lines: ["[" * 100_000, *lines], "line 1 is not JSON"),
        (lambda lines: ["5", *lines], "line 1 is no object"),
        (lambda lines: ["null", *lines], "line 1 is no object"),
        (lambda lines: ["[]", *lines], "line 1 is no object"),
        (lambda lines: ["{}", *lines], "line 1 lacks control"),
        (changed(3, control="another"), "line 4 belongs to 'another', which this evaluation does not ask"),
        (changed(3, control=["vote"]), "line 4 has control ['vote']"),
        (changed(0, tokens=None), "line 1 lacks tokens"),
        (changed(1, seconds="4"), "line 2 has seconds '4'"),
        (
            lambda lines: [*lines, json.dumps(json.loads(lines[0]) | {"problem": 3})],
            "line 7 answers problem 3, vote 0 of 'vote', where no further one is due",
        ),
        (changed(1, seconds=-1.0), "line 2 has seconds -1.0"),
        (changed(1, seconds=float("nan")), "line 2 has seconds nan"),
        (changed(1, problem=False), "line 2 has problem False"),
        (changed(1, tokens=-1), "line 2 has tokens -1"),
        (changed(1, reward=True), "line 2 has reward True"),
        (changed(1, reward=float("nan")), "line 2 has reward nan"),
        (changed(1, reward=float("inf")), "line 2 has reward inf"),
        (changed(1, finished=1), "line 2 has finished 1"),
        (changed(1, answer=3), "line 2 has answer 3"),
        (changed(1, text=3), "line 2 has text 3"),
    ],
)
def test_answers_that_are_not_those_due_are_refused_and_stay(tmp_path, edit, message):
    vote = Control("vote", votes=2, temperature=1.0)
    folder, path = EvaluationFolder(tmp_path / "out", {}), tmp_path / "out" / "answers.jsonl"
    folder.append("vote", 0, [[Answer("t", None, 0.5, 3, True)] * 2] * 3, 8.0)
    lines = path.read_text().splitlines()
    assert len(folder.take_back([vote], 3, 4)["vote"][0]) == 3
    path.write_text("".join(line + "\n" for line in edit(lines)))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="delete this line and all behind it, and they are answered again") as error:
        folder.take_back([vote], 3, 4)
    assert message in str(error.value) and str(path) in str(error.value) and path.read_bytes() == before


def test_a_folder_with_a_file_lost_or_spoilt_is_one_message(micro, tmp_path):
    out = tmp_path / "out"
    call("--model", micro, *SMALL, "--out", out)
    (out / "answers.jsonl").unlink()
    status, output = call("--model", micro, *SMALL, "--out", out, "--resume")
    assert status == 2 and "answers.jsonl cannot be read (No such file or directory): put it back" in output
    (out / "answers.jsonl").write_bytes(b"\xff\xfe")
    status, output = call("--model", micro, *SMALL, "--out", out, "--resume")
    assert status == 2 and "it is not UTF-8 text" in output
    for text, shown in (("[1]", "[1]"), ("null", "None")):
        (out / "evaluation.json").write_text(text)
        status, output = call("--model", micro, *SMALL, "--out", out, "--resume")
        assert status == 2 and f"evaluation.json holds no settings but {shown}: choose another --out" in output
    (out / "evaluation.json").write_text("[" * 100_000)
    status, output = call("--model", micro, *SMALL, "--out", out, "--resume")
    assert status == 2 and "holds no evaluation to resume" in output


def test_ctrl_c_says_how_to_go_on(micro, tmp_path, monkeypatch):
    out, prompts = tmp_path / "out", answers_module.answer_prompts

    def interrupted(model, tokenizer, some, *rest, **options):
        if len(some) == 1:  # the second batch
            raise KeyboardInterrupt
        return prompts(model, tokenizer, some, *rest, **options)

    monkeypatch.setattr(answers_module, "answer_prompts", interrupted)
    status, output = call("--model", micro, *SMALL, "--out", out)
    assert status == 130 and f"what was finished is in {out}: add --resume to go on" in output
    assert len(read_answers(out)) == 4
    status, output = call("--model", micro, *SMALL)
    assert status == 130 and "stopped; with --out DIR answers are kept" in output


def test_out_of_memory_is_one_message(micro, monkeypatch):
    def full(*arguments, **options):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(answers_module, "sample", full)
    status, output = call("--model", micro, *SMALL)
    assert status == 1 and "out of memory: lower --batch or --max-new-tokens" in output
    monkeypatch.setattr(answers_module, "sample", lambda *a, **k: (_ for _ in ()).throw(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        call("--model", micro, *SMALL)


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "no/such/folder"], "there is no folder no/such/folder"),
        (["--device", "warp"], "device is 'warp'"),
        (["--data", "no_such_file.jsonl"], "there is no file no_such_file.jsonl"),
        (["--split", "dev"], "split is 'dev': the sums have train, validation, test"),
        (["--resume"], "--resume needs --out"),
        (["--votes", "0"], "--votes"),
        (["--votes", "3", "--temperature", "0"], "temperature is 0.0"),
        (["--controls", "--votes", "1"], "needs at least 2"),
        (["--reward", "kind"], "reward is 'kind': choose strict, math"),
        (["--style", "rhyme"], "style is 'rhyme': choose plain, base"),
        (["--dtype", "int8"], "dtype is 'int8': choose float32, bfloat16, float16"),
        (["--style", "base"], "the tokenizer has no token for a part of"),
        (["--json", "no_such_folder/x.json"], "the folder no_such_folder does not exist"),
    ],
)
def test_a_bad_argument_is_one_message_and_status_2(arguments, message):
    status, output = call("--limit", 2, "--max-new-tokens", 2, *arguments)
    assert status == 2 and message in output and "Traceback" not in output, output


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setattr(grpo.cli, "find_spec", lambda name: None if name == "torch" else object())
    status, output = call("--limit", 2)
    assert status == 2 and "a Qwen3 model needs torch" in output


def test_math_verify_is_asked_for_before_the_first_answer(micro, monkeypatch):
    from grpo.qwen3 import math_rewards

    monkeypatch.setattr(math_rewards.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(answers_module, "sample", lambda *a, **k: pytest.fail("answered"))
    status, output = call("--model", micro, *SMALL, "--reward", "math")
    assert status == 2 and "math-verify is not installed" in output
