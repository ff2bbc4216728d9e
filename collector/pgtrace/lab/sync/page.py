"""The sync experiment as chapters of a page: two servers side by side, and their syncs."""

from ... import units
from ...model.histogram import Histogram
from ...reporters.html.parts import Row, paragraphs, part, table
from ..core.finding_text import verdict_of
from .findings import PHASES, groups, measures, names
from .report import (
    SHOWN,
    certain,
    differences,
    explained,
    group_name,
    loads,
    means,
    title,
    verdicts_of,
)
from .result import SyncResult


def chapters(result: SyncResult) -> list[tuple[str, str, str]]:
    """Return (anchor, title, content): one chapter for each load, the syncs, the differences."""
    if len(names(result)) != 2 or not result.cells:
        return []
    one, other = names(result)
    verdicts = verdicts_of(result)
    columns = [one, other, f"{other} by {one}", "95 % interval", "what it says"]
    made = []
    for load in loads(result):
        parts = []
        for phase in PHASES:
            rows = []
            for told in measures(result, phase):
                shown = means(result, load, phase, told)
                if any(cell != "-" for cell in shown):
                    found = verdicts.get((load, phase, told.by))
                    verdict = verdict_of(found) if found else "-"
                    rows.append(Row(told.by.strip(), [*shown, *certain(found), verdict]))
            if rows:
                heads = [("", columns)]
                parts.append(table(f"{phase}", "", heads, rows, words=["what it says"]))
        made.append((f"sync-{load}", title(result, load), "\n".join(parts)))
    made.append(("syncs", "Latencies of syncs", _syncs(result)))
    words = paragraphs([explained(result), *differences(result)])
    made.append(("differences", "Differences", words))
    return made


def _syncs(result: SyncResult) -> str:
    """A table for each kind of file, type of backend and call."""
    made = []
    for group, by_server in groups(result).items():
        servers = names(result)
        latencies = [Histogram.of(by_server.get(name, [])) for name in servers]
        rows = [
            Row(name, [cell for h in latencies for cell in (value(h) if h.count else "-", "-")])
            for name, value in SHOWN.items()
        ]
        folded = [{low: (n, ns) for low, _, n, ns in h.fold_time()} for h in latencies]
        lows = [low for each in folded for low in each]
        low = min(lows)
        while low <= max(lows):
            cells = []
            for h, each in zip(latencies, folded, strict=True):
                count, ns = each.get(low, (0, 0))
                cells += [units.count(count), units.share(ns / max(1, h.total_ns))]
            rows.append(Row(f"from {units.bucket(low)}", cells))
            low = low * 2 or 1
        heads = [(name, ["calls", "share of the time"]) for name in servers]
        name = group_name(group)
        made.append(part(name, table(f"{name}: all phases and runs added up", "", heads, rows)))
    return "\n".join(made)
