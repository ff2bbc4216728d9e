"""One storage of the pages experiment: sequential and random side by side, as text."""

from collections.abc import Mapping, Sequence

from .. import units
from ..lab import pages_findings
from ..lab.figures import PATTERNS, Figures, Part, Pattern, label
from ..lab.result import Finding, Storage
from ..statement import escape
from .block import PERFORMERS, SOURCES
from .lab_findings import capital, interval
from .sentence import sentence

_NAME = 20
_COLUMN = 29
"""What stands for a pattern, after the name of the row."""
_SHORTEST_BAR = 4


def storage_lines(
    storage: Storage, of: Mapping[Pattern, Figures], found: Sequence[Finding], width: int
) -> list[str]:
    """Return its table, its histograms, and where its time went."""
    runs = ", ".join(
        f"{each.runs} {pattern} {'run' if each.runs == 1 else 'runs'}"
        for pattern, each in of.items()
    )
    intervals: dict[tuple[object, object], str] = {
        (f.details.get("pattern"), f.details.get("by")): interval(f, times=True)
        for f in found
        if f.name == pages_findings.BLOCK and f.storage == storage.name
    }
    lines = [f"{escape(label(storage))}: {runs} added up", *_sums(of, intervals)]
    lines += _parts("where served", of, {p: {SOURCES.get(s, s): part for s, part in
        each.by_source.items()} for p, each in of.items()})  # fmt: skip
    lines += _parts(
        "what was read",
        of,
        {p: {str(kind): part for kind, part in each.by_kind.items()} for p, each in of.items()},
    )
    sizes = {
        p: {f"{s} {'block' if s == '1' else 'blocks'}": part for s, part in each.by_size.items()}
        for p, each in of.items()
    }
    lines += _parts("at a time", of, sizes)
    performers = {
        p: {PERFORMERS[who]: part for who, part in each.by_performer.items()}
        for p, each in of.items()
    }
    if any(set(each) != {PERFORMERS["backend"]} for each in performers.values()):
        lines += _parts("who read", of, performers)
        lines += sentence(
            "What I/O workers and io_uring read overlaps with the backend's work: compare the "
            "elapsed time.", width, 2,
        )  # fmt: skip
    lines += ["", f"{escape(label(storage))}: latencies of reads", *_histograms(of, width)]
    for f in found:
        if f.name == pages_findings.SERVED and f.storage == storage.name:
            lines += sentence(f"{capital(f.verdict)}.", width, 2)
    return lines


def _sums(
    of: Mapping[Pattern, Figures], intervals: Mapping[tuple[object, object], str]
) -> list[str]:
    def row(name: str, shown: Mapping[Pattern, str]) -> str:
        return f"  {name:<{_NAME}}" + "".join(f"{shown.get(p, '-'):>{_COLUMN}}" for p in PATTERNS)

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
    title: str, of: Mapping[Pattern, Figures], parts: Mapping[Pattern, Mapping[str, Part]]
) -> list[str]:
    """Reads, their share of all time, and the mean per block, of each part of each pattern."""
    names = list(dict.fromkeys(name for each in parts.values() for name in each))
    head = f"{'reads':>10}{'time':>8}{'a block':>11}"
    lines = [f"  {title:<{_NAME}}" + head * len(PATTERNS)]
    for name in names:
        line = f"    {name:<{_NAME - 2}}"
        for pattern in PATTERNS:
            part = parts.get(pattern, {}).get(name)
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
