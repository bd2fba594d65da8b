"""Chapter 07 without tensors: what students write and what a check says of it, references against the library."""

import ast
import inspect
import math
from collections import Counter

import numpy as np
import pytest
from reading import graded, states, words

from grader.exercises import chapter_07
from grader.exercises.chapter_07 import (
    common,
    count_parameters,
    majority_vote,
    memory_budget,
    run_cost,
    wilson_interval,
)
from grader.secrecy import drawn_calls

SEEDS = (0, 7)
OURS = (
    chapter_07.COUNT_PARAMETERS,
    chapter_07.MEMORY_BUDGET,
    chapter_07.MAJORITY_VOTE,
    chapter_07.WILSON_INTERVAL,
    chapter_07.RUN_COST,
)
BY_NAME = {exercise.name: exercise for exercise in OURS}
REAL = (common.QWEN3_0_6B, 596_049_920, 8, 8, 150, 512)  # 64 rollouts


def shape_of(config):
    memory = pytest.importorskip("grpo.qwen3.memory", reason="the library's plan needs torch")
    return memory.ModelShape(*config.values())


# --- the exercises themselves ----------------------------------------------------------------------------------------


def test_the_nine_exercises_stand_in_the_order_of_the_story():
    assert [exercise.name for exercise in chapter_07.EXERCISES] == [
        "count_parameters",
        "memory_budget",
        "chunked_logprobs",
        "render_prompt",
        "nucleus_logprobs",
        "capture_state",
        "majority_vote",
        "wilson_interval",
        "run_cost",
    ]
    assert {exercise.chapter for exercise in chapter_07.EXERCISES} == {common.CHAPTER}


@pytest.mark.parametrize("exercise", OURS, ids=lambda exercise: exercise.name)
def test_nothing_that_a_student_reads_holds_the_answer(exercise):
    texts = [exercise.hint, *(part.hint for part in exercise.parts), *(m.says for m in exercise.mistakes)]
    given_away = (
        "config[",
        "max(",
        "min(",
        ".strip()",
        "Counter(",
        "sqrt(",
        "**",
        "return ",
        "/ 3600",
        "/ 1000",
        "* 2 *",
    )
    for text in texts:
        assert not any(code in text for code in given_away), text
    assert all(part.hint for part in exercise.parts)


@pytest.mark.parametrize("exercise", OURS, ids=lambda exercise: exercise.name)
def test_every_part_has_inputs_that_are_drawn_and_the_first_call_of_all_is_the_same_each_time(exercise):
    assert 4 <= exercise.points <= 6 and len(exercise.mistakes) >= 6 and exercise.alternatives
    rng = np.random.default_rng(0)
    calls_of = [part.calls(rng) for part in exercise.parts]
    drawn = drawn_calls(exercise, [one for calls in calls_of for one in calls])
    assert 0 not in drawn
    start = 0
    for part, calls in zip(exercise.parts, calls_of, strict=True):
        assert drawn & set(range(start, start + len(calls))), part.says
        start += len(calls)


@pytest.mark.parametrize("module", [common, count_parameters, memory_budget, majority_vote, wilson_interval, run_cost])
def test_these_exercises_do_without_torch(module):
    imported = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    assert not [node.module for node in imported if "torch" in node.module or node.module.startswith("grpo")]


# --- the references agree with the library, and the notebook's figures with them -------------------------------------


def test_the_count_is_the_library_s_for_small_and_real_models():
    assert count_parameters.count_parameters(common.SMALL) == 192
    assert count_parameters.count_parameters(common.QWEN3_0_6B) == 596_049_920
    rng = np.random.default_rng(3)
    drawn = [common.draw_config(rng, tie_word_embeddings=tied) for tied in (True, False)]
    for config in (common.QWEN3_0_6B, common.QWEN3_8B, *drawn):
        assert count_parameters.count_parameters(config) == shape_of(config).parameters


@pytest.mark.parametrize("rollout_dtype, size", [("bfloat16", 2), ("float32", 4)])
def test_the_budget_of_qwen3_is_the_library_s_plan_item_by_item(rollout_dtype, size):
    shape = shape_of(common.QWEN3_0_6B)
    from grpo.qwen3 import GRPOSettings, memory_plan

    settings = GRPOSettings(
        prompts_per_step=8, group_size=8, max_new_tokens=512, rollout_dtype=rollout_dtype, chunk_size=64
    )
    plan = memory_plan(shape, settings, 150, device="cuda")
    mine = memory_budget.memory_budget(*REAL, 64, rollout_bytes=size)
    same = {"weights": "weights", "gradients": "gradients", "optimizer": "AdamW's two averages", "logits": "logits"}
    for key, item in same.items():
        assert mine[key] == plan[item].training, key
    for key, item in {"weights": "weights", "optimizer": "AdamW's two averages", "kv_cache": "KV cache"}.items():
        assert mine[key] == plan[item].sampling, key
    # The plan leaves out the norms, which stay as they are in the copy.
    assert mine["sampling_copy"] == pytest.approx(plan["weights for sampling"].sampling, rel=2e-4)
    assert plan["gradients"].sampling == plan["KV cache"].training == plan["weights for sampling"].training == 0


