"""GRPO on a Qwen3 model: `Trainer.step` is the whole algorithm, everything around it keeps the run going.

Three policies take part and never share a variable. The current one is `trainer.model`. The old one, which made the
rollouts, exists as the log-probs that were captured while sampling. The reference is a frozen copy of the start, and
there is none without a KL penalty.
"""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext

import torch

from grpo.qwen3.batch import Batch, Clock, Update, step_signals
from grpo.qwen3.guards import ChangeWitness, NotFiniteError, memory_errors, require_trainable
from grpo.qwen3.logprobs import completion_logprobs
from grpo.qwen3.model import stop_ids as find_stop_ids
from grpo.qwen3.objective import (
    group_advantages,
    kl_in_reward,
    token_grpo_loss,
    token_weights,
)
from grpo.qwen3.precision import LossScaler
from grpo.qwen3.prompt_order import PromptOrder
from grpo.qwen3.prompts import encode_prompts
from grpo.qwen3.run import RunRecord, resume_trainer
from grpo.qwen3.sampler import sample
from grpo.qwen3.settings import KL_IN_REWARD, GRPOSettings
from grpo.qwen3.tokenizer import completion_text
from grpo.rewards import score_completions


class Trainer:
    """Trains a policy in place.

    Args:
        model: Qwen3ForCausalLM with float32 weights. It stays in evaluation mode: with dropout, a ratio of 1 would
            compare two different policies.
        tokenizer: its tokenizer.
        problems: list of objects with `prompt` and `truth`, at least settings.prompts_per_step of them.
        reward: callable (completion text, truth, finished) -> float, called once per rollout; if it has a method
            `batch` (the same three, as lists), that is called instead. A reward with a state of its own may have
            state_dict() and load_state_dict(); the state then goes into the checkpoints.
        settings: GRPOSettings.
        out_dir: folder for metrics and checkpoints, new or empty; None keeps nothing.
        reference: the model that the KL is measured against; default: a frozen copy of the model as it is handed in.
        stop_ids: ids that end a completion; default: all of the model's and the tokenizer's.
        notes: dict of plain data that goes into the checkpoints.

    Attributes: model, reference (None without a KL penalty), optimizer, scaler (LossScaler), settings, notes;
        steps_done (int); history (list of the signals of all steps, also from before a resume).

    Raises: ValueError for weights below float32, too few problems, a prompt that the tokenizer cannot encode, or a
        reference that shares weights with the model; CheckpointError if out_dir is not free or cannot be written.
    """

    def __init__(
        self,
        model,
        tokenizer,
        problems,
        reward,
        settings=None,
        *,
        out_dir=None,
        reference=None,
        stop_ids=None,
        notes=None,
    ):
        self.settings = settings or GRPOSettings()
        self.model, self.tokenizer, self.reward = model.eval(), tokenizer, reward
        self.problems = _checked_problems(problems, self.settings)
        require_trainable(model)
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=self.settings.learning_rate,
            betas=self.settings.betas,
            weight_decay=self.settings.weight_decay,
            fused=self.parameters[0].is_cuda,
        )
        self.scaler = LossScaler(self.settings.precision, self.parameters[0].device)
        self.reference = _frozen_reference(model, reference) if self.settings.needs_reference else None
        texts = [problem.prompt for problem in self.problems]
        self.prompts = encode_prompts(tokenizer, texts, self.settings.prompt_style)
        self.stop_ids = frozenset(find_stop_ids(model, tokenizer) if stop_ids is None else stop_ids)
        self.prompt_order = PromptOrder(len(self.problems), self.settings.seed)
        self.generator = torch.Generator().manual_seed(self.settings.seed)
        self.steps_done, self.history, self.notes = 0, [], dict(notes or {})
        self.between_steps, self._moved = True, False
        self.record = None if out_dir is None else RunRecord.start(self, out_dir)

    def step(self):
        """One iteration of GRPO: a batch of fresh rollouts, and settings.inner_updates optimizer steps on it.

        Returns: dict of the signals (`grpo.qwen3.health.SIGNALS`), also appended to `history` and to metrics.jsonl.

        Raises: NotFiniteError before a step with a loss or a gradient that is not finite; OutOfMemoryError; ValueError
            for a reward that is not finite; CheckpointError if metrics.jsonl cannot be written.
        """
        settings, clock = self.settings, Clock()
        self.between_steps = False
        chosen = self.prompt_order.take(settings.prompts_per_step)

        rollouts = self.sample(chosen)
        clock.sampled()
        rewards = self.score(chosen, rollouts)
        ref_logps = None if self.reference is None else self.logprobs(self.reference, rollouts)
        advantages = self.advantages(rewards, rollouts, ref_logps)
        weights = self.token_weights(rollouts.mask)
        # The log-probs captured while sampling are the old policy's. No inner update changes them.
        batch = Batch(rollouts, rollouts.logprobs.clone(), ref_logps, advantages, weights)

        micro_batches = self.micro_batches(advantages)
        updates = []
        for number in range(settings.inner_updates):
            update = Update()
            self.optimizer.zero_grad()
            for rows in micro_batches:
                with self._memory_errors("training"):
                    loss = self.loss(batch, rows, update, first=number == 0)
                    self.scaler.scale(loss).backward()
            self.take_step(update)
            updates.append(update)
        return self._finish(step_signals(batch, rewards, updates, settings) | clock.read())

    def sample(self, chosen):
        """Rollouts of the current policy: settings.group_size for each of the problems with these indices."""
        settings = self.settings
        self.optimizer.zero_grad()  # the last step's gradients take room that the cache needs
        with self._memory_errors("sampling"):
            return sample(
                self.model,
                [self.prompts[index] for index in chosen],
                settings.group_size,
                max_new_tokens=settings.max_new_tokens,
                temperature=settings.temperature,
                stop_ids=self.stop_ids,
                pad_id=self.tokenizer.pad_token_id,
                generator=self.generator,
                rollout_dtype=None if settings.rollout_dtype == "float32" else getattr(torch, settings.rollout_dtype),
                wave=settings.rollout_wave,
            )

    def score(self, chosen, rollouts):
        """(N,) float64 rewards on the model's device. Raises ValueError for one that is not finite."""
        texts = completion_texts(self.tokenizer, rollouts, self.stop_ids)
        truths = [self.problems[index].truth for index in chosen for _ in range(self.settings.group_size)]
        finished = rollouts.finished.tolist()

        def reward(texts, truths):
            if hasattr(self.reward, "batch"):
                return self.reward.batch(texts, truths, finished)
            return [self.reward(*rollout) for rollout in zip(texts, truths, finished, strict=True)]

        rewards = score_completions(reward, texts, truths)
        return torch.from_numpy(rewards).to(rollouts.lengths.device)

    def advantages(self, rewards, rollouts, ref_logps=None):
        """(N,) group-relative advantages; with kl="k1_in_reward" the penalty is taken off the rewards first."""
        settings = self.settings
        if settings.kl == KL_IN_REWARD and ref_logps is not None:
            rewards = kl_in_reward(rewards, rollouts.logprobs, ref_logps, rollouts.mask, settings.kl_coef)
        return group_advantages(rewards, settings.group_size, settings.advantage_eps, settings.scale_by_std).float()

    def token_weights(self, mask):
        """(N, C) what each token counts in the loss of the full batch."""
        constant = None
        if self.settings.aggregate == "constant":
            constant = self.settings.constant_length or self.settings.max_new_tokens
        return token_weights(mask, self.settings.aggregate, constant)

    def micro_batches(self, advantages):
        """List of row indices (tensors) that together are the batch: all rollouts that can change the gradient.

        Without a KL term a rollout of advantage 0 adds exactly 0 to loss and gradient. It still counts in the token
        weights, so leaving it out changes nothing but the time.
        """
        rows = torch.arange(len(advantages), device=advantages.device)
        if self.settings.skip_zero_advantages and self.settings.loss_kl_coef == 0:
            rows = advantages.nonzero()[:, 0]
        return list(rows.split(self.settings.micro_batch_size or len(advantages))) if len(rows) else []

    def loss(self, batch, rows, update, first=True):
        """The loss of some rows of the batch, as their share of the full batch's loss. Scalar with a gradient."""
        settings, part = self.settings, batch.rows(rows)
        new_logps, _ = self._completion_logprobs(self.model, part.rollouts)
        if not settings.same_arithmetic and first:
            # Before the first step the current policy still is the old one: its log-probs in the trainer's arithmetic
            # become the old ones, and the sampler's rounding is made good by a weight.
            batch.correct(rows, new_logps, settings.importance_cap)
            part = batch.rows(rows)
        loss = token_grpo_loss(
            new_logps,
            part.old_logps,
            part.advantages,
            part.rollouts.mask,
            ref_logps=part.ref_logps,
            level=settings.level,
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
            kl_coef=settings.loss_kl_coef,
            kl="k3" if settings.kl == KL_IN_REWARD else settings.kl,
            importance_weights=part.sampler_weights,
            weights=part.weights,
        )
        update.add(loss, new_logps, part, settings)
        return loss

    def take_step(self, update):
        """Clip the gradient's norm, and step with AdamW unless a number is not finite.

        In float16 a gradient that is not finite was scaled too high: the update is left out, and the next one has half
        the scale.
        """
        for parameter in self.parameters:
            if parameter.grad is None:  # no rollout could change it: AdamW's momentum still acts
                parameter.grad = torch.zeros_like(parameter)
        self.scaler.unscale(self.optimizer)
        limit = self.settings.max_grad_norm or float("inf")
        update.gradient_norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, limit))
        self._require_finite(update)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate_at(self.steps_done)
        witness = None if self._moved else ChangeWitness(self.parameters)
        with self._memory_errors("training"):
            update.taken = self.scaler.step(self.optimizer)
        if witness is not None and update.taken:
            witness.check()
            self._moved = bool(witness.entries)

    @torch.no_grad()
    def logprobs(self, model, rollouts):
        """(N, C) log-probs of the rollouts under a model, without gradients, in micro-batches."""
        rows = torch.arange(len(rollouts), device=rollouts.lengths.device)
        with self._memory_errors("training"):
            parts = rows.split(self.settings.micro_batch_size or len(rollouts))
            return torch.cat([self._completion_logprobs(model, rollouts.rows(part))[0] for part in parts])

    def train(self, steps=None, callback=None):
        """Take steps, and write the checkpoints that the settings ask for, one at the end included.

        Args:
            steps: how many; default: up to settings.steps in all.
            callback: callable (trainer, signals) after each step; returning True ends the training early.

        Returns: list of dict, the signals of these steps.

        Raises: as `step` and `save`; FolderInUse if another process trains in out_dir.
        """
        goal = self.settings.steps if steps is None else self.steps_done + steps
        start = len(self.history)
        with nullcontext() if self.record is None else self.record.folder.hold():
            while self.steps_done < goal:
                signals = self.step()
                every = self.settings.checkpoint_every
                if every and self.steps_done % every == 0:
                    self.save()
                if callback is not None and callback(self, signals):
                    break
            self.save()
        return self.history[start:]

    def save(self):
        """Write a checkpoint, unless there is no out_dir or this step has one.

        Returns: Path, or None if nothing was written.

        Raises: CheckpointError if the disk refuses; RuntimeError if the last step was broken off, because random
            numbers have been drawn for it and weights may have moved.
        """
        if not self.between_steps:
            raise RuntimeError(f"step {self.steps_done + 1} was broken off and cannot be saved. {self._left()}".strip())
        return None if self.record is None else self.record.save(self)

    @classmethod
    def resume(cls, out_dir, problems, reward, *, device="cpu", **changes):
        """The trainer of a run's newest complete checkpoint: on a CPU the same trajectory goes on, bit for bit.

        Args:
            out_dir: folder of the run.
            problems, reward: as they were.
            device: where to go on.
            changes: settings that may change on the way: steps, checkpoint_every, keep_checkpoints,
                micro_batch_size, chunk_size, checkpoint_layers, rollout_wave.

        Raises: CheckpointError if there is no complete checkpoint; FolderInUse if another process trains there;
            ValueError if the problems are other ones, or another setting is to change.
        """
        return resume_trainer(cls, out_dir, problems, reward, device, changes)

    def _completion_logprobs(self, model, rollouts):
        return completion_logprobs(
            model,
            rollouts,
            temperature=self.settings.temperature,
            chunk_size=self.settings.chunk_size,
            checkpoint_layers=self.settings.checkpoint_layers,
            precision=None if self.settings.precision == "float32" else getattr(torch, self.settings.precision),
        )

    def _require_finite(self, update):
        """Stop before the optimizer spreads a NaN over all weights."""
        numbers = {"loss": update.loss, "gradient_norm": update.gradient_norm}
        scale = self.scaler.scale_factor
        # A scale of 1 is none: what overflows with it overflows by itself.
        scaled = scale is not None and scale > 1
        if math.isfinite(update.loss) and (scaled or math.isfinite(update.gradient_norm)):
            return
        if self.record is not None:
            self.record.log({"step": self.steps_done + 1, **numbers})
        hint = "" if scale is None else "Or the numbers are too large for float16: set precision to 'float32'. "
        raise NotFiniteError(self.steps_done + 1, hint + self._left(), **numbers)

    def _memory_errors(self, phase):
        return memory_errors(phase, self.settings, self._left())

    def _left(self):
        return "" if self.record is None else self.record.left()

    def _finish(self, signals):
        self.steps_done += 1
        self.between_steps = True
        signals = {"step": self.steps_done, **signals, "learning_rate": self.optimizer.param_groups[0]["lr"]}
        signals["loss_scale"] = self.scaler.scale_factor
        self.history.append(signals)
        if self.record is not None:
            self.record.log(signals)
        return signals


def completion_texts(tokenizer, rollouts, stop_ids):
    """What the reward reads: the text of each completion, without its stop token and the padding.

    Returns: list of N strings.
    """
    rows = zip(rollouts.completion_ids.tolist(), rollouts.lengths.tolist(), strict=True)
    return [completion_text(tokenizer, ids[:length], stop_ids) for ids, length in rows]


def _checked_problems(problems, settings):
    problems = list(problems)
    if len(problems) < settings.prompts_per_step:
        raise ValueError(
            f"{len(problems)} problems for prompts_per_step {settings.prompts_per_step}: pass more problems or lower it"
        )
    return problems


def _frozen_reference(model, reference):
    if reference is None:
        reference = copy.deepcopy(model)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    if any(parameter.data_ptr() in own for parameter in reference.parameters()):
        raise ValueError("the reference shares weights with the model and would be trained along: pass a copy")
    return reference.eval().requires_grad_(False)
