"""What grades a class: worker processes that run notebooks, and one process that writes the gradebook."""

import sys


def _without_a_grammar() -> None:
    """Import jsonschema, which nbformat needs, without its check of IRIs, which no notebook has.

    Where rfc3987_syntax is installed (JupyterLab brings it), importing it compiles a grammar for a second, in each
    process anew. jsonschema can do without.
    """
    if "jsonschema" in sys.modules or "rfc3987_syntax" in sys.modules:
        return
    sys.modules["rfc3987_syntax"] = None
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules["rfc3987_syntax"]


_without_a_grammar()
