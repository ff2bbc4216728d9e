"""A row's own page: what it did, how long its reads took, and for whom, where and why."""

from .. import units
from ..model.histogram import Histogram
from ..reporters.document import Section
from ..reporters.sections.sums import PLURALS, SOURCES
from ..reporters.terminal.chart import chart
from ..reporters.terminal.drawing import lines as drawn
from . import tabs
from .frame import Histograms, Kind
from .head import folded
from .tabs import KINDS, Row
from .view import View

_MOST_ROWS = 10
_NO_LATENCIES = "Latencies are kept of statements alone."


def lines(
    view: View, kind: Kind, number: int, latencies: Histograms | None, width: int
) -> list[str]:
    """Return them, folded to fit `width`, and as many as there are."""
    window, begin = view.window(), view.begin
    listing = tabs.listing(kind, window, view.kept, begin)
    row = next((each for each in listing.rows if each.number == number), None)
    said = [f"{KINDS[kind][:-1]} in the {view.where()}:", *_whole(row, width)]
    if row:
        alone = tabs.Listing(kind, "", listing.columns, [row._replace(name="")])
        said += ["", *_table(alone.fitting(width), width)]
    others: tuple[Kind, ...] = ("wait event", "backend", "statement", "relation", "device")
    for other in others:
        part = tabs.listing(other, window, view.kept, begin, (kind, number))
        if other == kind or not part.rows:
            continue
        most = part.sorted(tabs.first_order(part))
        said += ["", *_table(most.fitting(width), width)]
        if len(most.rows) > _MOST_ROWS:
            said.append(f"… and {units.count(len(most.rows) - _MOST_ROWS)} more.")
    if not has_latencies(kind, number):
        return [*said, "", *folded(_NO_LATENCIES, width)] if kind == "statement" else said
    if latencies and not latencies.by_source:
        return [*said, "", *folded(_no_latencies(view, latencies), width)]
    return [*said, "", *_latencies(latencies, width)]


def has_latencies(kind: Kind, number: int) -> bool:
    """Whether they are kept of such a row."""
    return kind != "wait event" and (kind, number) != ("statement", 0)


def _no_latencies(view: View, told: Histograms) -> str:
    """Why there are none: what was done is seen above them."""
    if told.kind == "statement" and told.number not in view.kept.names.statements:
        return "Latencies: not known before it has ended."
    within = told.kind, told.number
    if tabs.listing("relation", view.window(), view.kept, view.begin, within).rows:
        return "Latencies: not kept of it any more."
    return f"Latencies: none {_began(told)}."


def _whole(row: Row | None, width: int) -> list[str]:
    """What the row is of; a backend's has who it is, too."""
    if row is None:
        return ["Nothing was done by it in that time."]
    texts = [value for value in row.values if isinstance(value, str) and value]
    return folded(" ".join([*texts, row.name]), width)


def _table(listing: tabs.Listing, width: int) -> list[str]:
    return drawn([Section(listing.kind, [listing.table(_MOST_ROWS)])], width)


def _latencies(told: Histograms | None, width: int) -> list[str]:
    """By source; all since the start of tracing, for a shorter time they are not kept."""
    if told is None:
        return ["Latencies: looking …"]
    said = folded(f"Latencies, {_began(told)}:", width)
    for operation, name in PLURALS.items():
        for of, source, total_ns, buckets in told.by_source:
            if of == operation:
                where = f", {SOURCES.get(source, source)}" if operation == "read" else ""
                most = buckets[-1][1] - 1  # what the longest took is not told, but its bucket is
                found = Histogram.from_buckets(buckets, total_ns, None, most)
                said += ["", *_one(f"{name}{where}", found, width), *chart(found, width, name)]
    return said


def _began(told: Histograms) -> str:
    return f"since {units.duration(told.seconds * 1e9, 2)} ago, when tracing began"


def _one(title: str, found: Histogram, width: int) -> list[str]:
    p50, p99 = found.percentile(50) or 0, found.percentile(99) or 0
    said = (
        f"{title}: {units.count(found.count)}, mean {units.duration(found.mean_ns or 0)}, "
        f"p50 {units.duration(p50, 2)}, p99 {units.duration(p99, 2)}"
    )
    return folded(said, width)