def test_the_figures_of_the_notebook():
    small = memory_budget.memory_budget(common.SMALL, 192, 1, 2, 3, 5, 4)
    assert small == {
        "weights": 768,
        "gradients": 768,
        "optimizer": 1536,
        "sampling_copy": 384,
        "kv_cache": 208,
        "logits": 320,
        "sampling": 2896,
        "training": 3392,
        "peak_gb": 3.392e-06,
    }
    real = memory_budget.memory_budget(*REAL, 64)
    assert (real["kv_cache"], real["logits"]) == (114_688 * (8 * 150 + 64 * 512), 77_791_232)
    assert (round(real["sampling"] / 1e9, 2), round(real["training"] / 1e9, 2)) == (12.24, 9.61)
    assert round(real["sampling_copy"] / 1e9, 2) == 1.19
    assert round(memory_budget.memory_budget(*REAL, 64 * 512)["logits"] / 1e9, 1) == 39.8
    hours = run_cost.run_cost(3600, [2, 4], 10, 500, 10, 16, gpus=2, price=1.5)
    assert hours == {"sample_s": 3.0, "train_s": 1.0, "gpu_hours": 8.0, "cost": 12.0}
    for successes, trials, ends in ((8, 10, (0.4902, 0.9433)), (76, 500, (0.1232, 0.1861)), (0, 10, (0.0, 0.2775))):
        np.testing.assert_allclose(wilson_interval.wilson_interval(successes, trials), ends, atol=5e-5)


def test_the_interval_is_the_library_s():
    library = pytest.importorskip("grpo.qwen3", reason="the library's interval needs torch")
    for successes, trials, z in ((0, 7, 1.96), (7, 7, 1.0), (3.25, 9, 2.576), (120, 500, 1.96)):
        mine = wilson_interval.wilson_interval(successes, trials, z)
        np.testing.assert_allclose(mine, library.wilson_interval(successes, trials, z), atol=1e-12)
    for successes, trials in ((1, 0), (3, 2), (-1, 4)):
        for interval in (wilson_interval.wilson_interval, library.wilson_interval):
            with pytest.raises(ValueError, match="trials"):
                interval(successes, trials)


def test_the_vote_is_the_library_s():
    voting = pytest.importorskip("grpo.qwen3.voting", reason="the library's vote needs torch")
    rng = np.random.default_rng(1)
    texts = ["7", " 7", "12", "12 ", "(1, 2)", "(1,2)", "", "  ", None]
    for size in (0, 1, 2, 5, 9, 9, 9, 9):
        for _ in range(20):
            answers = [texts[i] for i in rng.integers(0, len(texts), size)]
            assert majority_vote.majority_vote(answers) == voting.majority_vote(answers), answers


# --- what students write ---------------------------------------------------------------------------------------------


def test_a_norm_that_is_missing_in_596_million_parameters_is_noticed():
    def count_parameters(config):
        return BY_NAME["count_parameters"].reference(config) - config["hidden_size"]

    for seed in SEEDS:
        report = graded(count_parameters, seed)
        assert states(report) == [False, True, True, False] and report.mistake == "last norm forgotten"


def test_the_mlp_wrong_keeps_the_points_for_heads_and_for_the_tied_matrix():
    def count_parameters(config):
        wrong = config["num_hidden_layers"] * config["hidden_size"] * config["intermediate_size"]
        return BY_NAME["count_parameters"].reference(config) + wrong

    report = graded(count_parameters)
    assert states(report) == [False, True, True, False] and report.points == 2


def test_norms_of_queries_and_keys_as_wide_as_the_model_are_not_taken_for_a_norm_per_head():
    def count_parameters(config):
        hidden, dim = config["hidden_size"], config["head_dim"]
        right = BY_NAME["count_parameters"].reference(config)
        return right + config["num_hidden_layers"] * 2 * (hidden - dim)

    for seed in SEEDS:
        report = graded(count_parameters, seed)
        assert report.mistake == "norms of hidden_size for queries and keys" and "Each head" not in words(report)


def test_a_head_that_is_divided_into_fractions_is_named():
    def count_parameters(config):
        dim = config["hidden_size"] / config["num_attention_heads"]
        return BY_NAME["count_parameters"].reference({**config, "head_dim": dim})

    for seed in SEEDS:
        report = graded(count_parameters, seed)
        assert states(report)[:2] == [True, False] and report.mistake == "head_dim with a fraction"


