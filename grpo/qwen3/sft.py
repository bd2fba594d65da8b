"""Supervised fine-tuning on demonstrations: the cold start, before there is anything for GRPO to reward."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from grpo.qwen3.evaluate import evaluate
from grpo.qwen3.model import stop_ids
from grpo.qwen3.prompts import encode_prompt
from grpo.qwen3.tokenizer import encode_text

WARM_UP = 20
# The share of the learning rate at step 1, 2, ... of `steps`.
SCHEDULES = {
    "constant": lambda step, steps: 1.0,
    "cosine": lambda step, steps: min(1.0, step / WARM_UP) * 0.5 * (1.0 + math.cos(math.pi * step / steps)),
}


@dataclass
class ColdStart:
    """What a cold start did.

    steps: int, optimizer steps taken.
    losses: mean negative log-prob per completion token, one per step.
    checks: (step, sampled reward on validation) of every check.
    reached: whether the last check was above stop_at; True if none was asked for.
    """

    steps: int = 0
    losses: list = field(default_factory=list)
    checks: list = field(default_factory=list)
    reached: bool = True


def demonstration_batch(tokenizer, prompts, completions, device="cpu"):
    """Token ids of prompts with their completions and the end token, and which of them are to be learned.

    Args:
        tokenizer: transformers tokenizer with a pad and an end token.
        prompts: N strings.
        completions: N strings, without the end token.
        device: where the tensors go.

    Returns: input_ids (N, T) int64, right padded; targets (N, T) int64: the id itself at the tokens of completion and
        end token, -100 at the prompt and at padding, whatever their ids are.
    """
    rows, kept = [], []
    for prompt, completion in zip(prompts, completions, strict=True):
        asked = encode_prompt(tokenizer, prompt)
        answered = [*encode_text(tokenizer, completion), tokenizer.eos_token_id]
        rows.append(asked + answered)
        kept.append(len(asked))
    width = max(map(len, rows))
    input_ids = torch.full((len(rows), width), tokenizer.pad_token_id, dtype=torch.int64)
    targets = torch.full((len(rows), width), -100, dtype=torch.int64)
    for row, (ids, start) in enumerate(zip(rows, kept, strict=True)):
        input_ids[row, : len(ids)] = torch.tensor(ids)
        targets[row, start : len(ids)] = torch.tensor(ids[start:])
    return input_ids.to(device), targets.to(device)


def demonstration_loss(model, input_ids, targets):
    """Mean negative log-prob of the targets, over all of them in the batch (logits at t-1 score token t).

    Right padding and causal attention: no token sees padding, so no mask is needed.

    Returns: scalar tensor.
    """
    logits = model(input_ids=input_ids, use_cache=False).logits[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1).float(), targets[:, 1:].flatten(), ignore_index=-100)


def cold_start(
    model,
    tokenizer,
    problems,
    *,
    generator,
    reasoning_share=1.0,
    batch_size=64,
    learning_rate=2e-3,
    schedule="constant",
    steps=300,
    stop_at=None,
    validation=None,
    check_every=15,
    max_new_tokens=26,
    progress=None,
):
    """Teach a model the form of the answers, in place, from demonstrations drawn at random.

    Args:
        model: Qwen3ForCausalLM; it changes.
        tokenizer: its tokenizer.
        problems: list of `Problem` to learn from.
        generator: torch.Generator on the CPU; draws problems, kind of demonstration and the sampled checks.
        reasoning_share: chance that a demonstration is the reasoning one, in [0, 1]; the rest are direct answers.
        batch_size: demonstrations a step.
        learning_rate: of AdamW (no weight decay; the gradient is clipped to norm 1).
        schedule: "constant", or "cosine": a linear warm-up over 20 steps, then down to 0 at `steps` in half a cosine.
        steps: at most so many steps.
        stop_at: stop as soon as the sampled reward on `validation` is above it. None: take all steps.
        validation: list of `Problem`, one rollout each a check; needed with stop_at.
        check_every: steps between checks.
        max_new_tokens: limit of a rollout in a check.
        progress: callable (step, loss) called after each step, or None.

    Returns: ColdStart.

    Raises: ValueError if reasoning_share is outside [0, 1], if a count is below 1, if the schedule is unknown, or if
        stop_at comes without validation problems.
    """
    if not 0 <= reasoning_share <= 1:
        raise ValueError(f"reasoning_share is {reasoning_share}: a share lies in [0, 1]")
    for name, count in (("batch_size", batch_size), ("steps", steps), ("check_every", check_every)):
        if count < 1:
            raise ValueError(f"{name} is {count}: it must be at least 1")
    if stop_at is not None and not validation:
        raise ValueError("stop_at needs validation problems: the training problems would flatter the model")
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule is {schedule!r}: choose {' or '.join(SCHEDULES)}")
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    ends = stop_ids(model, tokenizer)
    result = ColdStart(reached=stop_at is None)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = learning_rate * SCHEDULES[schedule](step, steps)
        model.train()
        chosen = torch.randint(len(problems), (batch_size,), generator=generator).tolist()
        reasons = (torch.rand(batch_size, generator=generator) < reasoning_share).tolist()
        batch = [problems[index] for index in chosen]
        shown = [one.reasoning if reason else one.direct for one, reason in zip(batch, reasons, strict=True)]
        loss = demonstration_loss(model, *demonstration_batch(tokenizer, [one.prompt for one in batch], shown, device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        result.steps = step
        result.losses.append(loss.item())
        if progress is not None:
            progress(step, result.losses[-1])
        if stop_at is not None and step % check_every == 0:
            check = evaluate(
                model,
                tokenizer,
                validation,
                temperature=1.0,
                max_new_tokens=max_new_tokens,
                generator=generator,
                ends=ends,
            )
            result.checks.append((step, check.accuracy))
            if check.accuracy > stop_at:
                result.reached = True
                break
    model.eval()
    return result
