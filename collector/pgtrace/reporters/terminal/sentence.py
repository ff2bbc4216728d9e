"""Sentences that fit a terminal."""

import textwrap

from ...terminal_text import escape, folded, kept_together

NARROWEST = 40


def sentence(text: str, width: int, indent: int = 0) -> list[str]:
    """Return it in lines of at most `width` columns, harmless to a terminal.

    The first is indented so far; the others too, or by two where that is nothing.
    """
    return folded(
        textwrap.wrap(
            kept_together(escape(text)),
            max(width, NARROWEST),
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent or 2),
            break_on_hyphens=False,
        )
    )
