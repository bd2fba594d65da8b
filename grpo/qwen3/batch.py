"""What one iteration of the trainer works with, and what it reports: its constants, its updates, its signals."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from grpo.advantages import zero_variance_fraction
from grpo.qwen3.masks import masked_mean
from grpo.qwen3.objective import importance_weights, loss_metrics
from grpo.qwen3.sampler import Rollouts


@dataclass
class Batch:
    """One iteration's constants, (N, C) or (N,) each. sampler_weights is None where sampling and training agree."""

    rollouts: Rollouts
    old_logps: torch.Tensor
    ref_logps: torch.Tensor | None
    advantages: torch.Tensor
    weights: torch.Tensor
    sampler_weights: torch.Tensor | None = None

    def rows(self, rows):
        """The same for some of the rollouts."""
        parts = (self.old_logps, self.ref_logps, self.advantages, self.weights, self.sampler_weights)
        return Batch(self.rollouts.rows(rows), *(None if part is None else part[rows] for part in parts))

    def correct(self, rows, logps, cap):
        """Take these log-probs for the old policy's, and weigh the tokens by how far the sampler was off."""
        if self.sampler_weights is None:
            self.sampler_weights = torch.ones_like(self.old_logps)
        part = self.rollouts.rows(rows)
        self.old_logps[rows] = logps.detach()
        self.sampler_weights[rows] = importance_weights(logps, part.logprobs, part.mask, cap)


class Update:
    """What one optimizer step was made of, added up over its micro-batches."""

    def __init__(self):
        self.loss, self.gradient_norm, self.clipped, self.ratio_max, self.rollouts = 0.0, 0.0, 0.0, 0.0, 0
        self.taken = True

    def add(self, loss, new_logps, part, settings):
        """Count a micro-batch in."""
        mask = part.rollouts.mask
        metrics = loss_metrics(
            new_logps,
            part.old_logps,
            part.advantages,
            mask,
            level=settings.level,
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
        )
        self.rollouts += len(mask)
        self.loss += float(loss.detach())
        self.ratio_max = max(self.ratio_max, metrics["ratio_max"])
        self.clipped += metrics["clip_fraction"] * _ratio_count(mask, settings.level)


def step_signals(batch, rewards, updates, settings):
    """The signals of an iteration (`grpo.qwen3.health.SIGNALS`) that its batch and its updates decide.

    Args:
        batch: Batch. rewards: (N,) float64. updates: list of Update. settings: GRPOSettings.

    Returns: dict.
    """
    rollouts, n_updates = batch.rollouts, len(updates)
    ratios = n_updates * _ratio_count(rollouts.mask, settings.level)
    trained = batch.advantages != 0
    norms = [update.gradient_norm for update in updates if update.taken]
    gap = None
    if batch.sampler_weights is not None:
        difference = (batch.old_logps - rollouts.logprobs).abs()
        gap = float(masked_mean(difference[trained], rollouts.mask[trained]))
    return {
        "reward": float(rewards.mean()),
        "zero_variance_share": zero_variance_fraction(rewards.cpu().numpy(), settings.group_size),
        "entropy": -float(masked_mean(rollouts.logprobs, rollouts.mask)),
        "kl": _kl(batch),
        "clip_fraction": sum(update.clipped for update in updates) / ratios,
        "gradient_norm": sum(norms) / len(norms) if norms else None,
        "length": float(rollouts.lengths.double().mean()),
        "truncation_rate": 1.0 - float(rollouts.finished.double().mean()),
        "ratio_max": max(update.ratio_max for update in updates) or 1.0,  # without any rollout there is no ratio
        "loss": updates[-1].loss,
        "sampler_gap": gap,
        "tokens": rollouts.tokens,
        "trained_rollouts": updates[-1].rollouts,
        "skipped_updates": n_updates - len(norms),
    }


def _kl(batch):
    """Mean k3 per token of the sampling policy against the reference."""
    if batch.ref_logps is None:
        return None
    captured = batch.rollouts.logprobs
    return loss_metrics(captured, captured, batch.advantages, batch.rollouts.mask, batch.ref_logps)["kl"]


def _ratio_count(mask, level):
    return int(mask.sum()) if level == "token" else len(mask)


class Clock:
    """Seconds since it was made, on the clock and of this process's processors."""

    def __init__(self):
        self.wall, self.cpu, self.sampling = time.perf_counter(), time.process_time(), 0.0

    def sampled(self):
        """The rollouts are there: what comes now is no sampling."""
        self.sampling = time.perf_counter() - self.wall

    def read(self):
        """dict: cpu_seconds, wall_seconds, sampling_seconds."""
        return {
            "cpu_seconds": time.process_time() - self.cpu,
            "wall_seconds": time.perf_counter() - self.wall,
            "sampling_seconds": self.sampling,
        }
