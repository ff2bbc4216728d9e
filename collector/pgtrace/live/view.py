"""What a live screen looks at: which list, in which order, of which part of the last minutes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from . import tabs
from .frame import Begin, Kind
from .kept import Kept, Window
from .names import MINUTES
from .tabs import KINDS, Listing

SPANS = {1: "1 s", 10: "10 s", 60: "1 min", MINUTES * 60: f"{MINUTES} min"}
"""Seconds that are added up."""
TABS: Sequence[Kind] = tuple(KINDS)


class Order(NamedTuple):
    """By which column a list is sorted, and what comes first."""

    title: str
    most_first: bool = True


@dataclass(slots=True)
class View:
    """One screen's choices."""

    begin: Begin
    kept: Kept = field(default_factory=Kept)
    tab: Kind = "backend"
    seconds: int = 1
    """One of SPANS."""
    having: str = ""
    """Only rows with this text."""
    orders: dict[Kind, Order] = field(default_factory=dict)
    _at: int | None = None
    """How many frames had come at the moment that is looked at; None: the newest is."""
    _window: tuple[tuple[int, int, int], Window] = ((0, 0, 0), Window())
    """The last, and what it was of."""

    @property
    def paused(self) -> bool:
        """Whether what comes does not change what is seen."""
        return self._at is not None

    @property
    def back(self) -> int:
        """How many frames have come since the moment that is looked at."""
        if self._at is None:
            return 0
        return min(self.kept.came - self._at, max(len(self.kept) - 1, 0))

    def pause(self) -> None:
        """Stay at this moment, or go on."""
        self._at = None if self.paused else self.kept.came

    def go(self, seconds: int) -> None:
        """Look at a later moment, or an earlier one; the newest goes on by itself."""
        if not self.kept.came:
            return
        least = self.kept.came - len(self.kept) + 1
        at = self.kept.came - self.back + seconds
        self._at = None if at >= self.kept.came and seconds > 0 else max(at, least)

    def longer(self) -> None:
        """Add up more seconds; after the most, one again."""
        spans = list(SPANS)
        self.seconds = spans[(spans.index(self.seconds) + 1) % len(spans)]

    def window(self) -> Window:
        """What is looked at."""
        key = self.kept.came, self.seconds, self.back
        if self._window[0] != key:
            self._window = key, self.kept.window(self.seconds, back=self.back)
        return self._window[1]

    def listing(self) -> Listing:
        """The list as it is to be seen."""
        found = tabs.listing(self.tab, self.window(), self.kept, self.begin)
        order = self.order(found)
        titles = [column.title for column in found.columns]
        ordered = found.sorted(
            titles.index(order.title), most_first=order.most_first, having=self.having
        )
        if found.rows and not ordered.rows:
            return replace(ordered, empty=f"no row has {self.having!r}.")
        return ordered

    def order(self, listing: Listing) -> Order:
        """How this list is sorted."""
        first = listing.columns[tabs.first_order(listing)].title
        return self.orders.get(listing.kind, Order(first))

    def sort_by(self, listing: Listing, title: str) -> None:
        """By this column; by the same one again, the other way round."""
        old = self.order(listing)
        self.orders[listing.kind] = Order(title, not (old.title == title and old.most_first))

    def sort_beside(self, listing: Listing, titles: Sequence[str], step: int) -> None:
        """By the next of these columns to the right, or with -1 to the left; they are those that
        are seen, among which is the one by which it is sorted.
        """
        title = self.order(listing).title
        if title in titles:
            at = (titles.index(title) + step) % len(titles)
            self.orders[listing.kind] = Order(titles[at])

    def where(self) -> str:
        """What is looked at, in words: of which seconds, in which rows."""
        said = [f"last {SPANS[self.seconds]}" if not self.paused else self._paused()]
        if self.having:
            said.append(f"with {self.having!r}")
        return ", ".join(said)

    def _paused(self) -> str:
        window = self.window()
        at = (
            f"{datetime.fromtimestamp(window.ended, UTC):%H:%M:%S}" if window.ended else "the begin"
        )
        return f"PAUSED at {at}, {SPANS[self.seconds]}"
