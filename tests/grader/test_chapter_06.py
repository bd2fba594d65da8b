"""Chapter 06: what students write and what a check says of it, references against the library, recorded claims."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from reading import graded, states, words

torch = pytest.importorskip("torch", reason="chapter 06 is about torch")

from grader.checking import run_check  # noqa: E402
from grader.exercises import EXERCISES, chapter_06  # noqa: E402
from grader.exercises.chapter_06 import common, left_pad, logprobs_from_logits, sample_completions, train_step  # noqa: E402
from grader.plain import TinyLanguageModel, TorchRng  # noqa: E402
from grpo import qwen3, token_loss  # noqa: E402

SEEDS = (0, 7)
STUDIES = Path(__file__).parents[2] / "data" / "studies"
BY_NAME = {exercise.name: exercise for exercise in chapter_06.EXERCISES}


# --- the exercises themselves ----------------------------------------------------------------------------------------


def test_the_nine_exercises_stand_in_the_order_of_the_story():
    assert list(BY_NAME) == [
        "completion_mask",
        "left_pad",
        "logprobs_from_logits",
        "log_ratios",
        "token_grpo_loss",
        "backward_in_micro_batches",
        "sample_completions",
        "boxed_reward",
        "train_step",
    ]
    assert {exercise.chapter for exercise in chapter_06.EXERCISES} == {common.CHAPTER}
    assert all(EXERCISES[name] is exercise for name, exercise in BY_NAME.items())


@pytest.mark.parametrize("exercise", chapter_06.EXERCISES, ids=lambda exercise: exercise.name)
def test_nothing_that_a_student_reads_holds_the_answer(exercise):
    texts = [exercise.hint, *(part.hint for part in exercise.parts), *(m.says for m in exercise.mistakes)]
    given_away = (
        "cumsum(dim=1) -",
        "[:, prompt_width",
        "[:, None]",
        "torch.minimum(",
        "torch.exp(",
        "mask.sum(dim=1",
        "clip_grad_norm_(",
        "return ",
        ".gather(",
    )
    for text in texts:
        assert not any(code in text for code in given_away), text


@pytest.mark.parametrize("exercise", chapter_06.EXERCISES, ids=lambda exercise: exercise.name)
def test_the_parts_are_worth_three_to_six_points(exercise):
    assert 3 <= exercise.points <= 6 and len(exercise.mistakes) >= 6 and exercise.alternatives


# --- the references agree with the library ---------------------------------------------------------------------------


def first_calls(name, seed=3):
    rng = np.random.default_rng(seed)
    return [one for part in BY_NAME[name].parts for one in part.calls(rng)]


def test_masks_and_padding_are_the_library_s():
    for one in first_calls("completion_mask"):
        ids, stops = one.args
        lengths = qwen3.completion_lengths(torch.tensor(ids), stops)
        mask = qwen3.length_mask(lengths, ids.shape[1]).numpy()
        np.testing.assert_array_equal(BY_NAME["completion_mask"].reference(ids, stops), mask)
    for one in first_calls("left_pad"):
        ids, mask = qwen3.left_pad(*one.args)
        due = left_pad._left_pad(*one.args)
        np.testing.assert_array_equal(due["ids"], ids)
        np.testing.assert_array_equal(due["mask"], mask)
        np.testing.assert_array_equal(due["position_ids"], qwen3.position_ids(mask))


def test_log_probs_of_a_model_are_the_library_s():
    """The reference, on the logits of the tiny Qwen3, gives what `completion_logprobs` gives, captured and scored."""
    model, tokenizer = qwen3.tiny_model(0), qwen3.tiny_tokenizer()
    prompts = qwen3.encode_prompts(tokenizer, [one.prompt for one in qwen3.make_problems("test")[::400]])
    rollouts = qwen3.sample(model, prompts, 2, max_new_tokens=5, temperature=0.8, stop_ids={3}, pad_id=0,
                            generator=torch.Generator().manual_seed(0))  # fmt: skip
    whole = torch.cat([rollouts.prompt_ids, rollouts.completion_ids], dim=1)
    mask = torch.cat([rollouts.prompt_mask, rollouts.mask], dim=1)
    with torch.no_grad():
        logits = model(whole, attention_mask=mask.long(), position_ids=qwen3.position_ids(mask)).logits
    args = logits.numpy(), whole.numpy(), rollouts.prompt_ids.shape[1], 0.8
    value = logprobs_from_logits._logprobs_from_logits(*args)["value"]
    np.testing.assert_allclose(np.where(rollouts.mask, value, 0.0), rollouts.logprobs, atol=1e-4)


@pytest.mark.parametrize("name", ["log_ratios", "token_grpo_loss", "logprobs_from_logits"])
def test_hand_written_gradients_are_those_of_autograd(name):
    """The alternatives are torch; value and gradient of the numpy reference must be theirs, on every call."""
    exercise = BY_NAME[name]
    right = exercise.on_plain_data(exercise.alternatives[0].code)
    for one in first_calls(name):
        if name == "log_ratios" and one.args[3] not in token_loss.LEVELS:
            continue
        due, found = exercise.reference(*one.args, **one.kwargs), right(*one.args, **one.kwargs)
        gradient = found["gradient"].numpy().astype(float)
        np.testing.assert_allclose(gradient, due["gradient"], rtol=1e-3, atol=1e-3 if one.note else 1e-8)


def test_the_loss_of_the_exercise_is_the_library_s_default():
    rng = np.random.default_rng(0)
    mask = common.mask_of([3, 1, 2], 3)
    new, old, ref = rng.normal(-1, 0.4, (3, 3, 3))
    fixed = [torch.tensor(array) for array in (new, old, rng.normal(size=3), mask)]
    ours = qwen3.token_grpo_loss(*fixed, ref_logps=torch.tensor(ref), kl_coef=0.1)
    exercise = BY_NAME["token_grpo_loss"]
    value = exercise.reference(*(one.numpy() for one in fixed), ref, 0.2, 0.1)["value"]
    assert value == pytest.approx(ours.item(), abs=1e-12)


def test_boxed_reward_is_the_library_s():
    for one in first_calls("boxed_reward"):
        completion, truth, finished = one.args
        if truth.strip():
            assert BY_NAME["boxed_reward"].reference(*one.args) == qwen3.boxed_reward(completion, truth, finished)


def test_a_reference_step_is_that_of_torch():
    exercise = BY_NAME["train_step"]
    for one in first_calls("train_step"):
        due, found = (
            exercise.reference(*one.args, **one.kwargs),
            exercise.on_plain_data(exercise.alternatives[0].code)(*one.args, **one.kwargs),
        )
        np.testing.assert_allclose(found["weights"].detach().numpy(), due["weights"], rtol=1e-6, atol=1e-9)


# --- cases from real life, as students write them --------------------------------------------------------------------


def test_c3_and_e4_padding_is_no_matter_of_value():
    def completion_mask(completion_ids, stop_ids):
        return completion_ids != max(stop_ids)

    report = graded(completion_mask)
    assert report.points == 0 and "[[5, 9, 1, 1, 1]]" in str(report)
    assert "expected True True True False False yours True True False False False" in words(report)

    def first_stop_only(completion_ids, stop_ids):
        ends = (completion_ids == next(iter(stop_ids))).long()
        return ends.cumsum(dim=1) - ends == 0

    first_stop_only.__name__ = "completion_mask"
    for seed in SEEDS:
        report = graded(first_stop_only, seed)
        assert report.points == 3 and report.mistake == "one stop id only"


def test_c5_positions_that_count_the_columns_are_named():
    def left_pad(prompts, pad_id):
        width = max(map(len, prompts))
        ids = torch.tensor([[pad_id] * (width - len(prompt)) + prompt for prompt in prompts])
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        mask = torch.arange(width) >= width - lengths[:, None]
        return ids, mask, torch.arange(width).expand(len(prompts), width)

    report = graded(left_pad)
    assert states(report) == [True, True, False] and report.mistake == "positions count the columns"


def test_c1_the_fake_model_of_chapter_02():
    """-.2107 for the completion; the token's own place would give -5.9915."""
    args = logprobs_from_logits._next_is_likely()
    due = logprobs_from_logits._logprobs_from_logits(*args)["value"]
    assert due.sum() == pytest.approx(2 * math.log(0.9), abs=1e-5)

    def logprobs_from_logits_(logits, token_ids, prompt_width, temperature=1.0):
        table = torch.log_softmax(logits[:, prompt_width:].float() / temperature, dim=-1)
        return table.gather(-1, token_ids[:, prompt_width:, None]).squeeze(-1)

    report = run_check(BY_NAME["logprobs_from_logits"], logprobs_from_logits_, 0)
    assert report.mistake == "own position"


