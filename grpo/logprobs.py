"""Log-probabilities of sampled tokens, and the masks that say which tokens count. All logs are natural."""

import numpy as np

from grpo.checks import as_count, as_floats, as_integers, as_mask, as_nonnegative, as_positive


def log_softmax(logits):
    """log(exp(x) / sum exp(x)) over the last axis, safe for logits of any finite size.

    Args:
        logits: (..., V). -inf is allowed and means "impossible" (a grammar mask), but not for all V at once.

    Returns: (..., V) float64, each <= 0.

    Raises: ValueError if logits has no last axis or an empty one, holds NaN or +inf (the index is named), or
        has a row of -inf only.
    """
    logits = as_floats(logits, "logits")
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits has shape {logits.shape}: pass (..., V), one logit per token on the last axis")
    bad = np.argwhere(np.isnan(logits) | (logits == np.inf))
    if bad.size:
        index = tuple(bad[0].tolist())
        raise ValueError(f"logits{list(index)} is {logits[index]}: find the layer that made it; it cannot be scored")

    largest = logits.max(axis=-1, keepdims=True)
    if np.any(largest == -np.inf):
        row = np.argwhere(largest == -np.inf)[0, :-1].tolist()
        raise ValueError(f"logits{row} is -inf for every token: let the mask leave at least one token")
    # exp overflows above 709; softmax does not change when a constant is subtracted from a row.
    shifted = logits - largest
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def entropy(logits):
    """Entropy of the softmax distribution, -sum p log p, in nats: 0 (certain) to log V (uniform).

    Args:
        logits: (..., V), as in `log_softmax`.

    Returns: (...) float64.

    Raises: ValueError as in `log_softmax`.
    """
    logps = log_softmax(logits)
    # p log p goes to 0 with p, but 0 * -inf is NaN: any finite number in place of -inf gives 0.
    logps = np.maximum(logps, np.finfo(np.float64).min)
    return (np.exp(logps) * -logps).sum(axis=-1)


def token_logprobs(logits, token_ids, prompt_len, temperature=1.0):
    """Log-probability of each answer token, under the distribution it was sampled from.

    The logits at position t-1 score token t, so the first answer token is scored by the last prompt position.

    Args:
        logits: (T-1, V), row t made from tokens 0 .. t. Rows before prompt_len - 1 are not read.
        token_ids: (T,) integers: prompt, then answer (the end token belongs to the answer).
        prompt_len: number of prompt tokens, 1 <= prompt_len < T.
        temperature: logits are divided by it before anything else, as they were in sampling; > 0.

    Returns: (T - prompt_len,) float64, in nats, each <= 0.

    Raises: ValueError if the shapes do not fit, ids are not integers in 0 .. V-1 (the position is named),
        prompt_len is out of range, or temperature is not positive. An index into logits in a message counts
        from row prompt_len - 1.

    Source: the factors pi(o_t | q, o_<t) of DeepSeekMath (arXiv 2402.03300), eq. 3.
    """
    logits = as_floats(logits, "logits")
    token_ids = as_integers(token_ids, "token_ids")
    if token_ids.ndim != 1 or logits.ndim != 2 or len(logits) != len(token_ids) - 1:
        raise ValueError(
            f"logits has shape {logits.shape}, token_ids {token_ids.shape}: pass (T-1, V) and (T,); "
            "the last row that a model returns scores a token after the end, so drop it"
        )
    prompt_len = as_count(prompt_len, "prompt_len", minimum=1)
    if prompt_len >= len(token_ids):
        raise ValueError(f"prompt_len is {prompt_len} of {len(token_ids)} tokens: leave at least one to the answer")
    vocabulary = logits.shape[1]
    bad = np.flatnonzero((token_ids < 0) | (token_ids >= vocabulary))
    if bad.size:
        position = bad[0]
        raise ValueError(
            f"token_ids[{position}] is {token_ids[position]}: ids must be in 0 .. {vocabulary - 1}, "
            "the last axis of logits"
        )
    temperature = as_positive(temperature, "temperature")

    logps = log_softmax(logits[prompt_len - 1 :] / temperature)
    answer = token_ids[prompt_len:]
    return logps[np.arange(len(answer)), answer]


