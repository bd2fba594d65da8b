r"""General answers: the edge set, bombs and hangs, and where the verifier can be called from."""

import functools
import importlib.util
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("math_verify", reason="math-verify is not installed: there is nothing to judge with")

from grpo import reward_reasoning
from grpo.qwen3 import math_worker
from grpo.qwen3.math_pool import Outcome
from grpo.qwen3.math_rewards import Judged, MathReward, MathVerifier, math_reward, screen

HERE = Path(__file__).parent
specification = importlib.util.spec_from_file_location("math_pairs", HERE / "math_pairs.py")
edge = sys.modules["math_pairs"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(edge)

REASONS_FOR_ZERO = {
    "no box",
    "empty box",
    "different",
    "answer not parsed",
    "truth not parsed",
    "too long",
    "too deep",
    "too big",
    "timeout",
    "worker died",
    "worker error",
    "batch budget",
    "no worker",
}


def box(answer):
    return rf"\boxed{{{answer}}}"


@pytest.fixture(scope="module")
def verifier():
    # The time per answer is for a busy machine: an answer takes some 10 milliseconds.
    with MathVerifier(seconds_per_answer=30.0, seconds_per_batch=300.0) as verifier:
        yield verifier


@pytest.fixture(scope="module")
def judged(verifier):
    return verifier.scores([pair.completion for pair in edge.QUICK], [pair.truth for pair in edge.QUICK])


# The edge set


def test_every_pair_of_the_edge_set(judged):
    wrong = [
        (pair.truth, pair.completion, verdict.reason, pair.why)
        for pair, verdict in zip(edge.QUICK, judged, strict=True)
        # A known weakness must still be one: the list says what is the case.
        if (verdict.score == 1.0) != (pair.right != bool(pair.known))
    ]
    assert not wrong
    assert all(type(verdict) is Judged and verdict.score in (0.0, 1.0) for verdict in judged)


def test_the_edge_set_is_large_and_has_all_kinds():
    kinds = {pair.kind for pair in edge.PAIRS}
    asked = "fractions, mixed numbers, tuples, intervals, sets and lists, percent, units, text, matrices, boxes"
    assert len(edge.PAIRS) == len({(pair.truth, pair.completion) for pair in edge.PAIRS}) >= 70
    assert {*asked.split(", "), "malformed", "pathological"} <= kinds
    for kind in kinds:
        verdicts = {pair.right for pair in edge.PAIRS if pair.kind == kind}
        assert verdicts == {True, False} or kind == "malformed", kind
    assert all(pair.why for pair in edge.PAIRS)


def test_agreement_as_a_table(judged):
    verifier_table = edge.agreement([verdict.score for verdict in judged], edge.QUICK)
    strict_scores = [reward_reasoning(pair.completion, pair.truth) for pair in edge.QUICK]
    strict_table = edge.agreement(strict_scores, edge.QUICK)
    known = sum(bool(pair.known) for pair in edge.QUICK)
    assert verifier_table["all"] == (len(edge.QUICK) - known, len(edge.QUICK))
    assert strict_table["all"][0] < verifier_table["all"][0]
    assert sum(total for kind, (_, total) in strict_table.items() if kind != "all") == len(edge.QUICK)
    table = edge.as_markdown(verifier=verifier_table, strict=strict_table).splitlines()
    assert len(table) == 2 + len(verifier_table) and table[-1].startswith("| all | ")


def test_agreement_counts_both_ways():
    pairs = [edge.Pair(kind, "1", "", right, "x") for kind, right in [("a", True), ("b", False), ("a", True)]]
    assert edge.agreement([1.0, 1.0, 0.0], pairs) == {"a": (1, 2), "b": (0, 1), "all": (1, 3)}


def test_what_the_strict_reward_pays_the_verifier_pays(judged):
    for pair, verdict in zip(edge.QUICK, judged, strict=True):
        if reward_reasoning(pair.completion, pair.truth):
            assert verdict == Judged(1.0, "equal text"), pair


def test_every_truth_is_worth_itself(verifier):
    scores = verifier.scores([box(truth) for truth in edge.TRUTHS], edge.TRUTHS)
    assert {verdict.score for verdict in scores} == {1.0}


def test_math_verify_reads_every_truth():
    # Equal texts hide whether a truth can be read at all; one that cannot be is worth nothing but its own text.
    for truth in edge.TRUTHS:
        if screen(truth) is None:
            assert math_worker.judge(truth, truth) == "equal value", truth


def test_an_unreadable_truth_is_counted_as_such(verifier):
    assert verifier.scores([box("5"), box("((5")], ["((5", "((5"]) == [
        Judged(0.0, "truth not parsed"),
        Judged(1.0, "equal text"),
    ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("6", "equal value"),
        ("7", "different"),
        ("(((", "answer not parsed"),
        ("6.0 ", "equal text"),
        ("", "empty box"),
        ("9^{9^9}", "too big"),
        ("1" * 401, "too long"),
        ("[" * 13, "too deep"),
    ],
)
def test_reasons(verifier, answer, reason):
    before = verifier.counts[reason]
    verdict = verifier.scores([f"So {box(answer)}"], ["6.0"])[0]
    assert verdict == Judged(float(reason.startswith("equal")), reason)
    assert verifier.counts[reason] == before + 1


