"""The numbers of a Qwen3 configuration that decide about memory, and what a layer of that shape keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelShape:
    """The numbers of a Qwen3 configuration that decide about memory.

    vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim: ints.
    tied: whether embedding and output projection are one matrix.
    """

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool

    @classmethod
    def of(cls, config):
        """From a transformers Qwen3Config; a ModelShape is returned as it is."""
        if isinstance(config, cls):
            return config
        return cls(
            config.vocab_size,
            config.hidden_size,
            config.intermediate_size,
            config.num_hidden_layers,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
            config.tie_word_embeddings,
        )

    @property
    def queries(self):
        """Width of all query heads side by side."""
        return self.heads * self.head_dim

    @property
    def keys(self):
        """Width of all key heads side by side."""
        return self.kv_heads * self.head_dim

    @property
    def parameters(self):
        """Number of parameters, a tied matrix once."""
        norms = 2 * self.hidden + 2 * self.head_dim
        matrices = self.output_numbers * (1 if self.tied else 2)
        return matrices + self.layers * (self.layer_matrix_numbers + norms) + self.hidden

    @property
    def cache_numbers_per_token(self):
        """Keys and values that one token leaves in the cache, over all layers."""
        return 2 * self.layers * self.keys

    @property
    def output_numbers(self):
        """Entries of the output matrix, and of the embedding."""
        return self.vocabulary * self.hidden

    @property
    def layer_matrix_numbers(self):
        """Entries of one layer's matrices."""
        return 2 * self.hidden * (self.queries + self.keys) + 3 * self.hidden * self.intermediate

    @property
    def matrix_numbers(self):
        """Entries of the matrices that multiply tokens, the output matrix included, tied or not."""
        return self.layers * self.layer_matrix_numbers + self.output_numbers

    def layer_activations(self, tokens, seen, product_bytes=4, shares_keys=True):
        """Bytes that one layer keeps for the backward pass.

        Args:
            tokens: those that run through it: every prompt once, and the completions.
            seen: tokens in whole rows, prompt and completion: what the completions look at.
            product_bytes: 4, or 2 for products in half precision under autocast.
            shares_keys: whether attention takes the heads of a group's key as they are; False where keys and values
                are written out once per head (on a GPU).

        In terms of the widths H (hidden), I (intermediate), A (heads * head_dim), K (kv_heads * head_dim), numbers per
        token, of 4 bytes each (float32) and of product_bytes (p):

            two norms: what goes in, the same normalised; what comes out   4 H + 2     float32;  2 H  p
            gate before and after the activation, up, their product                              4 I  p
            query as projected, normalised; rotated, padded                2 A + 1 per head;     2 A  p
            attention's result as computed, and without padding            1 per head;           2 A  p
            key as projected and normalised                                2 K + 1 per kv head
            key rotated, value; both padded                                                      3 K  p

        (in half precision the projections are cast up before they are normalised), and 2 K p per seen token: keys and
        values of its own and of its prompt, side by side for each rollout; 2 A p if they are not shared.
        """
        hidden, queries, keys = self.hidden, self.queries, self.keys
        full = 4 * hidden + 2 + 2 * queries + 2 * self.heads + 2 * keys + self.kv_heads
        half = 2 * hidden + 4 * self.intermediate + 4 * queries + 3 * keys
        looked_at = 2 * (keys if shares_keys else queries)
        return tokens * (4 * full + product_bytes * half) + seen * product_bytes * looked_at

    def layer_gradients(self, tokens, product_bytes=4):
        """Bytes that a layer of the backward pass takes at its most beyond what the layer keeps.

        That is in the MLP, at gate times up: the gradients of the residual stream (float32), of the product and of both
        factors, while the product itself is gone; and the gradient of one matrix before it is added to the others.
        """
        numbers = 4 * self.hidden + product_bytes * 2 * self.intermediate
        return tokens * numbers + 4 * self.hidden * self.intermediate
