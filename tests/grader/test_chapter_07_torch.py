"""Chapter 07, log-probs in chunks, prompts, top-p, checkpoints: students' code, references, what is measured."""

import math
from pathlib import Path

import numpy as np
import pytest
from reading import graded, states, words

torch = pytest.importorskip("torch", reason="two of these exercises are about torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import grpo  # noqa: E402
from grader.calling import call_all  # noqa: E402
from grader.checking import run_check  # noqa: E402
from grader.exercises import chapter_07  # noqa: E402
from grader.exercises.chapter_07 import capture_state, micro_run  # noqa: E402
from grader.exercises.chapter_07.memory_watch import memory_watch  # noqa: E402
from grader.judge.wire import decode_calls, decode_outcomes, encode_calls, encode_outcomes  # noqa: E402
from grader.plain import Shown, TorchRng  # noqa: E402
from grader.secrecy import drawn_calls  # noqa: E402
from grpo import qwen3  # noqa: E402

SEEDS = (0, 7)
OURS = (
    chapter_07.CHUNKED_LOGPROBS,
    chapter_07.RENDER_PROMPT,
    chapter_07.NUCLEUS_LOGPROBS,
    chapter_07.CAPTURE_STATE,
)
BY_NAME = {exercise.name: exercise for exercise in OURS}


def calls_of(name, seed=3):
    rng = np.random.default_rng(seed)
    return [one for part in BY_NAME[name].parts for one in part.calls(rng)]


# --- the exercises themselves ----------------------------------------------------------------------------------------


def test_points_and_chapter():
    assert {name: exercise.points for name, exercise in BY_NAME.items()} == {
        "chunked_logprobs": 7,
        "render_prompt": 5,
        "nucleus_logprobs": 5,
        "capture_state": 5,
    }
    assert {exercise.chapter for exercise in OURS} == {"07_qwen3_on_a_gpu"}


@pytest.mark.parametrize("exercise", OURS, ids=lambda exercise: exercise.name)
def test_nothing_that_a_student_reads_holds_the_answer(exercise):
    texts = [exercise.hint, *(part.hint for part in exercise.parts), *(m.says for m in exercise.mistakes)]
    given_away = (
        "use_reentrant",
        "log_softmax(",
        ".gather(",
        ".split(",
        "<think>\\n",
        "assistant\\n",
        "argsort(-",
        "cumsum(",
        "deepcopy",
        ".clone(",
        "get_state",
        "return ",
    )
    for text in texts:
        assert not any(code in text for code in given_away), text


@pytest.mark.parametrize("exercise", OURS, ids=lambda exercise: exercise.name)
def test_every_part_draws_inputs_of_its_own(exercise):
    rng = np.random.default_rng(0)
    calls_of_parts = [part.calls(rng) for part in exercise.parts]
    drawn = drawn_calls(exercise, [one for calls in calls_of_parts for one in calls])
    part_of = np.repeat(np.arange(len(exercise.parts)), [len(calls) for calls in calls_of_parts])
    assert {int(part_of[i]) for i in drawn} == set(range(len(exercise.parts)))


def over_the_wire(exercise, function):
    """The calls as a judge makes them: JSON to the kernel and JSON back."""

    def caller(calls):
        outcomes = call_all(exercise.on_plain_data(function), decode_calls(encode_calls(calls)))
        return decode_outcomes(encode_outcomes(outcomes), len(calls))

    return caller


@pytest.mark.parametrize("exercise", OURS, ids=lambda exercise: exercise.name)
def test_a_judge_finds_what_the_notebook_finds(exercise):
    right = exercise.alternatives[0].code
    assert run_check(exercise, None, 1, caller=over_the_wire(exercise, right)).state == "right"
    wrong = exercise.mistakes[1]
    report = run_check(exercise, None, 1, caller=over_the_wire(exercise, wrong.code))
    assert report.mistake == wrong.name and 0 < report.points < report.max_points


# --- log-probs in chunks ---------------------------------------------------------------------------------------------


def one_chunk(hidden, weight, token_ids, temperature):
    logits = hidden @ weight.T
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(logits / temperature, dim=-1).gather(-1, token_ids[:, None])[:, 0]


def test_the_reference_is_the_library_s_with_both_gradients():
    exercise = BY_NAME["chunked_logprobs"]

    def library(hidden, weight, token_ids, temperature, chunk_size):
        return qwen3.chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size=chunk_size)[0]

    plain = exercise.on_plain_data(library)
    for one in calls_of("chunked_logprobs"):
        due, found = exercise.reference(*one.args), plain(*one.args)
        rough = one.args[0].dtype == np.float16
        np.testing.assert_allclose(found["value"].numpy(), due["value"], rtol=2e-5, atol=1e-5)
        for name in ("hidden", "weight"):
            close = {"rtol": 1e-2, "atol": 1e-2} if rough else {"rtol": 1e-7, "atol": 1e-9}
            np.testing.assert_allclose(found[name].numpy().astype(float), due[name], **close)
        assert (found["largest"], found["alive"]) == (0, 0)


