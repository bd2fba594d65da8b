"""The contestants of `grpo bench qwen3`: each is one training iteration, done in one way, in a process of its own.

    python -m grpo.qwen3.bench_contestants CONTESTANT SIZE

answers every line on its standard input with one iteration and a line of JSON on its standard output. All of them
sample the same number of rollouts of the same prompts at temperature 1, never stop early, take random rewards, and make
one AdamW step without a KL term.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from grpo.qwen3 import sampler
from grpo.qwen3.logprobs import completion_logprobs
from grpo.qwen3.masks import left_pad
from grpo.qwen3.objective import group_advantages, importance_weights, token_grpo_loss, token_weights
from grpo.qwen3.packed import Projection
from grpo.qwen3.peak import read_peak
from grpo.qwen3.sampler import Rollouts, sample

LEARNING_RATE, BETAS, CLIP_NORM = 1e-5, (0.9, 0.99), 1.0


@dataclass(frozen=True)
class Size:
    """A model and a batch. Heads of 64, two query heads to a key head, MLP three times as wide, tied embeddings."""

    layers: int
    hidden: int
    vocabulary: int
    prompt_lengths: tuple[int, ...]
    group_size: int
    new_tokens: int

    @property
    def rollouts(self) -> int:
        return len(self.prompt_lengths) * self.group_size

    def config(self):
        from transformers import Qwen3Config

        return Qwen3Config(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.hidden // 64,
            num_key_value_heads=self.hidden // 128,
            head_dim=64,
            intermediate_size=3 * self.hidden,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            pad_token_id=0,
            eos_token_id=None,
        )

    def prompts(self):
        """Lists of ids; 0 is the padding."""
        generator = torch.Generator().manual_seed(1)
        return [torch.randint(1, self.vocabulary, (n,), generator=generator).tolist() for n in self.prompt_lengths]


SIZES = {
    "small": Size(4, 256, 4096, (48, 43, 38, 33), group_size=8, new_tokens=64),
    "mid": Size(8, 512, 32_000, (48, 43, 38, 33), group_size=8, new_tokens=40),
    "test": Size(2, 128, 300, (5, 3), group_size=4, new_tokens=4),
}


class Contestant:
    """Model, optimizer and the parts of an iteration that all but TRL share."""

    def __init__(self, size: Size):
        from transformers import Qwen3ForCausalLM

        self.size, self.prompts = size, size.prompts()
        torch.manual_seed(0)  # a process of its own: nobody else's random numbers
        self.model = Qwen3ForCausalLM(size.config()).eval()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=0.0, fused=True
        )
        self.generator = torch.Generator().manual_seed(2)
        self.split = {}

    @contextmanager
    def clock(self, part):
        start = time.process_time()
        yield
        self.split[part] = self.split.get(part, 0.0) + time.process_time() - start

    def iteration(self):
        """One training step. Returns dict: what there is to tell besides the time."""
        self.split = {}
        with self.clock("sampling"):
            rollouts = self.rollouts()
        rewards = torch.rand(self.size.rollouts, generator=self.generator)
        advantages = group_advantages(rewards, self.size.group_size)
        weights = token_weights(rollouts.mask, "rollout_mean")
        for rows in torch.arange(len(rollouts)).split(self.rows_at_once):
            loss = self.loss(rollouts.rows(rows), advantages[rows], weights[rows])
            with self.clock("backward"):
                loss.backward()
        with self.clock("optimizer"):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return {"split": self.split}

    @property
    def rows_at_once(self):
        return self.size.group_size

    def rollouts(self):
        raise NotImplementedError

    def loss(self, rollouts, advantages, weights):
        with self.clock("log-probs, forward"):
            logps, _ = completion_logprobs(self.model, rollouts)
        # One step per batch: the old policy is the current one. Not so for rounded rollouts, see Bfloat16.
        return token_grpo_loss(logps, logps.detach(), advantages, rollouts.mask, weights=weights)


class Ours(Contestant):
    """`sample` and `completion_logprobs`, all in float32."""

    dtype = None

    def rollouts(self):
        with _timed(sampler, "prefill", self.clock), _timed(sampler, "decode_step", self.clock, "decode"):
            return sample(
                self.model,
                self.prompts,
                self.size.group_size,
                max_new_tokens=self.size.new_tokens,
                stop_ids=(),
                pad_id=0,
                generator=self.generator,
                rollout_dtype=self.dtype,
            )


class Bfloat16(Ours):
    """The same with bfloat16 copies of the weights in sampling, made good by truncated importance weights."""

    dtype = torch.bfloat16

    def loss(self, rollouts, advantages, weights):
        with self.clock("log-probs, forward"):
            logps, _ = completion_logprobs(self.model, rollouts)
        old, mask = logps.detach(), rollouts.mask
        made_good = importance_weights(old, rollouts.logprobs, mask)
        self.seen.append((old - rollouts.logprobs, made_good))
        return token_grpo_loss(logps, old, advantages, mask, weights=weights, importance_weights=made_good)

    def iteration(self):
        self.seen = []
        result = super().iteration()
        difference, made_good = (torch.cat(parts) for parts in zip(*self.seen, strict=True))
        return result | {
            "mismatch": difference.abs().mean().item(),
            "largest mismatch": difference.abs().max().item(),
            "importance weights, smallest and largest": [made_good.min().item(), made_good.max().item()],
        }


class HFGenerate(Contestant):
    """`model.generate` of transformers for the rollouts, our log-probs and loss."""

    def rollouts(self):
        size = self.size
        ids, mask = (tensor.repeat_interleave(size.group_size, dim=0) for tensor in left_pad(self.prompts, 0))
        with torch.no_grad():
            output = self.model.generate(
                input_ids=ids,
                attention_mask=mask.long(),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=size.new_tokens,
                pad_token_id=0,
            )
        return _rollouts(size, ids, mask, output[:, ids.shape[1] :])


class OneByOne(Contestant):
    """One rollout at a time, as the loop in a first notebook: the model's cache, multinomial, whole log-softmax."""

    rows_at_once = 1

    @torch.no_grad()
    def rollouts(self):
        size, completions = self.size, []
        # The name changed in transformers 5.24.
        name = "cache" if "cache" in inspect.signature(self.model.forward).parameters else "past_key_values"
        for prompt in self.prompts:
            for _ in range(size.group_size):
                tokens, cache = torch.tensor([prompt]), None
                completion = []
                for _ in range(size.new_tokens):
                    output = self.model(input_ids=tokens, use_cache=True, **{name: cache})
                    cache = getattr(output, name)
                    chances = output.logits[:, -1].softmax(-1)
                    tokens = torch.multinomial(chances, 1, generator=self.generator)
                    completion.append(tokens)
                completions.append(torch.cat(completion, dim=1))
        ids, mask = (tensor.repeat_interleave(size.group_size, dim=0) for tensor in left_pad(self.prompts, 0))
        return _rollouts(size, ids, mask, torch.cat(completions))

    def loss(self, rollouts, advantages, weights):
        prompt = rollouts.prompt_ids[rollouts.prompt_mask]
        ids = torch.cat([prompt, rollouts.completion_ids[0]])
        with self.clock("log-probs, forward"):
            logits = self.model(input_ids=ids[None], use_cache=False).logits[0, :-1]
            logps = logits.log_softmax(-1).gather(-1, ids[1:, None])[len(prompt) - 1 :, 0][None]
        return token_grpo_loss(logps, logps.detach(), advantages, rollouts.mask, weights=weights)


