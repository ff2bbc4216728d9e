"""Two results of one experiment: what differs, run by run."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import exp, fsum, log
from typing import TypeVar, get_args

from .. import units
from ..model.capture import Operation
from ..model.lab_result import Cell, QueryCell, Result
from ..stats.student_t import error
from .captures import Found, settle
from .cautions import of_hosts, of_losses, of_probes
from .comparison import Caution, Comparison, Finding, Metric, OneSide, Subject
from .decide import MARGIN
from .estimate import LEAST_UNITS, Estimate, Missing

_C = TypeVar("_C", bound=Cell)
_BLOCK = 8192
_COMMON = frozenset(QueryCell.__struct_fields__)
"""What every run has; what an experiment's own has beside says what it was of."""


def compare(
    a: Result,
    b: Result,
    cells: tuple[Sequence[_C], Sequence[_C]],
    called: Callable[[_C], str],
    margin: float = MARGIN,
) -> Comparison:
    """B against A, of these of their runs; what has the same name is alike. All that both have is
    compared, none is chosen before the others.
    """
    groups = [_grouped(each, called) for each in cells]
    found: list[Found] = []
    for key in groups[0]:
        if key in groups[1]:
            one, other = groups[0][key], groups[1][key]
            found += [
                _compared(metric, key, one, other) for metric in ("elapsed", "time_per_block")
            ]
    cautions = [*of_probes(a, b), *_doubts(a, b), *of_losses(a, b), *of_hosts(a, b)]
    cautions += _simulated(a, b)
    hindered = cautions[0].words if any(c.name == "probe_type" for c in cautions) else None
    if a.lost.backends or b.lost.backends:
        hindered = hindered or f"of {'A' if a.lost.backends else 'B'} whole backends were lost"
    told = [each for each in found if each[0].a and each[0].b]
    settle(told, margin, hindered, primary=False, units="runs")
    return Comparison(
        a=_side(a, cells[0]),
        b=_side(b, cells[1]),
        margin=margin,
        findings=[finding for finding, _ in told],
        cautions=cautions,
        experiment=a.experiment,
    )


def query_called(cell: QueryCell) -> str:
    """By what was run: `sequential on ssd, cold, read_ahead_sectors 256`."""
    varied = [name for name in cell.__struct_fields__ if name not in _COMMON]
    told = [f"{cell.pattern} on {cell.storage}", cell.state]
    told += [f"{name} {getattr(cell, name)}" for name in varied]
    return ", ".join(each for each in told if each)


def _grouped(cells: Sequence[_C], called: Callable[[_C], str]) -> dict[str, list[_C]]:
    found: defaultdict[str, list[_C]] = defaultdict(list)
    for cell in cells:
        found[called(cell)].append(cell)
    return found


def _compared(metric: Metric, key: str, one: Sequence[Cell], other: Sequence[Cell]) -> Found:
    values = [[v for cell in cells if (v := _value(metric, cell))] for cells in (one, other)]
    finding = Finding(metric=metric, of=Subject(run=key), outcome="not_decided")
    logs = [[log(value) for value in each] for each in values]
    if not all(logs):
        return finding, Missing("it was not measured on both sides")
    means = [fsum(each) / len(each) for each in logs]
    finding.a, finding.b = (exp(mean) for mean in means)
    for name, each in zip("AB", logs, strict=True):
        if len(each) < 2:
            return finding, Missing(f"{name} has {len(each)} of at least {LEAST_UNITS} runs")
    parts = []
    for mean, each in zip(means, logs, strict=True):
        squares = fsum((value - mean) ** 2 for value in each)
        parts.append((squares / (len(each) - 1) / len(each), float(len(each) - 1)))
    return finding, Estimate(means[1] - means[0], (error(parts),), min(map(len, logs)))


def _value(metric: Metric, cell: Cell) -> float | None:
    """Nanoseconds, of all or of 8 KiB read; None if it was not measured, or nothing was read."""
    if metric == "elapsed":
        return cell.elapsed_s * 1e9
    if not isinstance(cell, QueryCell):
        return None
    reads = [io for io in cell.io if io.operation == "read" and io.scope == "query"]
    size = sum(io.bytes for io in reads)
    return sum(io.total_ns for io in reads) * _BLOCK / size if size else None


def _doubts(a: Result, b: Result) -> list[Caution]:
    found = []
    for name, result in (("A", a), ("B", b)):
        if result.partial:
            found.append(Caution("partial", f"{name} is partial: of the runs that were finished."))
        numbers = {each: getattr(result.lost, each) for each in get_args(Operation)}
        lost = [
            f"{units.count(n)} {each if n == 1 else f'{each}s'}" for each, n in numbers.items() if n
        ]
        if lost:
            found.append(Caution("lost", f"Of {name} {' and '.join(lost)} are in no number."))
    return found


def _simulated(a: Result, b: Result) -> list[Caution]:
    names = sorted({each.name for result in (a, b) for each in result.storages if each.simulated})
    words = f"On simulated devices: storage {', '.join(names)}."
    return [Caution("simulated", words)] if names else []


def _side(result: Result, cells: Sequence[Cell]) -> OneSide:
    return OneSide(
        started=result.started,
        seconds=result.duration_s,
        server=result.server.version,
        kernel=result.host.kernel,
        runs=len(cells),
    )