# Bombs


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9}}",
        "9^9^9",
        "9 ^ { 9 ^ { 9 } }",
        r"{9}^{\left(9^{9}\right)}",
        "(9^9)^{9^9}",
        "9**9**9",
        "2^{-9^{9^9}}",
        "e^{9^{9^9}}",
        "2^{100000}",
        "99999^{3000}",
        "10^{4001}",
        "99999999!",
        "1001!",
        "((9!)!)!",
        "(5!)^{999!}",
        "9" * 300 + "!",
        "9" * 100 + "^{" + "9" * 100 + "}",
        r"\frac{1}{7^{7^{7^7}}}",
    ],
)
def test_screen_finds_what_is_too_big(text):
    assert screen(text) == "too big"


@pytest.mark.parametrize(
    "text",
    ["", "5!", "(5!)!", "1000!", "10^{4000}", "2^{2^{2^{2}}}", "x^{2^{n}}+1", "1^{99999999}", "0^{99999}", "x^{99999}",
     "3 \\ne 4!", "9" * 400, "(" * 12, "()" * 100, "{" * 12 + "5" + "}" * 12, "^^^^", "!!!", "{}^{}", "9^{", "2^{9}9",
     "2^{10000}"],
)  # fmt: skip
def test_screen_lets_the_rest_through(text):
    assert screen(text) is None


def test_screen_bounds():
    assert screen("1" * 401) == "too long"
    assert screen("(" * 13) == screen("[{(" * 5) == "too deep"


def test_64_pathological_answers_end_within_their_budget():
    heavy = [rf"(x+{i + 1})^{{50{i:02}}}" for i in range(24)]  # each would be multiplied out for minutes
    bombs = [f"{i}^{{9^{{{i}}}}}" for i in range(9, 29)] + [f"{i}99999!" for i in range(1, 11)]
    broken = ["(" * i for i in range(1, 6)] + ["1+" * 300 + str(i) for i in range(5)]
    answers = [*heavy, *bombs, *broken]
    assert len(answers) == 64
    with MathVerifier(seconds_per_answer=1.5, seconds_per_batch=5.0) as verifier:
        judged = verifier.scores([box(answer) for answer in answers], ["5"] * 64)
        assert len(judged) == 64 and all(verdict.score == 0.0 for verdict in judged)
        reasons = [verdict.reason for verdict in judged]
        assert set(reasons) <= REASONS_FOR_ZERO and sum(verifier.counts.values()) == 64
        # Of those that hang, no more were tried than the time of the batch allows, and the last one was cut off.
        assert set(reasons[:24]) == {"timeout", "batch budget"}
        assert 1 <= verifier.pool.kills <= 5.0 / 1.5 + 1
        assert set(reasons[24:54]) == {"too big"}
        # The broken ones did not have to wait behind the heavy ones.
        assert reasons[54:] == ["answer not parsed"] * 5 + ["too long"] * 5
        # And the next batch is judged as if nothing had been.
        verifier.pool.seconds_per_job = verifier.pool.seconds_per_batch = 60.0
        assert verifier.scores([box("1/2")], ["0.5"]) == [Judged(1.0, "equal value")]


def test_the_hanging_pairs_of_the_edge_set():
    with MathVerifier(seconds_per_answer=1.5, seconds_per_batch=60.0) as verifier:
        completions, truths = [pair.completion for pair in edge.HANGING], [pair.truth for pair in edge.HANGING]
        judged = verifier.scores(completions * 20, truths * 20)
        assert judged == [Judged(0.0, "timeout")] * 40
        # The same answer 20 times is one job.
        assert verifier.pool.kills == len(edge.HANGING)
        assert verifier.counts == {"timeout": 40}