def memory_budget_with(**items):
    def memory_budget(*args, **kwargs):
        found = BY_NAME["memory_budget"].reference(*args, **kwargs)
        return {**found, **{name: change(found) for name, change in items.items()}}

    return memory_budget


def test_sums_and_peak_are_judged_by_the_student_s_own_items():
    def memory_budget(*args, **kwargs):
        found = BY_NAME["memory_budget"].reference(*args, **kwargs)
        found["optimizer"] //= 2
        found["kv_cache"] //= 2
        found["sampling"] = sum(found[key] for key in ("weights", "optimizer", "sampling_copy", "kv_cache"))
        found["training"] = sum(found[key] for key in ("weights", "optimizer", "gradients", "logits"))
        return {**found, "peak_gb": max(found["sampling"], found["training"]) / 1e9}

    for seed in SEEDS:
        report = graded(memory_budget, seed)
        # Two slips at once are neither of the known mistakes; the first is still asked about by its name.
        assert states(report) == [False, False, True, True, True, True]
        assert report.mistake == "" and "(one average of AdamW?)" in words(report)


def test_a_cache_that_is_wrong_by_a_factor_still_shows_that_groups_share_their_prompt():
    half = memory_budget_with(kv_cache=lambda found: found["kv_cache"] / 2)
    assert states(graded(half)) == [True, False, True, True, False, True]


def test_a_sum_names_the_items_that_were_added():
    report = graded(memory_budget_with(sampling=lambda found: found["weights"] + found["kv_cache"]))
    assert states(report)[4] is False and "(weights + kv_cache?)" in words(report)


def test_an_entry_that_is_missing_is_said_and_costs_its_own_part_only():
    def memory_budget(*args, **kwargs):
        found = BY_NAME["memory_budget"].reference(*args, **kwargs)
        del found["peak_gb"]
        return found

    report = graded(memory_budget)
    assert states(report) == [True] * 5 + [False] and "there is no entry 'peak_gb'" in words(report)


def test_logits_in_the_precision_of_rollouts_are_not_said_to_lack_their_gradient():
    def memory_budget(
        config, parameters, prompts, group_size, prompt_tokens, new_tokens, chunk_tokens, rollout_bytes=2
    ):
        args = (config, parameters, prompts, group_size, prompt_tokens, new_tokens, chunk_tokens, rollout_bytes)
        found = BY_NAME["memory_budget"].reference(*args)
        wrong = found["logits"] * rollout_bytes // 4
        training = found["training"] - found["logits"] + wrong
        peak = max(found["sampling"], training) / 1e9
        return {**found, "logits": wrong, "training": training, "peak_gb": peak}

    for seed in SEEDS:
        report = graded(memory_budget, seed)
        assert states(report) == [True, True, True, False, True, True]
        assert report.mistake == "logits in the rollouts' precision" and "without" not in words(report)


def test_a_budget_of_zeros_earns_nothing():
    names = ("weights", "gradients", "optimizer", "sampling_copy", "kv_cache", "logits", "sampling", "training")

    def memory_budget(*args, **kwargs):
        return dict.fromkeys((*names, "peak_gb"), 0)

    def run_cost(*args, **kwargs):
        return dict.fromkeys(("sample_s", "train_s", "gpu_hours", "cost"), 0)

    assert graded(memory_budget).points == graded(run_cost).points == 0


def test_the_one_liner_with_a_counter_is_known():
    def majority_vote(answers):
        return Counter(answers).most_common(1)[0][0]

    for seed in SEEDS:
        report = graded(majority_vote, seed)
        assert states(report) == [True, False, True, False] and report.mistake == "all votes as they are"


@pytest.mark.parametrize("order", [None, hash, lambda answer: answer[::-1]], ids=["set", "hash", "backwards"])
def test_a_vote_through_a_set_loses_the_ties_only_and_the_set_is_named(order):
    def majority_vote(answers):
        votes = [answer.strip() for answer in answers if answer and answer.strip()]
        texts = set(votes) if order is None else sorted(set(votes), key=order)
        return max(texts, key=votes.count) if votes else None

    report = graded(majority_vote)
    assert states(report) == [True, True, False, True]
    assert report.mistake.startswith("tie: ")


def test_capitals_make_two_answers():
    def majority_vote(answers):
        return BY_NAME["majority_vote"].reference([answer and answer.lower() for answer in answers])

    for seed in SEEDS:
        report = graded(majority_vote, seed)
        assert states(report) == [False, True, True, True] and report.mistake == "lower case"


