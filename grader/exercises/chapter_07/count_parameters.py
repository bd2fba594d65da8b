"""The exercise `count_parameters`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common import CHAPTER, QWEN3_0_6B, QWEN3_8B, SMALL, draw_config


def _widths(config):
    """The numbers of a configuration under short names: q and k are the widths of queries and of keys."""
    heads, kv_heads, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    return SimpleNamespace(
        vocab=config["vocab_size"],
        hidden=config["hidden_size"],
        inner=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=kv_heads,
        dim=dim,
        q=heads * dim,
        k=kv_heads * dim,
        tied=config["tie_word_embeddings"],
    )


def _projections(w):
    return 2 * w.hidden * w.q + 2 * w.hidden * w.k


def _mlp(w):
    return 3 * w.hidden * w.inner


def _norms(w):
    return 2 * w.hidden + 2 * w.dim


def _embeddings(w):
    return w.vocab * w.hidden * (1 if w.tied else 2)


def _last_norm(w):
    return w.hidden


def _counted(projections=_projections, mlp=_mlp, norms=_norms, embeddings=_embeddings, last=_last_norm, widths=None):
    """A count with some of its terms made otherwise; `widths` may change the numbers before they are used."""

    def count(config):
        w = _widths(config)
        if widths:
            widths(w)
        return embeddings(w) + w.layers * (projections(w) + mlp(w) + norms(w)) + last(w)

    return count


count_parameters = _counted()


def _old_head_dim(w):
    w.dim = w.hidden // w.heads
    w.q, w.k = w.heads * w.dim, w.kv_heads * w.dim


def _divided_head_dim(w):
    w.dim = w.hidden / w.heads
    w.q, w.k = w.heads * w.dim, w.kv_heads * w.dim


def _one_layer(w):
    w.layers = 1


def _embedding_in_each_layer(config):
    w = _widths(config)
    return w.layers * (_embeddings(w) + _projections(w) + _mlp(w) + _norms(w)) + w.hidden


def _from_shapes(config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    layer = [(queries, hidden), (keys, hidden), (keys, hidden), (hidden, queries)]
    layer += [(config["head_dim"],)] * 2 + [(hidden,)] * 2
    layer += [(inner, hidden), (inner, hidden), (hidden, inner)]
    shapes = [(config["vocab_size"], hidden), (hidden,)] + layer * config["num_hidden_layers"]
    if not config["tie_word_embeddings"]:
        shapes.append((config["vocab_size"], hidden))
    return sum(prod(shape) for shape in shapes)


def _layer_by_layer(config):
    total = config["vocab_size"] * config["hidden_size"]
    if config["tie_word_embeddings"] is False:
        total += total
    for _ in range(config["num_hidden_layers"]):
        for heads in (config["num_attention_heads"], config["num_key_value_heads"]):
            total += 2 * config["hidden_size"] * heads * config["head_dim"] + config["head_dim"]
        total += config["hidden_size"] * (config["intermediate_size"] * 3 + 2)
    return float(total + config["hidden_size"])


def _plain_calls(rng):
    """As many key/value heads as heads, and all of them together as wide as hidden_size."""
    heads, dim = int(rng.integers(2, 5)), 2 * int(rng.integers(2, 5))
    drawn = draw_config(
        rng, num_attention_heads=heads, num_key_value_heads=heads, head_dim=dim, hidden_size=heads * dim
    )
    return [call(SMALL), call(drawn)]


def _heads_calls(rng):
    config = draw_config(rng)
    kv_heads, heads = config["num_key_value_heads"], config["num_attention_heads"]
    return [
        call(config),
        call({**config, "num_key_value_heads": heads}, note="each head has a key and a value of its own"),
        call({**config, "num_attention_heads": heads + 2 * kv_heads}, note="more heads of the same width"),
    ]


def _heads_are_right(values, calls):
    for i in (1, 2):
        name = "num_key_value_heads" if i == 1 else "num_attention_heads"
        before, after = (calls[k].args[0][name] for k in (0, i))
        right = count_parameters(calls[i].args[0]) - count_parameters(calls[0].args[0])
        mine = float(values[i]) - float(values[0])
        if mine != right:
            return i, (
                f"with {after} for {before} under {name!r} the model grows by {right:,} parameters, by your count "
                f"by {mine:,.0f}"
            )
    return None


def _tied_calls(rng):
    drawn = draw_config(rng)
    return [call({**config, "tie_word_embeddings": tied}) for config in (SMALL, drawn) for tied in (True, False)]


def _tied_is_right(values, calls):
    for i in (0, 2):
        config = calls[i].args[0]
        right = config["vocab_size"] * config["hidden_size"]
        mine = float(values[i + 1]) - float(values[i])
        if mine != right:
            return i + 1, (
                f"untied, the model has one matrix of {config['vocab_size']} x {config['hidden_size']} more than tied; "
                f"by your count it has {mine:,.0f} parameters more"
            )
    return None


COUNT_PARAMETERS = Exercise(
    name="count_parameters",
    chapter=CHAPTER,
    difficulty=1,
    minutes=12,
    reference=count_parameters,
    rtol=0.0,  # the last norm of Qwen3-0.6B is one parameter in 600,000
    atol=0.25,
    parts=(
        Part(
            says="a plain model: all matrices and norms, each once",
            points=1,
            calls=_plain_calls,
            hint="Write down the shape of every matrix and every norm of one layer, multiply out, add. Then what "
            "stands before the first layer and behind the last.",
        ),
        Part(
            says="fewer key/value heads than heads, and heads wider than hidden_size / heads",
            points=1,
            calls=_heads_calls,
            holds=_heads_are_right,
            hint="Which of the four projections of attention have to do with queries, and which with keys and values? "
            "How wide is each, in numbers of `head_dim`?",
        ),
        Part(
            says="tied or untied: the output matrix",
            points=1,
            calls=_tied_calls,
            holds=_tied_is_right,
            hint="Tied means that the output matrix *is* the embedding. What `tie_word_embeddings` says decides.",
        ),
        Part(
            says="real models, to the last parameter",
            points=1,
            calls=lambda rng: [
                call(QWEN3_0_6B, note="Qwen3-0.6B"),
                call(QWEN3_8B, note="Qwen3-8B"),
                call(draw_config(rng, tie_word_embeddings=bool(rng.integers(2)))),
            ],
            hint="All of it has to be right here. A small difference is a norm, a large one a matrix.",
        ),
    ),
    shortcuts=("ModelShape",),
    mistakes=(
        Mistake(
            "tied matrix counted twice",
            _counted(embeddings=lambda w: 2 * w.vocab * w.hidden),
            "The embedding and the output matrix were both counted although they are tied. For Qwen3-0.6B that makes "
            "155 million parameters too many: a quarter of the model that is not there.",
        ),
        Mistake(
            "untied output matrix forgotten",
            _counted(embeddings=lambda w: w.vocab * w.hidden),
            "An untied model has two matrices of the size of the vocabulary, and one was counted. The setting "
            "`tie_word_embeddings` changes nothing in your count.",
        ),
        Mistake(
            "tied turned round",
            _counted(embeddings=lambda w: w.vocab * w.hidden * (2 if w.tied else 1)),
            "Tied models get two large matrices and untied ones get one. It is the other way round.",
        ),
        Mistake(
            "embedding forgotten",
            _counted(embeddings=lambda w: 0),
            "No matrix of the size of the vocabulary was counted. In a small model that is a large share of all.",
        ),
        Mistake(
            "embedding in each layer",
            _embedding_in_each_layer,
            "The embedding was multiplied by the number of layers. It stands before the first layer, once. Look at "
            "your brackets.",
        ),
        Mistake(
            "norms of queries and keys forgotten",
            _counted(norms=lambda w: 2 * w.hidden),
            "A little is missing in each layer: Qwen3 normalises queries and keys, and both norms have weights.",
        ),
        Mistake(
            "a norm for each head",
            _counted(norms=lambda w: 2 * w.hidden + w.q + w.k),
            "Each head got a norm of its own. All heads of the queries share one norm of `head_dim` numbers, and so do "
            "those of the keys.",
        ),
        Mistake(
            "norms of hidden_size for queries and keys",
            _counted(norms=lambda w: 4 * w.hidden),
            "The norms of queries and of keys were counted with `hidden_size` numbers each. They normalise one head at "
            "a time: `head_dim` numbers.",
        ),
        Mistake(
            "one norm for queries and keys",
            _counted(norms=lambda w: 2 * w.hidden + w.dim),
            "One norm of `head_dim` numbers is missing in each layer: queries and keys have one each.",
        ),
        Mistake(
            "one norm a layer",
            _counted(norms=lambda w: w.hidden + 2 * w.dim),
            "A layer has two norms of `hidden_size`: one before attention and one before the MLP.",
        ),
        Mistake(
            "last norm forgotten",
            _counted(last=lambda w: 0),
            "`hidden_size` parameters are missing in all, however many layers there are. What comes between the last "
            "layer and the output matrix?",
        ),
        Mistake(
            "all norms forgotten",
            _counted(norms=lambda w: 0, last=lambda w: 0),
            "Only matrices were counted. Norms have few weights, but they are trained and saved like all others.",
        ),
        Mistake(
            "norms with a bias",
            _counted(norms=lambda w: 4 * w.hidden + 4 * w.dim, last=lambda w: 2 * w.hidden),
            "Each norm was counted with two weights per number. These norms (RMSNorm) have no bias: one weight per "
            "number.",
        ),
        Mistake(
            "heads for key/value heads",
            _counted(widths=lambda w: setattr(w, "k", w.q)),
            "Keys and values were counted with all heads. Several heads share one key and one value: see "
            "`num_key_value_heads`. That sharing keeps the cache small.",
        ),
        Mistake(
            "key/value heads for all four",
            _counted(projections=lambda w: 4 * w.hidden * w.k),
            "Queries and the output projection were counted with `num_key_value_heads`. Only keys and values have so "
            "few.",
        ),
        Mistake(
            "one projection for keys and values",
            _counted(projections=lambda w: 2 * w.hidden * w.q + w.hidden * w.k),
            "One projection of the width of the keys is missing: keys and values have one each.",
        ),
        Mistake(
            "output projection forgotten",
            _counted(projections=lambda w: w.hidden * w.q + 2 * w.hidden * w.k),
            "One projection of the width of the queries is missing in each layer: what the heads bring back has "
            "to become `hidden_size` numbers again.",
        ),
        Mistake(
            "output projection hidden x hidden",
            _counted(projections=lambda w: w.hidden * w.q + 2 * w.hidden * w.k + w.hidden**2),
            "The output projection was counted as `hidden_size` x `hidden_size`. Its input are all heads side by side, "
            "and in Qwen3-0.6B these are twice as wide.",
        ),
        Mistake(
            "queries hidden x hidden",
            _counted(projections=lambda w: 2 * w.hidden**2 + 2 * w.hidden * w.k),
            "The projections of the queries and back were counted as `hidden_size` x `hidden_size`. The heads side by "
            "side need not be as wide as `hidden_size`: in Qwen3-0.6B they are 2048 to 1024.",
        ),
        Mistake(
            "all four projections hidden x hidden",
            _counted(projections=lambda w: 4 * w.hidden**2),
            "All four projections of attention were counted as `hidden_size` x `hidden_size`. They lead from there to "
            "the heads side by side, and back: queries and keys have widths of their own.",
        ),
        Mistake(
            "head_dim = hidden_size / heads",
            _counted(widths=_old_head_dim),
            "The width of a head was worked out as `hidden_size` / heads. Here it is a setting of its own: Qwen3-0.6B "
            "has 128, where the division gives 64.",
        ),
        Mistake(
            "head_dim with a fraction",
            _counted(widths=_divided_head_dim),
            "The width of a head was worked out as `hidden_size` / heads, and is no whole number here. It is a setting "
            "of its own: Qwen3-0.6B has 128, where the division gives 64.",
        ),
        Mistake(
            "counted as an older model",
            _counted(norms=lambda w: 2 * w.hidden, widths=_old_head_dim),
            "The width of a head was worked out as `hidden_size` / heads, and queries and keys have no norms: that is "
            "how Llama and Qwen2 are built. In Qwen3 `head_dim` is a setting of its own, and both are normalised.",
        ),
        Mistake(
            "biases counted",
            _counted(projections=lambda w: _projections(w) + w.q + 2 * w.k),
            "A bias was counted for queries, keys and values. Qwen2 has these; Qwen3 has none.",
        ),
        Mistake(
            "biases everywhere",
            _counted(
                projections=lambda w: _projections(w) + w.q + 2 * w.k + w.hidden,
                mlp=lambda w: _mlp(w) + 2 * w.inner + w.hidden,
            ),
            "A bias was counted for every matrix of a layer. Qwen3 has no biases at all.",
        ),
        Mistake(
            "two MLP matrices",
            _counted(mlp=lambda w: 2 * w.hidden * w.inner),
            "The MLP was counted with two matrices. This one has three: gate, up and down.",
        ),
        Mistake(
            "one layer",
            _counted(widths=_one_layer),
            "One layer was counted. There are `num_hidden_layers` of them, each with weights of its own.",
        ),
    ),
    alternatives=(
        Alternative("a list of shapes", _from_shapes),
        Alternative("layer by layer, as a float", _layer_by_layer),
    ),
    hint="embedding (and output matrix) + layers x (attention + MLP + norms) + the last norm",
)