def test_the_worked_numbers_of_the_text():
    hidden, weight = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    reference = BY_NAME["chunked_logprobs"].reference
    first, second = (reference(hidden, weight, np.array([0, 0]), t, 1)["value"] for t in (1.0, 2.0))
    np.testing.assert_allclose(first, [-0.2395, -2.2395], atol=5e-5)
    np.testing.assert_allclose(second, [-0.5514, -1.5514], atol=5e-5)


def test_a_loop_alone_saves_no_memory():
    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        out = []
        for start in range(0, len(hidden), chunk_size):
            rows = slice(start, start + chunk_size)
            out.append(one_chunk(hidden[rows], weight, token_ids[rows], temperature))
        return torch.cat(out)

    for seed in SEEDS:
        report = graded(chunked_logprobs, seed)
        assert states(report) == [True] * 6 + [False] and report.mistake == "the graph keeps every chunk"
    assert "as many numbers as 144 rows of logits were in memory at one time; a chunk has 12 rows" in words(report)


def test_a_function_that_saves_its_tables_saves_no_memory_either():
    class Chunked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, token_ids, temperature, chunk_size):
            pieces = hidden.split(chunk_size)
            ctx.tables = [torch.log_softmax((h @ weight.T).double() / temperature, dim=-1) for h in pieces]
            ctx.save_for_backward(hidden, weight, token_ids)
            ctx.temperature = temperature
            ids = token_ids.split(chunk_size)
            return torch.cat([table.gather(-1, i[:, None])[:, 0] for table, i in zip(ctx.tables, ids, strict=True)])

        @staticmethod
        def backward(ctx, arriving):
            hidden, weight, token_ids = ctx.saved_tensors
            start, to_hidden, to_weight = 0, [], torch.zeros_like(weight)
            for table in ctx.tables:
                rows = slice(start, start + len(table))
                slope = -torch.exp(table)
                slope[torch.arange(len(table)), token_ids[rows]] += 1
                slope = (slope * arriving[rows, None] / ctx.temperature).to(weight.dtype)
                to_hidden.append(slope @ weight)
                to_weight += slope.T @ hidden[rows]
                start += len(table)
            return torch.cat(to_hidden), to_weight, None, None, None

    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        return Chunked.apply(hidden, weight, token_ids, temperature, chunk_size)

    report = graded(chunked_logprobs)
    assert states(report) == [True] * 6 + [False] and report.mistake == "the graph keeps every chunk"


def test_all_at_once_loses_both_points_of_memory():
    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        return one_chunk(hidden, weight, token_ids, temperature)

    report = graded(chunked_logprobs)
    assert states(report) == [True] * 5 + [False] * 2 and report.mistake == "the logits of all tokens at once"
    assert "a tensor as large as 15 rows of logits was made; a chunk has 3 rows" in words(report)


def test_put_together_before_the_choice_is_all_at_once_too():
    def table(hidden, weight, temperature):
        return torch.log_softmax((hidden @ weight.T).double() / temperature, dim=-1)

    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        pieces = [checkpoint(table, h, weight, temperature, use_reentrant=False) for h in hidden.split(chunk_size)]
        return torch.cat(pieces).gather(-1, token_ids[:, None])[:, 0]

    report = graded(chunked_logprobs)
    assert report.mistake == "the logits of all tokens at once" and "put together from chunks" in words(report)
    assert states(report) == [True] * 5 + [False] * 2


