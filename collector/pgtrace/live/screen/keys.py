"""The keys of the live screen, and what they do."""

from textual.binding import Binding, BindingType

from ..names import MINUTES

KEYS = (
    ("1 to 5, Tab", "another list"),
    ("↑ ↓ PgUp PgDn Home End", "another row"),
    ("< >", "sort by the column to the left, to the right; r turns the order round"),
    ("/", "only rows with this text, as it is typed; Esc: all again"),
    ("Enter", "a row's own page; Esc or q leaves it"),
    ("t", "add up the last second, 10 s, 1 min, 10 min"),
    ("space", "pause, and go on"),
    ("[ ] { }", f"a second, a minute back and forth in the last {MINUTES} minutes"),
    ("w", f"write the last minutes, at most {MINUTES}, as a capture"),
    ("?", "these keys, and what was said below"),
    ("q, Ctrl-C", "leave; on a page, q goes back to the list"),
)
"""As the guide has them."""
HINTS = (
    "? keys", "q leave", "Enter row", "/ filter", "< > sort", "t time", "space pause", "[ ] back",
    "w write",
)  # fmt: skip


def before_focus(*keys: tuple[str, str]) -> list[BindingType]:
    """What is done at each of these, before whoever has the focus gets it.

    textual 8.2 hands a key to that one first, and when it comes back as nobody's, the keys typed
    behind it have gone the same way. A filter lost its first letters so, where the machine was busy
    or the text was pasted.
    """
    return [Binding(several, action, priority=True) for several, action in keys]


def hints(width: int) -> str:
    """As many of the hints as there is room for, the most important first."""
    said = ""
    for hint in HINTS:
        longer = f"{said}  {hint}" if said else hint
        if len(longer) > width:
            break
        said = longer
    return said