def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    """Log-probability of a whole answer: the SUM of its `token_logprobs`, in nats.

    The sum, not the mean, is the log of the probability of the rollout. At equal confidence per token a
    longer answer therefore has a lower value.

    Args and errors: as in `token_logprobs`.

    Returns: float.
    """
    return float(token_logprobs(logits, token_ids, prompt_len, temperature).sum())


def nucleus_logprobs(logits, top_p, temperature=1.0):
    """Log-probabilities of the distribution that a top-p ("nucleus") sampler draws from.

    The sampler sorts the tokens from likely to unlikely, keeps the shortest list whose probability reaches top_p,
    and draws from it. Log-probs of the full softmax belong to another distribution: their ratio to these is the
    kept mass, below 1 although nothing was trained.

    Args:
        logits: (..., V), as in `log_softmax`. Of equal logits the one with the smaller id comes first.
        top_p: 0 .. 1. The token that crosses it is kept; 1 keeps every token, 0 the most likely one.
        temperature: logits are divided by it before anything else; > 0.

    Returns: (..., V) float64, in nats, each <= 0; -inf for tokens that are never drawn.

    Raises: ValueError as in `log_softmax`, or if top_p or temperature is out of range.

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration (arXiv 1904.09751), section 3.1.
    """
    top_p = as_nonnegative(top_p, "top_p")
    if top_p > 1:
        raise ValueError(f"top_p is {top_p}: pass a probability, 0 .. 1")
    scaled = as_floats(logits, "logits") / as_positive(temperature, "temperature")
    ranked = -np.sort(-log_softmax(scaled))
    order, chances = np.argsort(-scaled, stable=True), np.exp(ranked)
    # In floats the running sum may be 1 long before the last token, so top_p = 1 is no matter of comparing.
    needed = (np.cumsum(chances, axis=-1) - chances < top_p) | (top_p == 1)
    needed[..., 0] = True
    np.put_along_axis(scaled, order, np.where(needed, ranked, -np.inf), axis=-1)
    return log_softmax(scaled)


def completion_mask(completion_ids, stop_ids):
    """Which tokens belong to the completion: everything up to and including the first stop token.

    Decided by position, never by comparing with the padding id: many tokenizers pad with the end token
    itself, and masking by value would then drop the real one, so that the policy never learns to stop.

    Args:
        completion_ids: (..., T) integers, without the prompt. A row without a stop token was cut off and
            counts whole.
        stop_ids: set of the ids that end a completion; chat models have more than one.

    Returns: (..., T) bool.

    Raises: ValueError if ids are not integers or have no axis, or if stop_ids is not a non-empty set of
        integers.
    """
    ids = as_integers(completion_ids, "completion_ids")
    if ids.ndim == 0:
        raise ValueError(f"completion_ids is the single number {ids}: pass a sequence of ids")
    if not isinstance(stop_ids, (set, frozenset)) or not stop_ids:
        raise ValueError(f"stop_ids is {stop_ids!r}: pass a non-empty set, for example {{151643, 151645}}")
    is_stop = np.isin(ids, as_integers(list(stop_ids), "stop_ids"))
    stops_before = np.cumsum(is_stop, axis=-1) - is_stop
    return stops_before == 0


def masked_sum(values, mask):
    """Sum over the last axis of the values whose mask is true.

    Args:
        values: (..., T). What stands under a false mask never matters, not even NaN.
        mask: (..., T), bools or 0/1, of exactly the same shape.

    Returns: (...) float64.

    Raises: ValueError if the shapes differ, or the mask holds something other than 0 and 1.
    """
    values = as_floats(values, "values")
    keep = as_mask(mask, values.shape)
    # values * mask would keep a NaN: 0 * NaN is NaN.
    return np.where(keep, values, 0.0).sum(axis=-1)