def test_plain_answers_go_first(monkeypatch):
    verifier = MathVerifier()
    seen = []
    monkeypatch.setattr(verifier.pool, "start", lambda: None)
    monkeypatch.setattr(
        verifier.pool,
        "run",
        lambda jobs: seen.extend(jobs) or [Outcome(reply={"reason": "different"}) for _ in jobs],
    )
    verifier.scores([box(r"\sum_k 2^k"), box("2^k"), box("12"), box("3")], ["5"] * 4)
    assert [job["answer"] for job in seen] == ["3", "12", "2^k", r"\sum_k 2^k"]
    assert {job["truth"] for job in seen} == {"5"}


def test_random_boxes_never_raise(verifier):
    draw = random.Random(5)
    pieces = r"\frac { } ( ) [ ] 1 2 x + - ^ _ , \sqrt \text{a} = < \pi \cup \ & \\ % $ ! | . é".split()
    pieces += [" ", "\n", r"\begin{pmatrix}", r"\end{pmatrix}"]
    completions = [box("".join(draw.choices(pieces, k=draw.randint(1, 9)))) for _ in range(150)]
    judged = verifier.scores(completions, ["17"] * 150)
    assert len(judged) == 150 and not any(verdict.score for verdict in judged)
    assert {verdict.reason for verdict in judged} <= REASONS_FOR_ZERO - {"worker died", "no worker", "batch budget"}


# What the worker adds to math-verify


@pytest.mark.parametrize(
    ("answer", "truth", "equal"),
    [
        ("1 000 000", "10^6", True),
        (r"1\ 500", "1500", True),
        ("1 50", "150", False),
        (r"2\;1/2", r"\frac{5}{2}", True),
        (r"\frac 1 2", "0.5", True),
        ("3.5 2", "7", False),
        (r"\begin{pmatrix}1 \\ 200\end{pmatrix}", r"\begin{pmatrix}1\\200\end{pmatrix}", True),
        ("5 m", "5", False),
        (r"5\text{ m}", "5", True),
        (r"7\text{ square feet}", "7", True),
        (r"7\text{ apples}", "7", False),
        (r"x^2\text{ cm}^2", "x^2", True),
        ("abc", "cba", True),
        ("abce", "ecba", False),
        (r"\text{Answer } [3] \text{ or } 4", "3", False),
        (r"\text{ab}", r"\text{ba}", False),
        ("12_{5}", "12_5", True),
        ("12_{5}", "12_{6}", False),
        (r"\$1{,}200.50", "1200.5", True),
        ("x>2", r"(2,\infty)", True),
    ],
)
def test_judge(answer, truth, equal):
    assert (math_worker.judge(answer, truth) == "equal value") is equal


FAKE_MATH_VERIFY = """
import sys
print("hello from a library")
def LatexExtractionConfig(**options): return None
def LatexNormalizationConfig(**options): return None
def parse(text, targets, **options):
    print("parsing", text)
    print("a complaint", file=sys.stderr)
    if "31" in text: raise ZeroDivisionError
    if "32" in text: raise MemoryError
    if "33" in text: input("what is this? ")
    if "34" in text: raise RecursionError
    return [text]
def verify(gold, given, **options): return True
"""


