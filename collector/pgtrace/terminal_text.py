"""Text made fit for a terminal: control characters harmless, whatever the bytes were."""

import codecs
import re

ELLIPSIS = "…"

_UNSAFE = re.compile(
    # C0, DEL and C1; marks and overrides of direction; separators of lines; halves of pairs.
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|µs|ms|s|[KMGTPE]iB|B)(?:\W|$))")
_KEPT = "\ue000"
"""Of a private area, and as wide as a space: what folds text takes it for a letter."""


def kept_together(text: str) -> str:
    """Let no line end between a number and its unit; folded() undoes it afterwards."""
    return with_units_kept(text, _KEPT)


def with_units_kept(text: str, space: str) -> str:
    """With that in the place of each space between a number and its unit."""
    return _NUMBER_AND_UNIT.sub(space, text)


def folded(lines: list[str]) -> list[str]:
    """The lines as they are to be seen."""
    return [line.replace(_KEPT, " ") for line in lines]


def escape(text: str, *, lines: bool = False) -> str:
    r"""Make `text` harmless to a terminal: \x1b, \u202e in place of what would act on it.

    On one line, a run of line breaks and tabs becomes a space; with `lines` they are kept.
    """
    if not lines:
        text = re.sub(r"(?:\r?\n|\t)+", " ", text)

    def shown(match: re.Match[str]) -> str:
        code = ord(match[0])
        if lines and match[0] in "\n\t":
            return match[0]
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return _UNSAFE.sub(shown, text)


def shown(text: str | None, *, cut: bool) -> str:
    """A statement as reports have it, which show where it was cut."""
    if text is None:
        return "(text not known)"
    return f"{text.rstrip()} {ELLIPSIS}" if cut and not text.endswith(ELLIPSIS) else text


def without_end(statement: str) -> str:
    """A statement without the semicolons and white space at its end."""
    return statement.rstrip("; \t\r\n")


def shortened(text: str, most: int) -> str:
    """Its begin, which ends with a word or in one, if it has more characters than that."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}{ELLIPSIS}"


def decode(raw: bytes, cut: bool = False, errors: str = "backslashreplace") -> str:
    r"""Read bytes as UTF-8; those that are not are shown as \xff.

    Of a text that was `cut`, part of a character at its end is left out.
    """
    return codecs.utf_8_decode(raw, errors, not cut)[0]
