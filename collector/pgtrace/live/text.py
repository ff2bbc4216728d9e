"""A live screen as plain text, for scripts: the head, and one list."""

from ..reporters.document import Section
from ..reporters.terminal.drawing import lines as drawn
from . import head, tabs
from .frame import Begin, Kind
from .kept import Kept
from .tabs import KINDS


def screen(begin: Begin, kept: Kept, kind: Kind, *, rows: int, width: int) -> str:
    """Return the screen of the last second."""
    window = kept.window(1)
    listing = tabs.listing(kind, window, kept, begin)
    said = head.lines(begin, window, kept, width=width)
    if listing.rows:
        ordered = listing.sorted(tabs.first_order(listing))
        said += ["", *drawn([Section(kind, [ordered.fitting(width).table(rows)])], width)]
    else:
        said += ["", f"{KINDS[kind]}: {listing.empty}"]
    return "\n".join(said) + "\n"