class Floor:
    """Nothing but the products with the weights that one iteration of ours cannot do without, on random numbers."""

    def __init__(self, size: Size):
        config = size.config()
        self.size, hidden = size, config.hidden_size
        heads, kv_heads = config.num_attention_heads * 64, config.num_key_value_heads * 64
        shapes = [(heads + 2 * kv_heads, hidden), (hidden, heads), (6 * hidden, hidden), (hidden, 3 * hidden)]
        self.matrices = [torch.randn(shape) * 0.02 for _ in range(config.num_hidden_layers) for shape in shapes]
        self.head = torch.randn(config.vocab_size, hidden) * 0.02
        self.packed = [Projection([matrix], pack=True) for matrix in self.matrices]
        self.packed_head = Projection([self.head], pack=True)

    @torch.no_grad()
    def iteration(self):
        size = self.size
        start = time.process_time()
        self._forward_only(len(size.prompt_lengths) * max(size.prompt_lengths), len(size.prompt_lengths))
        for _ in range(size.new_tokens - 1):
            self._forward_only(size.rollouts, size.rollouts)
        sampling = time.process_time() - start
        for length in size.prompt_lengths:
            for matrix in self.matrices:
                _three_products(matrix, length + size.group_size * (size.new_tokens - 1))
            _three_products(self.head, size.group_size * size.new_tokens)
        return {"split": {"sampling": sampling, "training": time.process_time() - start - sampling}}

    def _forward_only(self, rows, head_rows):
        for project, matrix in zip(self.packed, self.matrices, strict=True):
            project(torch.ones(rows, matrix.shape[1]))
        self.packed_head(torch.ones(head_rows, self.head.shape[1]))


