"""Characters for terminals whose locale has no others than those of ASCII."""

import os

_PLAIN = str.maketrans(
    {
        "µ": "u", "…": "~", "×": "x", "·": ".", "■": "#", "▼": "v", "▲": "^", "│": "|", "─": "-",
        "▁": ".", "▂": ":", "▃": "-", "▄": "=", "▅": "+", "▆": "*", "▇": "%", "█": "#",
        "↑": "Up", "↓": "Down",
    }
)  # fmt: skip


def has_utf8() -> bool:
    """Whether the locale of the environment can show more than ASCII.

    As setlocale(3) reads it; Python itself takes UTF-8 for the C locale (PEP 540), which says
    nothing of the terminal.
    """
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    chosen = next((name for name in names if name), "C")
    return "utf8" in chosen.lower().replace("-", "")


def plain(text: str) -> str:
    """The text in ASCII: with what looks alike, and else `?`."""
    return text.translate(_PLAIN).encode("ascii", "replace").decode()
