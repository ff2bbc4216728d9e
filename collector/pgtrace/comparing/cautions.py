"""What keeps a comparison from being as good as it seems."""

from collections.abc import Sequence
from typing import Protocol

from .. import units
from ..model.capture import Capture, Host, Lost, Operation, Probes, Server
from .comparison import Caution, Finding
from .side import Side

_MOST_LOST = 0.01
"""Share of all; of what was lost nobody knows whether it was as fast."""
_SHORT = 60
"""Intervals: what varies more slowly than a tenth of a session does not show as variation in it."""
_HITS = 0.1
"""Shares of what was found in shared_buffers that differ by so much are other cache states."""


def hindrance(a: Side, b: Side) -> str | None:
    """Why nothing can be decided; None if it can."""
    one, other = a.capture, b.capture
    if one.probes.type != other.probes.type:
        return f"other probe types: {one.probes.type} and {other.probes.type}"
    if one.server.block_size != other.server.block_size:
        return "other block sizes"
    for name, capture in (("A", one), ("B", other)):
        for operation in capture.probes.operations:
            if _lost(capture, operation) > _MOST_LOST:
                return f"of {name} too many {operation}s were lost"
        if capture.lost.backends:
            return f"of {name} whole backends were lost"
        counted = sum(total.count for total in capture.totals.values())
        if capture.lost.missed > _MOST_LOST * counted:
            return f"in {name} the kernel left out too many probes"
    return None


def _lost(capture: Capture, operation: Operation) -> float:
    lost = getattr(capture.lost, operation)
    total = capture.totals.get(operation)
    return lost / (lost + (total.count if total else 0)) if lost else 0.0


def of(a: Side, b: Side, findings: Sequence[Finding]) -> list[Caution]:
    """All there are, the gravest first."""
    one, other = a.capture, b.capture
    return [
        *of_probes(one, other),
        *_measured(one, other),
        *_losses(one, other),
        *of_losses(one, other),
        *_gaps(one, other),
        *_extent(a, b, findings),
        *of_hosts(one, other),
        *_circumstances(one, other),
    ]


class Measured(Protocol):
    """A capture, or a lab result."""

    @property
    def host(self) -> Host:
        """Where."""

    @property
    def server(self) -> Server:
        """Of which server."""

    @property
    def probes(self) -> Probes:
        """How."""

    @property
    def lost(self) -> Lost:
        """What of it is in no number."""


def of_probes(one: Measured, other: Measured) -> list[Caution]:
    """What was measured in another way."""
    found = []
    if one.probes.type != other.probes.type:
        types = one.probes.type, other.probes.type
        words = (
            f"The probe types differ ({types[0]}, {types[1]}), and each adds its own cost: capture "
            f"both with --probe {types[0]}."
        )
        found.append(Caution("probe_type", words, *types))
    if one.server.block_size != other.server.block_size:
        found.append(
            Caution("block_size", "Blocks are of other sizes: their times are not alike.",
                    one.server.block_size, other.server.block_size)
        )  # fmt: skip
    return found


def of_hosts(one: Measured, other: Measured) -> list[Caution]:
    """What was measured elsewhere."""
    found = []
    if one.host.kernel != other.host.kernel:
        words = f"The kernels differ: {one.host.kernel} and {other.host.kernel}."
        found.append(Caution("kernel", words, one.host.kernel, other.host.kernel))
    if one.host.cpus != other.host.cpus:
        words = f"The hosts have {one.host.cpus} and {other.host.cpus} CPUs."
        found.append(Caution("cpus", words, one.host.cpus, other.host.cpus))
    versions = one.server.version, other.server.version
    if None not in versions and versions[0] != versions[1]:
        words = f"The servers differ: PostgreSQL {versions[0]} and {versions[1]}."
        found.append(Caution("version", words, *versions))
    return found


def _measured(one: Capture, other: Capture) -> list[Caution]:
    both = {*one.probes.operations} & {*other.probes.operations}
    missing = [
        (name, f"{operation}s")
        for name, capture in (("A", other), ("B", one))
        for operation in capture.probes.operations
        if operation not in both
    ]
    without = [n for n, each in (("A", one), ("B", other)) if each.probes.queries == "none"]
    if len(without) == 1:
        missing.append((without[0], "statements"))
    return [
        Caution("not_measured", f"In {name} no {what} were measured: they are not compared.")
        for name, what in missing
    ]