def _three_products(matrix, rows):
    """Forward, and the gradients of input and matrix."""
    x = torch.ones(rows, matrix.shape[1])
    y = torch.nn.functional.linear(x, matrix)
    y @ matrix
    y.T @ x


def _rollouts(size, prompt_ids, prompt_mask, completion_ids):
    return Rollouts(
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        completion_ids=completion_ids,
        lengths=torch.full((size.rollouts,), size.new_tokens),
        logprobs=torch.zeros(completion_ids.shape),
        finished=torch.zeros(size.rollouts, dtype=torch.bool),
        group_size=size.group_size,
        prompt_index=torch.arange(len(size.prompt_lengths)).repeat_interleave(size.group_size),
    )


@contextmanager
def _timed(module, name, clock, part=None):
    """Time every call of a function of a module."""
    function = getattr(module, name)

    def timed(*args, **kwargs):
        with clock(part or name):
            return function(*args, **kwargs)

    setattr(module, name, timed)
    try:
        yield
    finally:
        setattr(module, name, function)


def run_trl(size: Size):
    """TRL's GRPOTrainer on the same work; waits for a line between its steps."""
    import datasets
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers
    from trl import GRPOConfig, GRPOTrainer

    datasets.disable_progress_bars()
    # One word per id, and an end token that the model does not know and so can never sample.
    words = {f"w{number}": number for number in range(size.vocabulary + 1)}
    words_to_ids = Tokenizer(models.WordLevel(words, unk_token="w0"))
    words_to_ids.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words_to_ids, pad_token="w0", eos_token=f"w{size.vocabulary}", padding_side="left"
    )
    texts = [" ".join(f"w{token}" for token in prompt) for prompt in size.prompts()]
    generator = torch.Generator().manual_seed(2)

    class Lockstep(transformers.TrainerCallback):
        start = 0.0

        def on_step_end(self, args, state, control, **kwargs):
            _answer(time.process_time() - self.start, {})
            control.should_training_stop = not _next_line()
            self.start = time.process_time()

    lockstep = Lockstep()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=transformers.Qwen3ForCausalLM(size.config()),
            reward_funcs=lambda completions, **columns: torch.rand(len(completions), generator=generator).tolist(),
            args=GRPOConfig(
                output_dir=folder,
                # A group at a time, as ours. All 32 rollouts at once take TRL within 4% of that time (size mid:
                # 17.3 s against 17.9 s), and 5.5 GB instead of 2.4.
                per_device_train_batch_size=size.group_size,
                gradient_accumulation_steps=len(size.prompt_lengths),
                num_generations=size.group_size,
                max_completion_length=size.new_tokens,
                temperature=1.0,
                loss_type="grpo",
                beta=0.0,
                learning_rate=LEARNING_RATE,
                adam_beta1=BETAS[0],
                adam_beta2=BETAS[1],
                max_grad_norm=CLIP_NORM,
                lr_scheduler_type="constant",
                max_steps=10**6,
                shuffle_dataset=False,
                use_cpu=True,
                bf16=False,
                fp16=False,
                gradient_checkpointing=False,
                logging_strategy="no",
                save_strategy="no",
                disable_tqdm=True,
                report_to="none",
            ),
            train_dataset=datasets.Dataset.from_dict({"prompt": texts * 8}),
            processing_class=tokenizer,
            callbacks=[lockstep],
        )
        if _next_line():
            lockstep.start = time.process_time()
            trainer.train()


CONTESTANTS = {
    "ours": Ours,
    "ours, bf16 rollouts": Bfloat16,
    "HF generate, our loss": HFGenerate,
    "one by one": OneByOne,
    "matmul floor": Floor,
}
TRL = "TRL"


def _next_line():
    return bool(sys.stdin.readline().strip())


def _answer(seconds, result):
    print(json.dumps({"seconds": seconds, "peak": read_peak(), **result}), file=_OUT, flush=True)


_OUT = sys.stdout


def main(name: str, size_name: str) -> None:
    """Answer each line of the standard input with an iteration."""
    sys.stdout = sys.stderr  # whatever a library prints stays out of the answers
    torch.set_num_threads(1)
    size = SIZES[size_name]
    if name == TRL:
        run_trl(size)
        return
    contestant = CONTESTANTS[name](size)
    while _next_line():
        start = time.process_time()
        result = contestant.iteration()
        _answer(time.process_time() - start, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
