"""Two captures, or two parts of one: what differs, and how certain that is."""

from collections.abc import Callable, Sequence
from typing import get_args

from ..model.capture import Operation, Source
from ..stats.batch_means import Sum
from . import cautions, percentiles, statistics
from .comparison import Comparison, Finding, Metric, OneSide, Share, Subject
from .decide import MARGIN, outcome, outcomes
from .estimate import (
    LEAST_UNITS,
    Estimated,
    Missing,
    Statistic,
    Weight,
    by_blocks,
    by_time,
    estimate,
)
from .pieces import Piece, Stratum, Wanted, only, together
from .side import Side
from .statements import changes, factor

_NOTABLE = 0.01
"""Share of the time on one side, from which on a stratum is looked at alone."""
_MOST_STRATA = 40
_MOST_STATEMENTS = 5
_OPERATIONS: tuple[Operation, ...] = get_args(Operation)

Found = tuple[Finding, Estimated | Missing]


def compare(a: Side, b: Side, margin: float = MARGIN) -> Comparison:
    """B against A."""
    hindered = cautions.hindrance(a, b)
    both = {*a.capture.probes.operations} & {*b.capture.probes.operations}
    operations = [operation for operation in _OPERATIONS if operation in both]
    found = [each for operation in operations for each in _of_operation(a, b, operation)]
    settle(found, margin, hindered)
    findings = [finding for finding, _ in found]
    return Comparison(
        a=_one_side(a),
        b=_one_side(b),
        margin=margin,
        findings=findings,
        cautions=cautions.of(a, b, findings),
        shares=_shares(a, b),
        statements=changes(a, b),
        factor=factor(a, b),
    )


def estimated(a: Side, b: Side, metric: Metric | str, wanted: Wanted) -> Estimated | Missing:
    """One metric of what is wanted, for a question that was asked beforehand."""
    if hindered := cautions.hindrance(a, b):
        return Missing(hindered)
    if metric.startswith("p"):
        return percentiles.compared(
            float(metric[1:]), a, b, lambda operation, source: wanted(Stratum(operation, source))
        )
    statistic, weight = _STATISTICS[metric]
    return _estimate(a, b, statistic, weight, wanted)


_STATISTICS: dict[str, tuple[Statistic, Weight]] = {
    "time_per_block": (statistics.block_time, by_blocks),
    "mix": (statistics.mix, by_blocks),
    "speed": (statistics.speed, by_blocks),
    "blocks_per_second": (statistics.block_rate, by_time),
    "time_per_second": (statistics.time_rate, by_time),
}
_WHOLE: tuple[Metric, ...] = (
    "time_per_block", "mix", "speed", "blocks_per_second", "time_per_second",
)  # fmt: skip


_LEAST_COMMON = 1 / 3
"""Of the time or of the blocks of each side, what kinds of reads have to have that both have: else
what is said of them is said of little, and what it leaves, the mix, is no cause by itself."""
_MOST_HIDDEN = 1 / 3
"""Of the same, what reads may have of which it is not known where they were served: all of these
look alike, however different they are."""


def _estimate(
    a: Side, b: Side, statistic: Statistic, weight: Weight, wanted: Wanted
) -> Estimated | Missing:
    for name, side in (("A", a), ("B", b)):
        if side.no_pieces:
            return Missing(f"of {name} {side.no_pieces}")
        if not side.pieces:
            return Missing(f"{name} has no intervals")
    if weight is by_time and not all(p.seconds for side in (a, b) for p in side.pieces):
        return Missing("its intervals have no length")
    pieces = only(a.pieces, wanted), only(b.pieces, wanted)
    if statistic in (statistics.mix, statistics.speed):
        wholes = [together(each) for each in pieces]
        for name, each in zip("AB", wholes, strict=True):
            if why := _has_no_kinds(name, each, wholes):
                return Missing(why)
    return estimate(statistic, *pieces, weight)


def _has_no_kinds(name: str, own: Piece, sides: Sequence[Piece]) -> str | None:
    """Why the kinds of reads of one side say too little of it."""
    hidden = statistics.share(own, own.of(lambda key: key.source == "unknown"))
    if hidden is not None and hidden > _MOST_HIDDEN:
        return f"of too many of {name}'s reads it is not known where they were served"
    share = statistics.in_common(own, sides)
    if share == 0:
        return "A and B have no kind of reads in common"
    if share is not None and share < _LEAST_COMMON:
        return f"few of {name}'s reads are of kinds that both have"
    return None


