"""Collect the rollouts of a batch by the prompt they answer."""

from grpo.checks import as_count, require_same_length


def group_rollouts(prompt_ids, completions, group_size):
    """Put the completions of each prompt together, by id and not by position.

    Samplers return rows in any order (a, b, a, b is common), so a reshape to (prompts, group_size) would mix
    prompts without an error. Within a group the order of the input is kept; so is the order in which the
    prompts first appear.

    Args:
        prompt_ids: N hashable ids, one per completion.
        completions: N completions of any type (text, token ids, row numbers).
        group_size: G, rollouts per prompt, at least 1.

    Returns: dict, prompt id -> list of its G completions.

    Raises: ValueError if the lengths differ, if an id is not hashable, if a prompt has more or fewer than G
        completions, or if group_size is not a whole number of at least 1.

    Source: the group o_1 .. o_G of one question, DeepSeekMath (arXiv 2402.03300), section 4.1.1.
    """
    group_size = as_count(group_size, "group_size", minimum=1)
    require_same_length(prompt_ids=prompt_ids, completions=completions)

    groups = {}
    for row, (prompt_id, completion) in enumerate(zip(prompt_ids, completions, strict=True)):
        try:
            group = groups.setdefault(prompt_id, [])
        except TypeError as error:
            raise ValueError(
                f"prompt_ids[{row}] is {prompt_id!r}, which cannot be hashed: pass numbers, strings or tuples"
            ) from error
        group.append(completion)

    for prompt_id, group in groups.items():
        if len(group) != group_size:
            raise ValueError(
                f"prompt {prompt_id!r} has {len(group)} completions, expected {group_size}: "
                "sample the missing ones or drop the whole group"
            )
    return groups
