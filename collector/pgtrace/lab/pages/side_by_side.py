"""Storages of the pages experiment: sequential and random side by side."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import units
from ...model.lab_result import Finding, Storage
from ...reporters.document import (
    Block,
    Column,
    Group,
    Latencies,
    Layer,
    Paragraph,
    Percentiles,
    Section,
    Table,
    Value,
)
from ...reporters.sections.sums import PERFORMERS, SOURCES
from ..core.figures import ORDERS, SIZES, Figures, Part, label
from ..core.finding_text import capital, interval, of_kind
from ..core.valid_runs import Pattern
from .result import Block as BlockFinding
from .result import By, PagesResult, Served

_PARTS: tuple[tuple[str, Callable[[Figures], Mapping[Any, Part]], Mapping[str, str]], ...] = (
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
_PERFORMED = ("who read", lambda f: f.by_performer, PERFORMERS)
_OVERLAPS = (
    "What I/O workers and io_uring read overlaps with the backend's work: compare the elapsed time."
)


def every_storage(
    result: PagesResult, measured: Sequence[Figures], found: Sequence[Finding]
) -> Section:
    """Sums of all of them beside each other."""
    rows: list[tuple[str, list[Value]]] = []
    for row in zip(*(_sums(of, found) for of in measured), strict=True):
        values = [value for _, value in row]
        if set(values) != {None}:
            rows.append((row[0][0], values))
    columns = [Column(of.pattern, "text", label(of.storage)) for of in measured]
    blocks: list[Block] = [
        Paragraph("Means are per block of 8 KiB, percentiles and the longest of a read."),
        Table("All runs added up", "", columns, rows, named=True),
    ]
    colours = {storage.name: _colour(n) for n, storage in enumerate(result.storages)}
    layers = [
        _layer((label(of.storage), of.pattern), of, colours[of.storage.name])
        for of in measured
        if of.all.reads
    ]
    if layers:
        blocks.append(Percentiles("Percentiles of a read, every storage", layers))
    return Section("sums", blocks, "Sequential and random")


def _colour(number: int) -> str:
    return f"s{number % 6}"


def _layer(keys: tuple[str, ...], of: Figures, colour: str) -> Layer:
    return Layer(keys, colour, of.all.latencies, outlined=of.pattern == "random")


def _sums(of: Figures, found: Sequence[Finding]) -> list[tuple[str, Value]]:
    """What each is called, and how it is shown; None: not counted."""
    between: dict[By, str] = {
        f.details.by: interval(f, times=True)
        for f in of_kind(found, BlockFinding)
        if (f.storage, f.details.pattern) == (of.storage.name, of.pattern)
    }

    def duration(ns: float | None, digits: int = 3) -> str:
        return "-" if ns is None else units.duration(ns, digits)

    def known(number: int | None) -> Value:
        return None if number is None else units.count(number)

    reads = of.all
    return [
        ("runs", units.count(of.runs)),
        ("reads", units.count(reads.reads)),
        ("bytes", units.size(reads.bytes)),
        ("blocks of 8 KiB", f"{reads.blocks:,.0f}"),
        ("from the device", units.size(reads.device_bytes)),
        ("device requests", known(of.device_requests)),
        ("shared hits", known(of.shared_hits)),
        ("mean per block", duration(reads.block_ns)),
        ("  95 % over runs", between.get("read latency", "-")),
        ("p50 of a read", duration(reads.latencies.percentile(50), 2)),
        ("p90", duration(reads.latencies.percentile(90), 2)),
        ("p99", duration(reads.latencies.percentile(99), 2)),
        ("max", duration(reads.latencies.max_ns, 2)),
        ("elapsed per block", duration(of.page_ns)),
        ("  95 % over runs", between.get("elapsed time", "-")),
    ]


def storage_section(
    number: int, storage: Storage, of: Mapping[Pattern, Figures], found: Sequence[Finding]
) -> Section:
    """What its reads were, and random laid over sequential, with the sources in colour."""
    name = label(storage)
    served = [f for f in of_kind(found, Served) if f.storage == storage.name]
    blocks: list[Block] = [Paragraph(f"{capital(f.verdict)}.") for f in served]
    if not any(each.all.reads for each in of.values()):
        return Section(f"storage-{number}", [*blocks, Paragraph("No reads.")], name)
    groups = [Group(p, layers) for p, each in of.items() if (layers := _layers(each))]
    blocks.append(_parts(name, of))
    if any(set(each.by_performer) - {"backend"} for each in of.values()):
        blocks.append(Paragraph(_OVERLAPS))
    title = f"{name}: how long a read took, random over sequential"
    blocks.append(Latencies(title, groups, opened=True))
    alone = [_layer((p,), each, _colour(number)) for p, each in of.items() if each.all.reads]
    blocks.append(Percentiles(f"{name}: percentiles", alone))
    return Section(f"storage-{number}", blocks, name)


def _layers(of: Figures) -> list[Layer]:
    return [
        Layer((SOURCES.get(source, source), of.pattern), source, part.latencies,
              of.pattern == "random")
        for source, part in of.by_source.items()
        if part.reads
    ]  # fmt: skip


def _parts(name: str, of: Mapping[Pattern, Figures]) -> Table:
    """The reads of both patterns, told apart in every way that tells them apart."""
    rows: list[tuple[str, list[Value]]] = []
    rows.append(("all", [v for f in of.values() for v in _part(f.all, f.all.total_ns)]))
    others = any(set(f.by_performer) - {"backend"} for f in of.values())
    for title, parts_of, names in [*_PARTS, *([_PERFORMED] if others else [])]:
        parts = [(parts_of(f), f.all.total_ns) for f in of.values()]
        there = list(dict.fromkeys(key for each, _ in parts for key in each))
        rows.append((title, []))
        for key in [*(k for k in names if k in there), *(k for k in there if k not in names)]:
            values = [v for each, whole in parts for v in _part(each.get(key), whole)]
            rows.append((f"  {names.get(key, key)}", values))
    columns = [column for pattern in of for column in _columns(pattern)]
    return Table(f"{name}: which reads they were; a block is 8 KiB", "which", columns, rows,
                 named=True)  # fmt: skip


def _columns(pattern: Pattern) -> list[Column]:
    return [
        Column("reads", "count", pattern),
        Column("time", "ns", pattern, detail=True),
        Column("of time", "share", pattern),
        Column("a block", "ns", pattern),
        *(Column(n, "ns, 2 digits", pattern, detail=True) for n in ("p50", "p99", "max")),
    ]


def _part(part: Part | None, whole_ns: int) -> list[Value]:
    if part is None or not part.reads:
        return [0, *["-"] * 6]
    block = "-" if part.block_ns is None else part.block_ns
    share = part.total_ns / max(1, whole_ns)
    return [part.reads, part.total_ns, share, block, *map(part.latencies.percentile, (50, 99, 100))]