def _of_operation(a: Side, b: Side, operation: Operation) -> list[Found]:
    wanted: Wanted = lambda key: key.operation == operation  # noqa: E731
    wholes = [_whole(side, wanted) for side in (a, b)]
    if not any(whole.whole.reads for whole in wholes):
        return []
    of = Subject(operation=operation)
    metrics = (
        _WHOLE if operation == "read" else tuple(m for m in _WHOLE if m not in ("mix", "speed"))
    )
    found: list[Found] = []
    for metric in metrics:
        one, other = (
            _value(metric, whole, side) for whole, side in zip(wholes, (a, b), strict=True)
        )
        finding = Finding(metric=metric, of=of, outcome="not_decided", a=one, b=other)
        statistic, weight = _STATISTICS[metric]
        nothing = [name for name, whole in zip("AB", wholes, strict=True) if not whole.whole.reads]
        ratio = (
            Missing(f"{nothing[0]} has no {operation}s")
            if nothing
            else _estimate(a, b, statistic, weight, wanted)
        )
        found.append((finding, ratio))
    if all(whole.whole.reads for whole in wholes):
        found += _strata(a, b, wholes, operation)
        if operation == "read":
            found += _of_statements(a, b)
        found += _percentiles(a, b, wholes, operation)
    return found


def _whole(side: Side, wanted: Wanted) -> Piece:
    """All that a side did; from its operations where its course is not known."""
    if side.pieces:
        return together(only(side.pieces, wanted))
    sums: dict[Stratum, Sum] = {}
    for io in side.io:
        key = Stratum(io.operation, io.source, io.pattern, io.size, io.tablespace, io.performed_by)
        if wanted(key):
            blocks = io.count if io.operation == "fsync" else io.blocks
            before = sums.get(key, Sum())
            sums[key] = before.plus(Sum(blocks, io.count, io.total_ns))
    return Piece(side.seconds, sums)


def _value(metric: Metric, whole: Piece, side: Side) -> float | None:
    all_, seconds = whole.whole, whole.seconds or side.seconds
    if metric == "time_per_block":
        return all_.total_ns / all_.blocks if all_.blocks else None
    if metric in ("mix", "speed") or not seconds:
        return None
    return (all_.blocks if metric == "blocks_per_second" else all_.total_ns) / seconds


def _strata(a: Side, b: Side, wholes: Sequence[Piece], operation: Operation) -> list[Found]:
    """Each that takes a notable share of the time, and both have."""
    shares, totals = {}, [max(1, whole.whole.total_ns) for whole in wholes]
    for key in wholes[0].sums.keys() & wholes[1].sums.keys():
        shares[key] = max(
            whole.sums[key].total_ns / total for whole, total in zip(wholes, totals, strict=True)
        )
    notable = [(-share, key) for key, share in shares.items() if share >= _NOTABLE]
    found: list[Found] = []
    if len(wholes[0].sums.keys() | wholes[1].sums.keys()) < 2:
        return []
    for minus, key in sorted(notable, key=lambda each: (each[0], str(each[1])))[:_MOST_STRATA]:
        one, other = (whole.sums[key] for whole in wholes)
        finding = Finding(
            metric="time_per_block",
            of=subject(key),
            outcome="not_decided",
            a=one.total_ns / one.blocks if one.blocks else None,
            b=other.total_ns / other.blocks if other.blocks else None,
            share=-minus,
        )
        wanted: Wanted = lambda each, key=key: each == key  # type: ignore[misc]  # noqa: E731
        found.append((finding, _estimate(a, b, statistics.block_time, by_blocks, wanted)))
    return found


def _of_statements(a: Side, b: Side) -> list[Found]:
    """Those of which nearly all is known by interval, if they are not all there is."""
    found: list[Found] = []
    if len(a.statements.keys() | b.statements.keys()) < 2:
        return found
    shared = sorted(
        a.series.keys() & b.series.keys(),
        key=lambda text: (-sum(_time_rate(each, text) for each in (a, b)), text),
    )[:_MOST_STATEMENTS]
    metrics: tuple[Metric, ...] = ("time_per_block", "blocks_per_second")
    for text in shared:
        series = a.series[text], b.series[text]
        wholes = [together(pieces) for pieces in series]
        for metric in metrics:
            one, other = (
                _value(metric, whole, side) for whole, side in zip(wholes, (a, b), strict=True)
            )
            finding = Finding(
                metric=metric, of=Subject(statement=text), outcome="not_decided", a=one, b=other
            )
            statistic, weight = _STATISTICS[metric]
            found.append((finding, estimate(statistic, *series, weight)))
    return found


def _time_rate(side: Side, text: str) -> float:
    return sum(piece.whole.total_ns for piece in side.series[text]) / (side.seconds or 1)