@pytest.mark.parametrize("cut", [torch.chunk, torch.tensor_split])
def test_a_number_of_chunks_is_no_chunk_size(cut):
    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        pieces = zip(cut(hidden, chunk_size), cut(token_ids, chunk_size), strict=True)
        pieces = [(h, ids) for h, ids in pieces if len(h)]
        return torch.cat([checkpoint(one_chunk, h, weight, ids, temperature, use_reentrant=False) for h, ids in pieces])

    for seed in SEEDS:
        report = graded(chunked_logprobs, seed)
        assert states(report) == [True] * 5 + [False, True]
        assert report.mistake == "chunk size taken for the number of chunks"
    assert "a tensor as large as 5 rows of logits was made; a chunk has 3 rows" in words(report)


def test_the_product_outside_the_checkpoint_keeps_the_logits():
    def piece(logits, token_ids, temperature):
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return torch.log_softmax(logits / temperature, dim=-1).gather(-1, token_ids[:, None])[:, 0]

    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        pieces = zip(hidden.split(chunk_size), token_ids.split(chunk_size), strict=True)
        return torch.cat([checkpoint(piece, h @ weight.T, ids, temperature, use_reentrant=False) for h, ids in pieces])

    report = graded(chunked_logprobs)
    assert states(report) == [True] * 6 + [False]
    assert "begins behind the product it is the logits" in words(report)


@pytest.mark.parametrize(
    "late, mistake",
    [
        ("ids", "the token ids of the last chunk on the way back"),
        ("all", "everything of the last chunk on the way back"),
    ],
)
def test_variables_of_the_loop_are_others_on_the_way_back(late, mistake):
    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        out = []
        for start in range(0, len(hidden), chunk_size):
            h, ids = hidden[start : start + chunk_size], token_ids[start : start + chunk_size]

            def piece(states):
                states = h if late == "all" else states  # noqa: B023
                logits = states @ weight.T
                logits = logits if logits.dtype == torch.float64 else logits.float()
                table = torch.log_softmax(logits / temperature, dim=-1)
                return table[torch.arange(len(ids)), ids]  # noqa: B023

            out.append(checkpoint(piece, h, use_reentrant=False))
        return torch.cat(out)

    for seed in SEEDS:
        report = graded(chunked_logprobs, seed)
        assert states(report) == [True, True, True, False, False, True, True] and report.mistake == mistake


@pytest.mark.parametrize("seed", range(6))
def test_float32_is_exact_enough(seed):
    def piece(hidden, weight, token_ids, temperature):
        own = (hidden * weight[token_ids]).sum(dim=-1) / temperature
        return own - torch.logsumexp(hidden @ weight.T / temperature, dim=-1)

    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        pieces = zip(hidden.float().split(chunk_size), token_ids.split(chunk_size), strict=True)
        weight = weight.float()
        return torch.cat([checkpoint(piece, h, weight, ids, temperature, use_reentrant=False) for h, ids in pieces])

    assert graded(chunked_logprobs, seed).state == "right"


def test_the_backward_pass_is_watched_too():
    """A forward pass in chunks and a backward pass in one piece."""

    class Chunked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, token_ids, temperature, chunk_size):
            ctx.save_for_backward(hidden, weight, token_ids)
            ctx.temperature = temperature
            pieces = zip(hidden.split(chunk_size), token_ids.split(chunk_size), strict=True)
            return torch.cat([one_chunk(h, weight, ids, temperature) for h, ids in pieces])

        @staticmethod
        def backward(ctx, arriving):
            hidden, weight, token_ids = (tensor.detach() for tensor in ctx.saved_tensors)
            with torch.enable_grad():
                leaves = hidden.requires_grad_(), weight.requires_grad_()
                whole = one_chunk(*leaves, token_ids, ctx.temperature)
                return *torch.autograd.grad(whole, leaves, arriving), None, None, None

    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        return Chunked.apply(hidden, weight, token_ids, temperature, chunk_size)

    assert states(graded(chunked_logprobs)) == [True] * 5 + [False] * 2


def test_code_that_is_generous_with_a_chunk_is_still_right():
    def piece(hidden, weight, token_ids, temperature):
        scores = (hidden.double() @ weight.double().T) / temperature
        shifted = scores - scores.max(dim=-1, keepdim=True).values
        chances = torch.exp(shifted)
        chosen = torch.nn.functional.one_hot(token_ids, len(weight)).double()
        return ((shifted - chances.sum(dim=-1, keepdim=True).log()) * chosen).sum(dim=-1)

    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        pieces = zip(hidden.split(chunk_size), token_ids.split(chunk_size), strict=True)
        return torch.cat([checkpoint(piece, h, weight, ids, temperature, use_reentrant=False) for h, ids in pieces])

    for seed in SEEDS:
        assert graded(chunked_logprobs, seed).state == "right"