def _losses(one: Capture, other: Capture) -> list[Caution]:
    found = []
    for operation in one.probes.operations:
        shares = _lost(one, operation), _lost(other, operation)
        if max(shares):
            words = " and ".join(
                f"{100 * share:.2g} % of {name}'s {operation}s"
                for name, share in zip("AB", shares, strict=True)
                if share
            )
            found.append(Caution("lost", f"Lost, and in no number: {words}.", *shares))
    return found


def of_losses(one: Measured, other: Measured) -> list[Caution]:
    """What was lost of which nobody knows how much it was."""
    found = []
    for name, lost in (("A", one.lost), ("B", other.lost)):
        if lost.backends:
            number = units.count(lost.backends)
            who = "a backend: what it" if lost.backends == 1 else f"{number} backends: what they"
            words = f"In {name} there was no room for {who} did is in no number."
            found.append(Caution("lost", words))
        if lost.missed:
            times = "once" if lost.missed == 1 else f"{units.count(lost.missed)} times"
            words = (
                f"In {name} the kernel left out a probe {times}: as many reads, writes and fsyncs "
                "may be in no number."
            )
            found.append(Caution("lost", words))
    return found


def _gaps(one: Capture, other: Capture) -> list[Caution]:
    found = []
    for name, capture in (("A", one), ("B", other)):
        partial = ["it was written while tracing went on"] if capture.so_far else capture.partial
        if partial:
            found.append(Caution("partial", f"{name} is partial: {partial[0].partition(':')[0]}."))
        if capture.gaps:
            found.append(Caution("gap", f"In {name} a server was away for a while."))
    return found


def _extent(a: Side, b: Side, findings: Sequence[Finding]) -> list[Caution]:
    found = []
    lengths = [sum(bool(piece.sums) for piece in side.pieces) for side in (a, b)]
    for name, side in (("A", a), ("B", b)):
        if side.no_pieces or not side.pieces:
            why = f"of {name} {side.no_pieces}" if side.no_pieces else f"{name} has no intervals"
            found.append(Caution("no_intervals", f"Nothing can be decided: {why}."))
    if found:
        return found
    few = [each for each in findings if each.primary and each.units is None]
    if few:
        why = few[0].why or "there are too few units"
        helps = "" if "has no" in why else " Capture for longer."
        found.append(Caution("few_units", f"Not decided: {why}.{helps}", *lengths))
    elif min(lengths) < _SHORT:
        words = (
            f"Short: {min(lengths)} intervals. What varies more slowly than a few seconds, such as "
            "a checkpoint, is taken for a difference between A and B."
        )
        found.append(Caution("short", words, *lengths))
    texts = [{key for key, each in s.statements.items() if key == each.text} for s in (a, b)]
    if all(texts) and not texts[0] & texts[1]:
        words = (
            "A and B have no statement in common: what differs may be the work itself, and not how "
            "fast it is done."
        )
        found.append(Caution("nothing_in_common", words))
    if a.capture == b.capture and a.selection.interval == b.selection.interval:
        found.append(
            Caution("same_time", "Both were at the same time: what disturbed one disturbed both.")
        )
    return found


def _circumstances(one: Capture, other: Capture) -> list[Caution]:
    found = []
    hits = _hits(one), _hits(other)
    if hits[0] is not None and hits[1] is not None and abs(hits[0] - hits[1]) > _HITS:
        words = (
            f"shared_buffers held {100 * hits[0]:.0f} % of what A asked for, "
            f"{100 * hits[1]:.0f} % of what B did: other cache states."
        )
        found.append(Caution("cache_state", words, *hits))
    simulated = sorted({t.name for c in (one, other) for t in c.tablespaces if t.simulated})
    if simulated:
        words = f"On simulated devices: tablespace {', '.join(simulated)}."
        found.append(Caution("simulated", words))
    return found


def _hits(capture: Capture) -> float | None:
    hit, read = sum(b.hit for b in capture.buffers), sum(b.read for b in capture.buffers)
    return hit / (hit + read) if hit + read else None
