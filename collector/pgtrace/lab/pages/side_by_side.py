"""One storage of the pages experiment: sequential and random side by side, as text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import units
from ...model.lab_result import Finding, Storage
from ...reporters.sections.sums import PERFORMERS, SOURCES
from ...reporters.terminal.sentence import sentence
from ...terminal_text import escape
from ..core.figures import ORDERS, SIZES, Figures, Part, label
from ..core.finding_text import capital, interval, of_kind
from ..core.valid_runs import PATTERNS, Pattern
from .result import Block, By, Served

_NAME = 20
_COLUMN = 29
"""What stands for a pattern, after the name of the row."""
_SHORTEST_BAR = 4
PARTS: tuple[tuple[str, Callable[[Figures], Mapping[Any, Part]], Mapping[str, str]], ...] = (
    ("where served", lambda f: f.by_source, SOURCES),
    ("what was read", lambda f: f.by_kind, {}),
    (
        "at a time",
        lambda f: f.by_size,
        {s: "1 block" if s == "1" else f"{s} blocks" for s in SIZES},
    ),
    ("in what order", lambda f: f.by_order, {order: order for order in ORDERS}),
)
"""Titles, what stands below them, and what that is called, in its order."""

OVERLAPS = (
    "What I/O workers and io_uring read overlaps with the backend's work: compare the elapsed time."
)


def storage_lines(
    storage: Storage, of: Mapping[Pattern, Figures], found: Sequence[Finding], width: int
) -> list[str]:
    """Return its table, its histograms, and where its time went."""
    runs = ", ".join(
        f"{each.runs} {pattern} {'run' if each.runs == 1 else 'runs'}"
        for pattern, each in of.items()
    )
    intervals = {
        (f.details.pattern, f.details.by): interval(f, times=True)
        for f in of_kind(found, Block)
        if f.storage == storage.name
    }
    lines = [f"{escape(label(storage))}: {runs} added up", *_sums(of, intervals)]
    for title, parts, names in PARTS:
        lines += _parts(title, of, parts, names)
    if any(set(each.by_performer) - {"backend"} for each in of.values()):
        lines += _parts("who read", of, lambda f: f.by_performer, PERFORMERS)
        lines += sentence(OVERLAPS, width, 2)
    lines += ["", f"{escape(label(storage))}: latencies of reads", *_histograms(of, width)]
    for f in of_kind(found, Served):
        if f.storage == storage.name:
            lines += sentence(f"{capital(f.verdict)}.", width, 2)
    return lines


def _sums(of: Mapping[Pattern, Figures], intervals: Mapping[tuple[Pattern, By], str]) -> list[str]:
    def row(name: str, shown: Mapping[Pattern, str]) -> str:
        return f"  {name:<{_NAME}}" + "".join(f"{shown.get(p, '-'):>{_COLUMN}}" for p in PATTERNS)

    def known(name: str, counts: Mapping[Pattern, int | None]) -> list[str]:
        shown = {p: units.count(n) for p, n in counts.items() if n is not None}
        return [row(name, shown)] if shown else []

    def duration(ns: float | None, digits: int = 3) -> str:
        return "-" if ns is None else units.duration(ns, digits)

    def percentile(p: float) -> dict[Pattern, str]:
        return {k: duration(v.all.latencies.percentile(p), 2) for k, v in of.items()}

    return [
        row("", {p: p for p in PATTERNS}),
        row("reads", {p: units.count(f.all.reads) for p, f in of.items()}),
        row("bytes", {p: units.size(f.all.bytes) for p, f in of.items()}),
        row("blocks of 8 KiB", {p: f"{f.all.blocks:,.0f}" for p, f in of.items()}),
        row("from the device", {p: units.size(f.all.device_bytes) for p, f in of.items()}),
        *known("device requests", {p: f.device_requests for p, f in of.items()}),
        *known("shared hits", {p: f.shared_hits for p, f in of.items()}),
        row("mean per block", {p: duration(f.all.block_ns) for p, f in of.items()}),
        row("  95 % over runs", {p: intervals.get((p, "read latency"), "-") for p in of}),
        row("p50 of a read", percentile(50)),
        row("p90", percentile(90)),
        row("p99", percentile(99)),
        row("max", {p: duration(f.all.latencies.max_ns, 2) for p, f in of.items()}),
        row("elapsed per block", {p: duration(f.page_ns) for p, f in of.items()}),
        row("  95 % over runs", {p: intervals.get((p, "elapsed time"), "-") for p in of}),
    ]


def _parts(
    title: str,
    of: Mapping[Pattern, Figures],
    parts_of: Callable[[Figures], Mapping[Any, Part]],
    names: Mapping[str, str],
) -> list[str]:
    """Reads, their share of all time, and the mean per block, of each part of each pattern."""
    parts = {pattern: parts_of(each) for pattern, each in of.items()}
    there = list(dict.fromkeys(key for each in parts.values() for key in each))
    keys = [*(key for key in names if key in there), *(key for key in there if key not in names)]
    head = f"{'reads':>10}{'time':>8}{'a block':>11}"
    lines = [f"  {title:<{_NAME}}" + head * len(PATTERNS)]
    for key in keys:
        line = f"    {names.get(key, key):<{_NAME - 2}}"
        for pattern in PATTERNS:
            part = parts[pattern].get(key) if pattern in of else None
            if part is None:
                line += f"{'0' if pattern in of else '-':>10}{'':>19}"
                continue
            time = units.share(part.total_ns / max(1, of[pattern].all.total_ns))
            mean = "-" if part.block_ns is None else units.duration(part.block_ns)
            line += f"{units.count(part.reads):>10}{time:>8}{mean:>11}"
        lines.append(line.rstrip())
    return lines


def _histograms(of: Mapping[Pattern, Figures], width: int) -> list[str]:
    """Both over the same powers of two, no row left out between the first and the last."""
    rows = {p: {low: (count, time) for low, _, count, time in of[p].all.latencies.fold_time()}
            for p in of}  # fmt: skip
    lows = [low for each in rows.values() for low in each]
    if not lows:
        return ["  no reads"]
    most = {p: max((count for count, _ in each.values()), default=1) for p, each in rows.items()}
    digits = max(9, *(len(units.count(n)) + 1 for n in most.values()))
    bar = max(_SHORTEST_BAR, (width - 9 - 2 * (digits + 9)) // 2)
    lines = [
        f"{'':>9}" + "".join(f"{p:>{digits}}{'':{bar + 9}}" for p in PATTERNS).rstrip(),
        f"{'from':>9}" + f"{'reads':>{digits}}{'time':>{bar + 9}}" * len(PATTERNS),
    ]
    low = min(lows)
    while low <= max(lows):
        line = f"{units.bucket(low):>9}"
        for pattern in PATTERNS:
            if pattern not in of:
                line += f"{'-':>{digits}}{'-':>{bar + 9}}"
                continue
            count, time = rows[pattern].get(low, (0, 0))
            drawn = "█" * round(count * bar / most[pattern])
            share = units.share(time / max(1, of[pattern].all.total_ns))
            line += f"{units.count(count):>{digits}} {drawn:<{bar}}{share:>8}"
        lines.append(line)
        low = low * 2 or 1
    return lines