@pytest.mark.parametrize("middle", [True, False])
@pytest.mark.parametrize("root", [True, False])
def test_a_fraction_line_written_without_brackets_is_named(middle, root):
    def wilson_interval(successes, trials, z=1.96):
        if trials < 1 or not 0 <= successes <= trials:
            raise ValueError("no such share")
        p, n = successes / trials, trials
        centre = p + (z * z / 2 * n if middle else z * z / (2 * n))
        inside = p * (1 - p) / n + (z * z / 4 * n * n if root else z * z / (4 * n * n))
        scale = 1 + z * z / n
        return (centre - z * math.sqrt(inside)) / scale, (centre + z * math.sqrt(inside)) / scale

    names = {
        (True, True): "times n in both",
        (True, False): "times n in the middle",
        (False, True): "times n squared under the root",
        (False, False): "",
    }
    for seed in SEEDS:
        report = graded(wilson_interval, seed)
        assert report.mistake == names[middle, root]
        assert report.points == 4 if not middle and not root else report.points < 3


def test_the_interval_without_checks_keeps_three_points():
    def wilson_interval(successes, trials, z=1.96):
        p, n = successes / trials, trials
        centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)

    for seed in SEEDS:
        report = graded(wilson_interval, seed)
        assert states(report) == [True, True, True, False] and report.mistake == "nothing refused"


def test_an_interval_that_is_too_wide_still_gets_the_point_for_sensible_ends():
    def wilson_interval(successes, trials, z=1.96):
        return BY_NAME["wilson_interval"].reference(successes, trials, 1.1 * z)

    assert states(graded(wilson_interval)) == [False, True, False, True]


def test_hours_and_price_are_judged_by_the_student_s_own_figures():
    def run_cost(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=0.0):
        sample_s = sum(lengths) / len(lengths) * decode_ms / 1000 + prompt_tokens / prefill_rate
        train_s = sum(lengths) / train_rate
        gpu_hours = gpus * steps * (sample_s + train_s) / 3600
        return {"sample_s": sample_s, "train_s": train_s, "gpu_hours": gpu_hours, "cost": gpu_hours * price}

    for seed in SEEDS:
        report = graded(run_cost, seed)
        assert states(report) == [False, False, True, True] and "(mean length?)" in words(report)


def test_two_slips_in_hours_and_price_are_asked_about_by_name():
    def run_cost(*args, **kwargs):
        found = BY_NAME["run_cost"].reference(*args, **kwargs)
        found["train_s"] *= 1.5
        found["gpu_hours"] = kwargs.get("gpus", 1) * args[0] * max(found["sample_s"], found["train_s"]) / 3600
        found["cost"] = found["gpu_hours"] * kwargs.get("price", 0.0) / args[0]
        return found

    report = graded(run_cost, 3)
    assert states(report) == [True, False, False, False]
    others = run_cost_sentences(run_cost)
    assert "(training beside sampling?)" in others[0] and "(paid per step?)" in others[1]


def test_seconds_of_the_whole_run_cost_their_own_points_and_not_those_of_the_right_hours():
    def run_cost(*args, **kwargs):
        found = BY_NAME["run_cost"].reference(*args, **kwargs)
        return {**found, "sample_s": args[0] * found["sample_s"], "train_s": args[0] * found["train_s"]}

    for seed in SEEDS:
        report = graded(run_cost, seed)
        assert states(report) == [False, False, True, True] and report.mistake == "seconds of the whole run"


def test_rates_multiplied_by_the_gpus_are_named():
    def run_cost(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=0.0):
        args = (steps, lengths, prompt_tokens, decode_ms, gpus * prefill_rate, train_rate)
        return BY_NAME["run_cost"].reference(*args, gpus=gpus, price=price)

    for seed in SEEDS:
        report = graded(run_cost, seed)
        assert states(report) == [False, True, True, True] and report.mistake == "reading divided among the GPUs"


def test_a_run_without_a_price_costs_nothing():
    def run_cost(steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate, gpus=1, price=1.0):
        args = (steps, lengths, prompt_tokens, decode_ms, prefill_rate, train_rate)
        return BY_NAME["run_cost"].reference(*args, gpus=gpus, price=price)

    for seed in SEEDS:
        report = graded(run_cost, seed)
        assert states(report) == [True, True, True, False] and report.mistake == "a price where none is given"


def run_cost_sentences(function, seed=3):
    """What the parts on hours and on price say of a function, also where a report would leave it for later."""
    rng, said = np.random.default_rng(seed), []
    for part in BY_NAME["run_cost"].parts:
        calls = part.calls(rng)
        verdict = part.holds([function(*one.args, **one.kwargs) for one in calls], calls)
        said.append(verdict[1] if verdict else "")
    return said[2:]
