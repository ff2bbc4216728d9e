"""What was read: a table by kind or by relation, and one by tablespace."""

from collections.abc import Callable, Sequence

from .. import units
from ..capture import Capture, Reads, Tablespace
from ..statement import escape
from .block import WIDTH

MOST_RELATIONS = 20
"""Relations with a line of their own; the others are added up in one."""
_COLUMNS = 57
"""Width of the numbers of a line."""
_SHORTEST_NAME = 20
_KNOWN_PATTERNS = frozenset({"sequential", "near", "random"})


def tables(capture: Capture, *, width: int = WIDTH) -> list[str]:
    """Return the tables over all backends; none where the files of reads are not known."""
    reads = [r for backend in capture.backends for r in backend.reads if r.operation == "read"]
    if all(r.kind == "unknown" for r in reads):
        return []
    if any(r.relation for r in reads):
        lines = _table("By relation", _grouped(reads, _relation), width, most=MOST_RELATIONS)
    else:
        lines = _table("By kind", _grouped(reads, lambda r: r.kind), width)
    spaces = _grouped(reads, lambda r: r.tablespace or "(no tablespace)")
    about = {space.name: _about(space) for space in capture.tablespaces}
    return [*lines, "", *_table("By tablespace", spaces, width, about=about)]


def _relation(r: Reads) -> str:
    return f"{r.relation} ({r.kind})" if r.relation else f"({r.kind})"


def _grouped(reads: Sequence[Reads], name: Callable[[Reads], str]) -> list[tuple[str, list[Reads]]]:
    """Reads by what they are called, those that took longest first."""
    found: dict[str, list[Reads]] = {}
    for r in reads:
        found.setdefault(name(r), []).append(r)
    return sorted(found.items(), key=lambda item: (-_time(item[1]), item[0]))


def _table(
    title: str,
    groups: Sequence[tuple[str, list[Reads]]],
    width: int,
    *,
    most: int | None = None,
    about: dict[str, str] | None = None,
) -> list[str]:
    shown = list(groups[:most])
    rest = groups[len(shown) :]
    if rest:
        left = [r for _, reads in rest for r in reads]
        shown.append((f"{units.count(len(rest))} more", left))
    whole = sum(_time(reads) for _, reads in groups)
    room = max(_SHORTEST_NAME, width - _COLUMNS - 2)
    lines = [
        f"{title:<{room + 2}}{'reads':>11}{'size':>11}{'mean':>10}{'time':>10}{'device':>8}"
        f"{'random':>7}"
    ]
    for name, reads in shown:
        words = escape(name)
        if len(words) > room:
            lines.append(f"  {words}")
            words = ""
        lines.append(f"  {words:<{room}}{_numbers(reads, whole)}")
        if about and name in about:
            lines.append(f"    {about[name]}")
    return lines


def _numbers(reads: Sequence[Reads], whole_ns: int) -> str:
    count, time = sum(r.count for r in reads), _time(reads)
    told = [r for r in reads if r.source != "unknown"]
    device = sum(r.total_ns for r in told if r.source == "device")
    followed = sum(r.count for r in reads if r.pattern in _KNOWN_PATTERNS)
    random = sum(r.count for r in reads if r.pattern == "random")
    return (
        f"{units.count(count):>11}"
        f"{units.size(sum(r.bytes for r in reads)):>11}"
        f"{units.duration(time / max(count, 1)):>10}"
        f"{units.duration_beside(time, whole_ns):>10}"
        f"{units.percent(device, time) if told else '?':>8}"
        f"{units.percent(random, followed) if followed else '?':>7}"
    )


def _time(reads: Sequence[Reads]) -> int:
    return sum(r.total_ns for r in reads)


def _about(space: Tablespace) -> str:
    """Where it lies: `/fast: ext4 on nvme0n1, read-ahead 128 KiB`."""
    words = escape(space.filesystem or "file system not known")
    if space.device:
        spins = {True: ", rotational", False: "", None: ""}[space.rotational]
        words += f" on {escape(space.device)}{spins}"
    if space.simulated:
        words += ", simulated"
    if space.read_ahead_kb is not None:
        words += f", read-ahead {space.read_ahead_kb} KiB"
    return f"{escape(space.location)}: {words}" if space.location else words
