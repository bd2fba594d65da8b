r"""From a question to the tokens that the model is given. No torch needed.

A base model continues a text, so its prompt is a text that an answer follows naturally. A chat model expects the turns
of its template; Qwen3's has a switch: with thinking the answer begins with <think>, without it the prompt already ends
in an empty thought. Either way a completion holds its own <think>, or none, as `grpo.strip_reasoning` wants it.
"""

# Qwen3 ends a text with the first (the base model) or a turn with the second (the chat model); either may come from
# either model, so both must stop a completion.
QWEN3_END_OF_TEXT = 151_643
QWEN3_END_OF_TURN = 151_645
QWEN3_STOP_IDS = frozenset({QWEN3_END_OF_TEXT, QWEN3_END_OF_TURN})

ANSWER_IN_BOX = r"Write the final answer as \boxed{...}."
STEP_BY_STEP = "Explain step by step."

PROMPT_STYLES = {
    "plain": "the question as it is, nothing added (the tiny model's tasks are written this way)",
    "base": "a text for a base model: the problem, how to give the answer, and where the solution begins",
    "step_by_step": "the same with a request to explain step by step: a control that needs no training",
    "chat_thinking": "one turn of the chat template, thinking on",
    "chat_direct": "one turn of the chat template, thinking off",
}


def render_prompt(question, style="plain", tokenizer=None):
    """The text of the prompt.

    Args:
        question: str, not blank.
        style: a key of PROMPT_STYLES.
        tokenizer: any transformers tokenizer; needed by the chat styles, whose template it has.

    Returns: str. It ends where the completion begins.

    Raises: ValueError if the question is no str or is blank, if the style is unknown, or if a chat style is given a
        tokenizer without a template.
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"question is {question!r}: a prompt is a string that is not blank")
    if style not in PROMPT_STYLES:
        raise ValueError(f"style is {style!r}: choose one of {', '.join(PROMPT_STYLES)}")
    if style == "plain":
        return question
    if style.startswith("chat_"):
        return _chat_template(tokenizer, question, style, tokenize=False)
    steps = f"{STEP_BY_STEP} " if style == "step_by_step" else ""
    return f"Problem: {question.strip()}\n\n{steps}{ANSWER_IN_BOX}\n\nSolution:"


def encode_prompt(tokenizer, question, style="plain"):
    """The token ids of `render_prompt`.

    Args: as `render_prompt`.

    Returns: list of int, not empty.

    Raises: ValueError also if the question holds a special token such as <|im_end|> (it would end the turn in the
        middle of the question) or a part that the tokenizer has no token for.
    """
    text = render_prompt(question, style, tokenizer)
    for token in tokenizer.all_special_tokens:
        if token in question:
            raise ValueError(f"the question holds {token}, which the model reads as a command: take it out")
    if style.startswith("chat_"):
        ids = _chat_template(tokenizer, question, style, tokenize=True)
    else:
        # add_special_tokens: what the model sees is what render_prompt shows, whatever the tokenizer likes to add.
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    ids = [int(token) for token in ids]
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
        raise ValueError(f"the tokenizer has no token for a part of {question!r}: leave out what it does not know")
    return ids


def encode_prompts(tokenizer, questions, style="plain"):
    """`encode_prompt` of each question.

    Returns: list of lists of int, ready for the sampler.

    Raises: ValueError as `encode_prompt`, with the number of the question.
    """
    prompts = []
    for row, question in enumerate(questions):
        try:
            prompts.append(encode_prompt(tokenizer, question, style))
        except ValueError as error:
            raise ValueError(f"questions[{row}]: {error}") from error
    return prompts


def _chat_template(tokenizer, question, style, tokenize):
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(f"style {style} needs a tokenizer with a chat template: pass one, or use style base")
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": f"{question.strip()}\n\n{ANSWER_IN_BOX}"}],
        tokenize=tokenize,
        add_generation_prompt=True,
        enable_thinking=style == "chat_thinking",
        # The default changed: transformers 4 gave the ids, transformers 5 gives a dict, whose length is 2.
        return_dict=False,
    )