def test_c7_temperature_left_out_keeps_the_points_of_the_shift():
    def logprobs_from_logits(logits, token_ids, prompt_width, temperature=1.0):
        rows = logits[:, prompt_width - 1 : -1]
        table = torch.log_softmax(rows if rows.dtype == torch.float64 else rows.float(), dim=-1)
        return table.gather(-1, token_ids[:, prompt_width:, None]).squeeze(-1)

    report = graded(logprobs_from_logits)
    assert states(report) == [True, False, True, False] and report.mistake == "temperature left out"
    assert "-0.127" in str(report) and "-0.313" in str(report)


def loss_of(ratio_of, hold=lambda tensor: tensor.detach()):
    """The loss with a ratio, and a way to hold the constants, as given."""

    def token_grpo_loss(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
        old, a, ref = hold(old_logps), hold(advantages)[:, None], hold(ref_logps)
        ratio = ratio_of(new_logps, old, mask)
        gain = torch.minimum(ratio * a, ratio.clamp(1 - clip_eps, 1 + clip_eps) * a)
        delta = torch.where(mask, ref - new_logps, 0.0)
        losses = torch.where(mask, kl_coef * (torch.exp(delta) - delta - 1) - gain, 0.0)
        return (losses.sum(dim=1) / mask.sum(dim=1)).mean()

    return token_grpo_loss


def where_first(new, old, mask):
    return torch.exp(torch.where(mask, new - old, 0.0))


def where_last(new, old, mask):
    return torch.exp(new - old)


def test_d1_the_first_step_has_loss_0_and_a_gradient():
    exercise = BY_NAME["token_grpo_loss"]
    one = first_calls("token_grpo_loss")[0]
    due = exercise.reference(*one.args, **one.kwargs)
    assert abs(due["value"]) < 1e-12
    np.testing.assert_allclose(due["gradient"].ravel(), [-0.35355, 0.35355], atol=1e-5)
    assert graded(loss_of(where_first)).points == exercise.points


def test_d2_old_not_detached_is_right_in_value_and_named():
    report = graded(loss_of(where_first, hold=lambda tensor: tensor))
    assert states(report) == [False, True, True, True, True, False] and report.mistake == "nothing detached"


def test_c6_a_gradient_that_is_nan_behind_a_loss_that_is_not():
    report = graded(loss_of(where_last))
    assert states(report) == [True, True, True, True, False, True]
    assert "the gradient is NaN" in str(report)


def test_d5_the_three_levels_of_one_pair():
    new, old, mask = np.array([[-1.0, -0.5]]), np.array([[-1.3, -0.4]]), np.ones((1, 2), dtype=bool)
    for level, due in (("token", [0.3, -0.1]), ("rollout", [0.2, 0.2]), ("gspo", [0.1, 0.1])):
        np.testing.assert_allclose(BY_NAME["log_ratios"].reference(new, old, mask, level)["value"], [due])


def test_d8_means_of_means():
    exercise = BY_NAME["backward_in_micro_batches"]
    losses, mask = np.array([[1.0, 1.0, 9.0, 9.0], [4.0] * 4]), common.mask_of([2, 4], 4)
    assert exercise.reference(losses, mask, 1, "rollout_mean")["value"] == 2.5
    assert exercise.reference(losses, mask, 1, "token_mean")["value"] == 3.0

    def backward_in_micro_batches(token_losses_of, mask, size, aggregate):
        shares = []
        for rows in torch.arange(len(mask)).split(size):
            losses, here = token_losses_of(rows), mask[rows]
            if aggregate == "token_mean":
                loss = losses[here].mean() * len(rows) / len(mask)
            else:
                loss = sum(row[keep].mean() for row, keep in zip(losses, here, strict=True)) / len(mask)
            loss.backward()
            shares.append(loss.item())
        return sum(shares)

    report = graded(backward_in_micro_batches)
    assert states(report) == [True, False, False, True, True]


def test_a_graph_is_alive_until_its_backward_pass():
    """Called for one row at a time but sent back together: the memory of the whole batch."""

    def backward_in_micro_batches(token_losses_of, mask, size, aggregate):
        weights = torch.tensor(token_loss.token_weights(mask.numpy(), aggregate))
        parts = [(weights[row] * token_losses_of([row])[0])[mask[row]].sum() for row in range(len(mask))]
        sum(parts).backward()
        return sum(parts).item()

    report = graded(backward_in_micro_batches)
    assert states(report)[:3] == [True, True, True] and not states(report)[4]
    assert "were in memory at one time" in str(report)


def micro_batches(look):
    """The right loop; `look` is called with the function first and returns what is added to the loss."""

    def backward_in_micro_batches(token_losses_of, mask, size, aggregate):
        weights = torch.tensor(token_loss.token_weights(mask.numpy(), aggregate))
        total = look(token_losses_of)
        for rows in torch.arange(len(mask)).split(size):
            loss = torch.where(mask[rows], token_losses_of(rows), 0.0).mul(weights[rows]).sum()
            loss.backward()
            total = total + loss.item()
        return total

    return backward_in_micro_batches


def look_without_a_graph(token_losses_of):
    with torch.no_grad():
        return 0.0 * token_losses_of([0])[0, 0].item()


def look_and_drop(token_losses_of):
    return 0.0 * token_losses_of([0]).detach()[0, 0].item()


@pytest.mark.parametrize("look", [look_without_a_graph, look_and_drop, lambda f: 0.0])
def test_a_pass_whose_graph_is_dropped_takes_no_memory(look):
    report = graded(micro_batches(look))
    assert report.state == "right", str(report)


def test_a_graph_that_is_told_to_stay_does():
    def backward_in_micro_batches(token_losses_of, mask, size, aggregate):
        weights, keep, total = torch.tensor(token_loss.token_weights(mask.numpy(), aggregate)), [], 0.0
        for rows in torch.arange(len(mask)).split(size):
            keep.append(torch.where(mask[rows], token_losses_of(rows), 0.0).mul(weights[rows]).sum())
            keep[-1].backward(retain_graph=True)
            total = total + keep[-1]
        return total

    report = graded(backward_in_micro_batches)
    assert states(report) == [True, True, False, True, False] and report.mistake == "graphs kept"
    assert "still hangs on its graph" in words(report)


def test_two_boxes_behind_the_thinking():
    def boxed_reward(completion, truth, finished):
        import grpo

        if not truth.strip():
            raise ValueError("no truth")
        boxes = [part.partition("}")[0].strip() for part in grpo.strip_reasoning(completion).split(r"\boxed{")[1:]]
        return float(finished and truth in boxes)

    report = graded(boxed_reward)
    assert states(report) == [False, True, True, True] and report.mistake == "any box"


def test_a_filling_inside_the_prompts_themselves_is_noted():
    def left_pad(prompts, pad_id):
        lengths, width = [len(prompt) for prompt in prompts], max(map(len, prompts))
        for prompt in prompts:
            while len(prompt) < width:
                prompt.insert(0, pad_id)
        mask = torch.arange(width) >= width - torch.tensor(lengths)[:, None]
        return torch.tensor(prompts), mask, (mask.long().cumsum(dim=1) - 1).clamp(min=0)

    report = graded(left_pad)
    assert "changes its argument `prompts` in place" in words(report)


def test_a12_a_guess_in_an_open_thought():
    def boxed_reward(completion, truth, finished):
        import grpo

        return grpo.reward_rlvr(completion.split("</think>")[-1], truth) * finished

    report = graded(boxed_reward)
    assert states(report) == [True, False, True, True] and report.mistake == "open thought left in"


# --- sampling --------------------------------------------------------------------------------------------------------


def test_the_tiny_model_counts_what_it_has_read():
    """`step` with a cache and the numpy recomputation of the checks are one model."""
    rng = np.random.default_rng(0)
    model = sample_completions._model(rng)
    seen = []

    def look(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
        logits, cache = step(prompt_ids, None)
        seen.append(logits.numpy())
        seen.append(step(torch.tensor([[1], [2]]), cache)[0].numpy())
        seen.append(step(torch.tensor([[1], [2]]), None)[0].numpy())
        return torch.zeros(2, 1, dtype=torch.long), torch.zeros(2, 1)

    fn = BY_NAME["sample_completions"].on_plain_data(look)
    found = fn(model, np.array([[0, 1], [2, 2]]), 1, 1.0, {5}, 5, TorchRng(0))
    assert found["read"] == [2, 1, 1]
    np.testing.assert_allclose(seen[0], model.logits(np.array([1, 2]), 2), atol=1e-6)
    np.testing.assert_allclose(seen[1], model.logits(np.array([1, 2]), 3), atol=1e-6)
    np.testing.assert_allclose(seen[2], model.logits(np.array([1, 2]), 1), atol=1e-6)


def test_a_sampler_that_feeds_flat_ids_is_told_so():
    def sample_completions(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
        logits, cache = step(prompt_ids, None)
        return step(logits.argmax(dim=1), cache)

    report = graded(sample_completions)
    assert report.points == 0 and "step reads token ids of shape (N, K), and got a tensor of int64" in words(report)


def test_a_model_as_data_shows_itself_briefly():
    assert repr(TinyLanguageModel(((0.0, 1.0),) * 2, ((0.0, 0.0),))) == "a tiny model with 2 tokens"


# --- the step --------------------------------------------------------------------------------------------------------


def step_of(order):
    def train_step(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
        table = torch.log_softmax(policy(batch["states"]), dim=-1)
        new = table.gather(-1, batch["tokens"][..., None])[..., 0]
        fixed = batch["old_logps"], batch["advantages"], batch["mask"]
        loss = qwen3.token_grpo_loss(
            new, *fixed, ref_logps=batch["ref_logps"], clip_low=clip_eps, clip_high=clip_eps, kl_coef=kl_coef
        )
        norm = torch.zeros(())
        for what in order:
            if what == "clip":
                norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), max_norm)
            else:
                {"zero": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}[what]()
        return {"loss": loss.item(), "grad_norm": norm.item()}

    return train_step


def test_the_step_with_the_library_s_loss_earns_everything():
    assert graded(step_of(["zero", "backward", "clip", "step"])).state == "right"


@pytest.mark.parametrize(
    "order, mistake",
    [
        (["backward", "clip", "step"], "no zero_grad"),
        (["zero", "backward", "clip"], "no step"),
        (["step", "zero", "backward", "clip"], "step before the backward pass"),
    ],
)
def test_the_order_of_the_five_lines_matters(order, mistake):
    for seed in SEEDS:
        report = graded(step_of(order), seed)
        assert report.points < report.max_points and report.mistake == mistake


def test_e1_the_second_update_on_one_batch_is_clipped():
    """Case E1: two answers, SGD 1, eps .2; after two updates theta is what it is after one."""
    table, batch = train_step._two_coins()
    once = train_step._train_step(table, train_step._optimizer(1.0, 1), batch, max_norm=9.0)["weights"]
    twice = train_step._train_step(table, train_step._optimizer(1.0, 2), batch, max_norm=9.0)["weights"]
    np.testing.assert_allclose(once[0, :2], [0.35355, -0.35355], atol=1e-4)
    np.testing.assert_allclose(twice, once, atol=1e-9)


def test_a_key_that_is_missing_is_named():
    def train_step(*args, **kwargs):
        found = step_of(["zero", "backward", "clip", "step"])(*args, **kwargs)
        return {"loss": found["loss"], "norm": found["grad_norm"]}

    report = graded(train_step)
    assert states(report) == [True, True, True, True, False] and 'has no key "grad_norm"' in words(report)


def test_an_attached_loss_is_noticed():
    def attached(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
        report = step_of(["zero", "backward", "clip", "step"])(policy, optimizer, batch, max_norm, clip_eps, kl_coef)
        return {"loss": policy.logits.sum(), "grad_norm": report["grad_norm"]}

    report = run_check(BY_NAME["train_step"], attached, 0)
    assert states(report) == [True, True, True, True, False] and "still hangs on its graph" in words(report)


# --- what the chapter says of the recorded studies -------------------------------------------------------------------


def study(name):
    return json.loads((STUDIES / f"{name}.json").read_text(encoding="utf-8"))


def pairs(recorded, arm):
    return np.array(recorded["arms"][arm]["test_greedy"])


def test_recipe_a_learns_and_random_rewards_destroy():
    recorded = study("qwen3_recipe_a")
    learned, control = pairs(recorded, "recipe a"), pairs(recorded, "random rewards")
    assert len(learned) == len(control) == 5
    assert (learned[:, 1] > learned[:, 0] + 0.15).all() and (control[:, 1] < 0.15).all()
    np.testing.assert_allclose(learned[:, 0], control[:, 0])  # the same five starts
    assert max(np.ptp(row) for row in recorded["arms"]["recipe a"]["length"]) < 1.5


def test_recipe_b_switches_something_on_that_was_there():
    recorded = study("qwen3_recipe_b")
    for score in ("test_greedy", "test_sampled"):
        before, after = np.array(recorded["arms"]["recipe b"][score]).T
        assert len(after) == 5 and (np.array(recorded["forced_think"][score]) > after).all()
    assert min(recorded["forced_think"]["test_greedy"]) > 0.975
    before, after = pairs(recorded, "recipe b").T
    short, long = np.transpose(recorded["arms"]["recipe b"]["test_length"])
    switched = long > 22
    assert (short < 6).all() and switched.sum() == 4 and (long[~switched] < 6).all()
    assert (after[switched] > before[switched] + 0.3).all()
    assert before[~switched] == before.max() and (after[~switched] < before[~switched] - 0.1).all()
