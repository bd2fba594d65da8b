"""What stops a run, said in one sentence each: numbers that are not finite, and memory that does not suffice."""

from __future__ import annotations

from contextlib import contextmanager

import torch


class NotFiniteError(RuntimeError):
    """The loss or the gradient of a step is NaN or infinite. The step was not taken.

    Args:
        step: int, the iteration.
        left: str, what can be gone back to.
        loss, gradient_norm: floats.
    """

    def __init__(self, step, left, *, loss, gradient_norm):
        super().__init__(
            f"step {step} was not taken: its loss is {loss}, its gradient norm {gradient_norm}. Look at ratio_max, kl "
            "and gradient_norm of the steps before and at the completions of this one; lower learning_rate or raise "
            f"warmup_steps. {left}".strip()
        )


class OutOfMemoryError(RuntimeError):
    """A step needs more memory than there is. The message says which settings to lower."""


def require_trainable(model):
    """Refuse parameters in which the small steps of training would vanish.

    Raises: ValueError that names the first parameter in less than float32: at 1.0 the spacing of bfloat16 is .0078,
        and a step of .001 leaves the weight as it is.
    """
    for name, parameter in model.named_parameters():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"{name} is {parameter.dtype}: train float32 weights (load_model(..., dtype=torch.float32)) and set "
                "rollout_dtype='bfloat16' if sampling is to be faster"
            )


class ChangeWitness:
    """Notes, per parameter, the entry with the largest gradient: after the step one of them must have moved.

    A step can be lost without any error: parameters that are not the optimizer's, a dtype too coarse, a learning rate
    of 0.
    """

    def __init__(self, parameters):
        self.entries = []
        for parameter in parameters:
            index = int(parameter.grad.abs().argmax())
            if parameter.grad.view(-1)[index] != 0:
                self.entries.append((parameter, index, parameter.detach().view(-1)[index].clone()))

    def check(self):
        """Raises RuntimeError if there was a gradient and no noted weight has changed."""
        if self.entries and all(parameter.detach().view(-1)[i] == before for parameter, i, before in self.entries):
            raise RuntimeError(
                "the gradient is not zero, but no weight has changed after the step: check that the optimizer holds "
                "the model's own parameters, their dtype, and the learning rate"
            )


@contextmanager
def memory_errors(phase, settings, left):
    """Turn an allocation failure into an OutOfMemoryError that says what to lower.

    Args:
        phase: "sampling" or "training".
        settings: GRPOSettings.
        left: str, what can be gone back to.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        batch = f"group_size ({settings.group_size}), prompts_per_step ({settings.prompts_per_step})"
        if phase == "sampling":
            lower = f"max_new_tokens ({settings.max_new_tokens}), {batch}"
            lower = f"rollout_wave (now {settings.rollout_wave or settings.rollouts_per_step}), then {lower}"
            lower += ", or set rollout_dtype to 'bfloat16' or 'float16'" if settings.rollout_dtype == "float32" else ""
        else:
            rows = settings.micro_batch_size or settings.rollouts_per_step
            lower = f"micro_batch_size (now {rows}), then max_new_tokens ({settings.max_new_tokens}), {batch}"
            lower += "" if settings.checkpoint_layers else ", or turn on checkpoint_layers"
            lower += ", or set precision to 'bfloat16' or 'float16'" if settings.precision == "float32" else ""
        raise OutOfMemoryError(f"out of memory while {phase}: lower {lower}. {left}".strip()) from error


def _is_out_of_memory(error):
    # torch reports a failed allocation on the CPU as a plain RuntimeError.
    text = str(error)
    cpu = "DefaultCPUAllocator" in text and "memory" in text
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or cpu