def test_without_a_graph_no_memory_is_saved_that_counts():
    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        return one_chunk(hidden, weight, token_ids, temperature).detach()

    report = graded(chunked_logprobs)
    assert states(report) == [True] * 3 + [False] * 4 and "the result has no graph" in words(report)


def test_little_memory_for_other_numbers_earns_nothing():
    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        return hidden.sum(dim=1) + weight.sum()

    assert graded(chunked_logprobs).points == 0


def test_what_comes_back_must_be_a_tensor():
    def chunked_logprobs(hidden, weight, token_ids, temperature, chunk_size):
        return [one_chunk(hidden, weight, token_ids, temperature)]

    report = graded(chunked_logprobs)
    assert report.points == 0 and "a tensor is due, and a list came back" in words(report)


def test_numbers_in_memory_are_counted_while_anybody_holds_them():
    known = torch.ones(1000, requires_grad=True)
    with memory_watch((known,)) as watch:
        for _ in range(5):
            torch.zeros(30)
        assert (watch.largest, watch.peak) == (30, 30)
        held = [torch.zeros(40) for _ in range(3)]
        assert (watch.largest, watch.peak) == (40, 120)
        del held
        views = torch.zeros(50).view(5, 10).T  # the same memory
        assert (watch.largest, watch.peak) == (50, 120)
        del views
        torch.zeros(10_000, dtype=torch.uint8)
        assert watch.largest == 50
        squares = [torch.exp(known[:100]).sum() for _ in range(4)]  # their graphs hold exp
        assert watch.peak >= 400
        before = watch.peak
        torch.stack(squares).sum().backward()
        assert watch.peak >= before


# --- prompts ---------------------------------------------------------------------------------------------------------


PROBLEMS = ["What is 37+48?", "  Two lines:\n\n$x^2 = 4$ \n", "A set {1, 2} and 50 %."]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_base_prompt_is_the_library_s(problem):
    assert BY_NAME["render_prompt"].reference(problem, "base") == qwen3.render_prompt(problem, "base")


@pytest.fixture(scope="module")
def tokenizer(request):
    """The tokenizer of the published Qwen3, if tests/qwen3/test_real_tokenizer.py has it already."""
    import os

    cache = getattr(request.config, "cache", None)
    folder = os.environ.get("GRPO_QWEN3_TOKENIZER") or (cache and cache.mkdir("qwen3_tokenizer_3.7.2"))
    if not folder or not (Path(folder) / "tokenizer_config.json").is_file():
        pytest.skip("no tokenizer of Qwen3: set GRPO_QWEN3_TOKENIZER, or run tests/qwen3/test_real_tokenizer.py first")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