def test_a_library_that_raises_prints_and_asks_disturbs_nobody(tmp_path, monkeypatch, capfd):
    (tmp_path / "math_verify.py").write_text(FAKE_MATH_VERIFY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with MathVerifier(seconds_per_answer=30.0) as verifier:
        judged = verifier.scores([box(n) for n in range(30, 36)], ["7"] * 6)
        assert [verdict.reason for verdict in judged] == ["equal value", *["worker error"] * 4, "equal value"]
        assert (verifier.pool.starts, verifier.pool.kills, verifier.pool.deaths) == (1, 0, 0)
    assert capfd.readouterr() == ("", "")


def test_modules_beside_the_worker_are_not_taken_for_libraries(tmp_path):
    # The folder of the worker's file holds modules of ours; one of them may be called like one that sympy imports.
    (tmp_path / "mpmath.py").write_text("raise SystemExit")
    with MathVerifier(seconds_per_answer=30.0) as verifier:
        verifier.pool.command[-1] = shutil.copy(math_worker.__file__, tmp_path)
        assert verifier.scores([box("1/2")], ["0.5"]) == [Judged(1.0, "equal value")]


def test_a_worker_ends_when_its_input_ends_even_in_the_middle_of_a_job():
    # A training run that is killed must not leave a process behind that multiplies out (x+1)^5000.
    worker = subprocess.Popen(
        [sys.executable, "-P", math_worker.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with worker:
        assert '"ready"' in worker.stdout.readline()
        worker.stdin.write('{"answer": "(x+1)^{5000}", "truth": "5", "seconds": 1000}\n')
        worker.stdin.close()
        worker.wait(timeout=60)


# Where and how it is called


@pytest.mark.parametrize("how", ["input", "script"])
def test_from_a_main_program_that_cannot_be_imported(tmp_path, how):
    # Standard input stands for a notebook: there __main__ is no file either. The script has no "if __name__" guard and
    # calls from a thread.
    code = textwrap.dedent(
        r"""
        import threading
        from grpo.qwen3.math_rewards import math_reward
        print("once")
        scores = []
        judge = lambda: scores.extend(math_reward.batch([r"\boxed{1/2}", "?"], ["0.5", "0.5"]))
        thread = threading.Thread(target=judge)
        thread.start()
        thread.join()
        print(scores)
        """
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-" if how == "input" else script],
        input=code if how == "input" else None,
        stdin=subprocess.DEVNULL if how == "script" else None,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("once\n[1.0, 0.0]\n", "")


def test_nothing_is_started_for_answers_that_need_no_mathematics():
    verifier = MathVerifier()
    assert [verdict.score for verdict in verifier.scores([box("5"), "?", box("9^{9^9}")], ["5"] * 3)] == [1.0, 0.0, 0.0]
    assert verifier.scores([box("5")], ["9^{9^{9}}"]) == [Judged(0.0, "truth not parsed")]
    assert verifier.scores([], []) == []
    assert verifier.pool.starts == 0


def test_slips_of_the_caller_raise(verifier):
    with pytest.raises(ValueError, match="lengths differ"):
        verifier.scores([box("5")], ["5", "6"])
    for truth in ("", "  ", None, 5):
        with pytest.raises(ValueError, match=r"truths\[1\] is"):
            verifier.scores([box("5"), box("5")], ["5", truth])
    with pytest.raises(ValueError, match=r"completions\[0\] is None"):
        verifier.scores([None], ["5"])


def test_without_math_verify(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install math-verify"):
        MathVerifier()


def test_a_broken_installation_is_no_row_of_zeros(tmp_path, monkeypatch):
    (tmp_path / "math_verify.py").write_text("import a_module_that_is_missing")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with MathVerifier() as verifier:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a_module_that_is_missing"):
                verifier.scores([box("1/2")], ["0.5"])


def test_a_run_is_not_ended_by_a_start_that_fails_later():
    with MathVerifier(seconds_per_answer=60.0) as verifier:
        assert verifier.scores([box("1/2")], ["0.5"])[0].score == 1.0
        verifier.close()
        verifier.pool.command = ["no such program"]
        assert verifier.scores([box("1/2"), box("5")], ["0.5", "5"]) == [
            Judged(0.0, "no worker"),
            Judged(1.0, "equal text"),
        ]


def test_reward_for_the_trainer(verifier):
    reward = MathReward(workers=2, seconds_per_answer=7.0)
    assert (reward.verifier.pool.size, reward.verifier.pool.seconds_per_job) == (2, 7.0)
    reward._verifier = verifier
    assert reward(box("1/2"), "0.5") == 1.0 and type(reward(box("2"), "0.5", finished=False)) is float
    assert reward.batch([box("1/2"), box("2"), "?"], ["0.5"] * 3, [True, False, True]) == [1.0, 0.0, 0.0]
    # One batch is one run of the pool, and so one budget.
    runs = []
    run = functools.partial(verifier.pool.run)
    verifier.pool.run = lambda jobs: runs.append(len(jobs)) or run(jobs)
    try:
        reward.batch([box("1/2"), box("2"), box("2")], ["0.5"] * 3)
    finally:
        del verifier.pool.run
    assert runs == [2]


def test_the_ready_made_reward_starts_nothing_by_itself():
    assert isinstance(math_reward, MathReward)
    fresh = MathReward()
    fresh.close()
    assert fresh._verifier is None