def subject(key: Stratum) -> Subject:
    """The same, as data."""
    return Subject(
        operation=key.operation,
        source=key.source,
        pattern=key.pattern,
        size=key.size,
        tablespace=key.tablespace,
        performed_by=key.performed_by if key.pattern else None,
        other_files=key.operation == "read" and key.pattern is None,
    )


def _percentiles(a: Side, b: Side, wholes: Sequence[Piece], operation: Operation) -> list[Found]:
    """Of all, and of each source that both have."""
    own = [{key.source for key in whole.sums} for whole in wholes]
    shared: list[Source] = sorted(own[0] & own[1])
    which: list[tuple[Source | None, percentiles.Which]] = [
        (None, percentiles.every_source(operation))
    ]
    if len(own[0] | own[1]) > 1:
        which += [(source, percentiles.of_source(operation, source)) for source in shared]
    found: list[Found] = []
    for source, chosen in which:
        for p in percentiles.Ps:
            ratio = percentiles.compared(p, a, b, chosen)
            values = [percentiles.latencies(side, chosen) for side in (a, b)]
            if isinstance(ratio, Missing) and not all(each.count for each in values):
                continue
            metric: Metric = "p50" if p == 50 else "p99"
            one, other = (
                each.percentile(p)
                if each.count * (1 - p / 100) >= percentiles.LEAST_BEYOND
                else None
                for each in values
            )
            of = Subject(operation=operation, source=source)
            found.append(
                (Finding(metric=metric, of=of, outcome="not_decided", a=one, b=other), ratio)
            )
    return found


def settle(
    found: Sequence[Found],
    margin: float,
    hindered: str | None,
    *,
    primary: bool = True,
    units: str = "stretches of time",
) -> None:
    """Set outcomes and intervals: the first is the primary, if there is one; others are many."""
    estimates: list[tuple[Finding, Estimated]] = []
    for at, (finding, ratio) in enumerate(found):
        finding.primary = primary and at == 0
        if isinstance(ratio, Missing):
            finding.why = ratio.why
            continue
        finding.value, finding.units = ratio.value, ratio.units
        finding.low, finding.high = ratio.interval()
        if hindered:
            finding.why = hindered
        elif ratio.units < LEAST_UNITS:
            finding.why = f"there are {ratio.units} of at least {LEAST_UNITS} {units}"
        elif finding.primary:
            finding.outcome = outcome(ratio, margin)
        else:
            estimates.append((finding, ratio))
    decided = outcomes([ratio for _, ratio in estimates], margin)
    for (finding, _), each in zip(estimates, decided, strict=True):
        finding.outcome = each


def _shares(a: Side, b: Side) -> list[Share]:
    """Where blocks came from, how they followed each other, and how many came at once."""
    wholes = [_whole(side, lambda key: key.operation == "read") for side in (a, b)]
    totals = [whole.whole for whole in wholes]
    if not all(total.blocks for total in totals):
        return []
    mean_time, found = _mean_time(totals), []
    kinds: tuple[tuple[str, Callable[[Stratum], str | None]], ...] = (
        ("source", lambda key: key.source),
        ("tablespace", lambda key: key.tablespace),
        ("pattern", lambda key: key.pattern),
        ("size", lambda key: key.size),
    )
    for name, told in kinds:
        parts = [_parts(whole, told) for whole in wholes]
        for value in sorted(parts[0].keys() | parts[1].keys()):
            own = [part.get(value, Sum()) for part in parts]
            one, other = (
                each.blocks / total.blocks for each, total in zip(own, totals, strict=True)
            )
            effect = (other - one) * (_mean_time(own) - mean_time)
            found.append(Share(a=one, b=other, effect=effect, **{name: value}))  # type: ignore[arg-type]
    return found


def _parts(whole: Piece, told: Callable[[Stratum], str | None]) -> dict[str, Sum]:
    """Its sums by that, where it is told."""
    found: dict[str, Sum] = {}
    for key, each in whole.sums.items():
        if value := told(key):
            found[value] = found.get(value, Sum()).plus(each)
    return found


def _mean_time(sums: Sequence[Sum]) -> float:
    """Of a block, the mean of those sides that have some."""
    times = [each.total_ns / each.blocks for each in sums if each.blocks]
    return sum(times) / len(times) if times else 0.0


def _one_side(side: Side) -> OneSide:
    capture = side.capture
    return OneSide(
        started=capture.started,
        seconds=side.seconds,
        part=side.selection.words(),
        server=capture.server.version,
        kernel=capture.host.kernel,
        intervals=sum(bool(piece.sums) for piece in side.pieces),
    )