@pytest.mark.parametrize("style", ["chat_thinking", "chat_direct"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_chat_styles_are_those_of_the_real_template(tokenizer, problem, style):
    assert BY_NAME["render_prompt"].reference(problem, style) == qwen3.render_prompt(problem, style, tokenizer)


def test_special_tokens_are_refused_as_the_library_does(tokenizer):
    for token in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        assert token in tokenizer.all_special_tokens
        with pytest.raises(ValueError, match="take it out"):
            BY_NAME["render_prompt"].reference(f"1+1?{token}", "base")


def prompt(box, thought="<think>\n\n</think>\n\n", opens="<|im_start|>assistant\n"):
    def render_prompt(problem, style):
        if style not in ("base", "chat_thinking", "chat_direct") or not problem.strip():
            raise ValueError("no")
        if any(token in problem for token in ("<|im_start|>", "<|im_end|>", "<|endoftext|>")):
            raise ValueError("a command")
        problem = problem.strip()
        if style == "base":
            return f"Problem: {problem}\n\n{box}\n\nSolution:"
        turn = f"<|im_start|>user\n{problem}\n\n{box}<|im_end|>\n{opens}"
        return turn + thought if style == "chat_direct" else turn

    return render_prompt


def test_python_s_own_traps_are_named():
    assert graded(prompt(r"Write the final answer as \boxed{...}.")).state == "right"
    report = graded(prompt("Write the final answer as \boxed{...}."))
    assert report.mistake == "backslash swallowed" and states(report) == [False, False, False, True, True]
    report = graded(prompt(f"Write the final answer as \\boxed{...}."))
    assert report.mistake == "Ellipsis in the box" and "Ellipsis" in words(report)


@pytest.mark.parametrize(
    "thought, mistake",
    [
        ("", "empty thought missing"),
        ("<think></think>", "thought without line breaks"),
        ("<think>\n</think>\n\n", "one line break inside the thought"),
        ("<think>\n\n</think>\n", "one line break behind the thought"),
        ("<think>\n\n</think>", "nothing behind the thought"),
    ],
)
def test_each_way_to_miss_the_empty_thought_has_a_name(thought, mistake):
    for seed in SEEDS:
        report = graded(prompt(r"Write the final answer as \boxed{...}.", thought), seed)
        assert report.mistake == mistake and states(report) == [True, True, False, True, True]


@pytest.mark.parametrize(
    "text, mistake",
    [
        ("<|im_start|>user\n{problem}<|im_end|>\n", "request for the box missing in the direct style"),
        (
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\n{problem}\n\n{box}<|im_end|>\n",
            "system turn in the direct style",
        ),
        (
            "<|im_start|>user\n{problem}\n\n{box}\n<|im_end|>\n",
            "line break before the end of the turn in the direct style",
        ),
        ("<|im_start|>user\n{problem} /no_think\n\n{box}<|im_end|>\n", "/no_think in the user's turn"),
    ],
)
def test_the_direct_style_is_compared_to_the_letter(text, mistake):
    right = prompt(r"Write the final answer as \boxed{...}.")

    def render_prompt(problem, style):
        if style != "chat_direct":
            return right(problem, style)
        right(problem, style)
        start = text.replace("{problem}", problem.strip()).replace("{box}", r"Write the final answer as \boxed{...}.")
        return start + "<|im_start|>assistant\n<think>\n\n</think>\n\n"

    for seed in SEEDS:
        report = graded(render_prompt, seed)
        assert states(report) == [True, True, False, True, True] and report.mistake == mistake


@pytest.mark.parametrize("refused", ["<", "<|", "<think>"])
def test_no_more_than_the_special_tokens_is_refused(refused):
    right = prompt(r"Write the final answer as \boxed{...}.")

    def render_prompt(problem, style):
        if refused in problem:
            raise ValueError("not this")
        return right(problem, style)

    report = graded(render_prompt)
    assert states(report) == [True] * 4 + [False] and "it raised ValueError" in words(report)


def test_two_slips_in_two_parts_are_told_apart():
    def render_prompt(problem, style):
        text = prompt(r"Write the final answer as \boxed{...}.", "<think></think>")(problem, style)
        return text.replace("<|im_end|>\n", "<|im_end|>")

    report = graded(render_prompt)
    assert states(report) == [True, False, False, True, True]
    assert report.mistake == "no line break between the turns" == report.parts[1].mistake
    assert report.parts[2].mistake == ""


# --- top-p -----------------------------------------------------------------------------------------------------------


def test_the_reference_is_the_library_s():
    assert BY_NAME["nucleus_logprobs"].reference is grpo.nucleus_logprobs


def test_what_the_text_says_about_the_ratio():
    logits = np.log([0.15, 0.5, 0.05, 0.3])
    old = grpo.nucleus_logprobs(logits, 0.9)
    np.testing.assert_allclose(old, [-1.8458, -0.6419, -np.inf, -1.1527], atol=5e-5)
    ratio = np.exp(grpo.log_softmax(logits) - old)
    np.testing.assert_allclose(ratio, [0.95, 0.95, np.inf, 0.95])
    assert 0.95**4 > 0.8 > 0.95**5 and math.isclose(0.95**200, 3.5e-5, rel_tol=0.01)


def nucleus(**change):
    settings = {"kind": "stable", "before": True, "ends": True, "inside": lambda p: 0 <= p <= 1, "log": True} | change
    settings = {"axis": -1, "dtype": float, "goes_on": False} | settings

    def nucleus_logprobs(logits, top_p, temperature=1.0):
        if not settings["inside"](top_p) or not temperature > 0:
            raise ValueError("out of range")
        z = np.atleast_2d(np.array(logits, dtype=settings["dtype"])) / settings["dtype"](temperature)
        z = z - z.max(axis=settings["axis"], keepdims=True)
        p = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
        z = z if settings["log"] else np.log(p)
        out = np.full(z.shape, -np.inf)
        for row, chances in enumerate(p):
            order = np.argsort(-chances, kind=settings["kind"])
            running = np.cumsum(chances[order])
            keep = running - chances[order] < top_p if settings["before"] else running <= top_p
            keep |= settings["goes_on"] & (running - chances[order] == top_p)
            keep |= settings["ends"] & ((top_p == 1) | (np.arange(len(order)) == 0))
            ids = order[keep]
            out[row, ids] = z[row, ids] - np.log(np.exp(z[row, ids]).sum())
        return out.reshape(np.shape(logits))

    return nucleus_logprobs


@pytest.mark.parametrize(
    "change, mistake, passed",
    [
        ({}, "", [True, True, True, True, True]),
        ({"dtype": np.float32}, "", [True, True, True, True, True]),
        ({"before": False}, "crossing token dropped", [False, True, True, True, True]),
        ({"kind": None}, "equal logits in any order", [True, False, True, True, True]),
        ({"goes_on": True}, "one more where top_p is reached exactly", [True, False, True, True, True]),
        ({"axis": None}, "", [True, False, True, True, True]),
        ({"log": False}, "log of a probability of 0", [True, True, True, False, True]),
        ({"ends": False}, "both ends left to the running sum", [True, True, True, False, True]),
        ({"log": False, "inside": lambda p: True}, "log of a probability of 0", [True, True, True, False, False]),
        ({"inside": lambda p: not (p < 0 or p > 1)}, "", [True, True, True, True, False]),
        ({"inside": lambda p: True}, "top_p not checked", [True, True, True, True, False]),
    ],
)
def test_slips_of_a_filter(change, mistake, passed):
    for seed in SEEDS:
        report = graded(nucleus(**change), seed)
        assert states(report) == passed and report.mistake == mistake


def test_a_batch_is_not_one_distribution():
    def nucleus_logprobs(logits, top_p, temperature=1.0):
        return np.reshape(nucleus()(np.ravel(logits), top_p, temperature), np.shape(logits))

    report = graded(nucleus_logprobs)
    assert states(report) == [True, False, True, True, True]
    assert "a row gets other log-probs in a batch than alone" in words(report)


def test_the_largest_logit_is_that_of_the_row():
    report = graded(nucleus(axis=None))
    assert "row 1 holds no finite number, alone it does" in words(report)


def test_errors_are_seen_whatever_becomes_of_the_ends():
    report = graded(nucleus(log=False, inside=lambda p: True))
    assert [part.mistake for part in report.parts[3:]] == ["log of a probability of 0", "top_p not checked"]


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_the_numpy_run_is_the_torch_run():
    for seed in SEEDS:
        weights = np.array([0.3, -0.7])
        run = micro_run.MicroRun(weights, 0.1, seed)
        losses, numbers = micro_run.numpy_run(weights, 0.1, seed, 5)
        np.testing.assert_allclose(run.train(3), losses[:3], rtol=1e-10)
        np.testing.assert_allclose(run.numbers.numpy(), numbers[2], rtol=1e-10)
        np.testing.assert_allclose(run.train(2), losses[3:], rtol=1e-10)
        assert weights.tolist() == [0.3, -0.7]


@pytest.mark.parametrize("lost", ["model", "optimizer", "generator", "step"])
def test_every_part_of_the_state_matters_to_the_next_losses(lost):
    start = np.array([0.3, -0.7]), 0.1, 5
    live, fresh = micro_run.MicroRun(*start), micro_run.MicroRun(*start)
    live.train(3)
    right = capture_state._captured(live.model, live.optimizer, live.generator, live.step)
    new = capture_state._captured(fresh.model, fresh.optimizer, fresh.generator, fresh.step)
    due = live.train(2)
    keys = capture_state.KEYS
    assert capture_state._going_on(start, right, right, keys)["losses"] == due
    found = capture_state._going_on(start, {**right, lost: new[lost]}, right, keys)["losses"]
    assert not np.allclose(found, due, rtol=1e-3)


def test_state_dict_is_a_window():
    def capture_state(model, optimizer, generator, step):
        return {
            "model": dict(model.state_dict()),
            "optimizer": dict(optimizer.state_dict()),
            "generator": generator.get_state(),
            "step": step,
        }

    for seed in SEEDS:
        report = graded(capture_state, seed)
        assert states(report) == [True, True, True, False] and report.mistake == "references instead of copies"


def test_a_shallow_copy_of_the_optimizer_is_not_deep_enough():
    def capture_state(model, optimizer, generator, step):
        return {
            "model": {name: tensor.clone() for name, tensor in model.state_dict().items()},
            "optimizer": optimizer.state_dict().copy(),
            "generator": generator.get_state(),
            "step": step,
        }

    assert graded(capture_state).mistake == "the optimizer's tensors are shared"


def run_with(**changes):
    """The right dict, changed by functions of (model, optimizer, generator, step)."""

    def capture(model, optimizer, generator, step):
        state = capture_state._captured(model, optimizer, generator, step)
        return {**state, **{key: made(model, optimizer, generator, step) for key, made in changes.items()}}

    return run_check(BY_NAME["capture_state"], capture, 0)


def test_what_cannot_be_used_is_said_in_words():
    report = run_with(model=lambda model, *rest: {n: p.detach().clone() for n, p in model.named_parameters()})
    assert states(report) == [False, True, True, False] and 'Missing key(s) in state_dict: "running_mean"' in words(
        report
    )
    report = run_with(generator=lambda model, optimizer, generator, step: generator)
    assert 'under "generator" stands an object of type Generator' in words(report)
    report = run_with(step=lambda *args: float(args[3]))
    assert 'under "step" a whole number is due, and a plain number stands there' in words(report)


def test_a_capture_that_breaks_the_live_run_is_told_so():
    def capture(model, optimizer, generator, step):
        return {**capture_state._captured(model, optimizer, generator, step), "model": model.half().state_dict()}

    (one,) = BY_NAME["capture_state"].parts[3].calls(np.random.default_rng(0))
    found = BY_NAME["capture_state"].on_plain_data(capture)(*one.args)
    assert found.startswith("after the capture the live run cannot go on: ")


def test_no_dict_no_points():
    def capture_state(model, optimizer, generator, step):
        return model.state_dict(), optimizer.state_dict(), generator.get_state(), step

    report = graded(capture_state)
    assert report.points == 0 and "a dict is due, and a tuple came back" in words(report)


def test_the_global_generator_is_put_back():
    before = torch.get_rng_state()
    run_with()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_adapter_leaves_the_arguments_as_they_are():
    model = Shown("a model", [0.5, 0.5])
    optimizer = Shown("its AdamW", {"learning_rate": 0.1, "from_the_dict": list(capture_state.KEYS)})
    fn = BY_NAME["capture_state"].on_plain_data(capture_state._captured)
    assert fn(model, optimizer, TorchRng(1), 2)["same bytes"] is True
    assert model.data == [0.5, 0.5] and optimizer.data["learning_rate"] == 0.1


def test_a_report_can_be_read_without_knowing_the_check():
    def capture(model, optimizer, generator, step):
        return {**capture_state._captured(model, optimizer, generator, step), "model": model.state_dict()}

    report = words(run_check(BY_NAME["capture_state"], capture, 0))
    assert "model=a module of 2 weights, at first (" in report and "optimizer=its AdamW, learning rate 0" in report
    assert "the run trained on, and its next losses are " in report
    for word in ("from_the_dict", "'live'", "'resumed'", "same bytes':"):
        assert word not in report


@pytest.mark.parametrize(
    "live, resumed, same, sentence",
    [
        ((0.0, 0.0), None, True, "the capture changed the run itself"),
        (None, (0.0, 0.0), True, "a new run that then takes everything"),
        (None, None, False, "do not to the last byte"),
        (None, None, True, None),
    ],
)
def test_two_runs_are_compared_in_words(live, resumed, same, sentence):
    calls = BY_NAME["capture_state"].parts[3].calls(np.random.default_rng(0))
    due = capture_state._reference(*calls[0].args)["live"]
    found = capture_state._same_run([{"live": live or due, "resumed": resumed or due, "same bytes": same}], calls)
    assert found is None if sentence is None else sentence in found[1]


def test_the_mode_of_the_model_is_its_run_s():
    report = run_with(model=lambda model, *rest: dict(model.eval().state_dict()))
    assert states(report)[3] is False and "no longer in training mode" in words(report)


@pytest.mark.parametrize("step, right", [
    (torch.tensor, True),
    (lambda step: torch.tensor([step]), True),
    (lambda step: torch.tensor([step, 0]), False),
    (lambda step: torch.tensor(float(step)), False),
    (float, False),
    (str, False),
])  # fmt: skip
def test_a_step_is_one_whole_number(step, right):
    assert states(run_with(step=lambda model, optimizer, generator, done: step(done)))[2:] == [right, right]
