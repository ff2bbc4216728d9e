"""What stands above the lists: the answer, in a few lines."""

from collections.abc import Sequence
from datetime import UTC, datetime
from textwrap import wrap

from .. import units
from ..model.capture import Source
from ..terminal_text import escape
from .frame import Begin
from .kept import Head, Kept, Sum, Window

_LEAST = 8
"""Characters of the line over time, or its highest is not named."""
_LEVELS = " ▁▂▃▄▅▆▇█"
_CACHED: tuple[Source, ...] = ("page_cache", "readahead_issued")


def lines(begin: Begin, window: Window, kept: Kept, *, width: int, back: int = 0) -> list[str]:
    """Return them, folded at words to fit `width`."""
    heads = list(kept.heads)[: max(len(kept) - back, 0)]
    said = [*_server(begin, window, _ago(window, kept)), *_answer(begin, window)]
    found = [
        line for one in said for line in wrap(escape(one), max(width, 1), break_on_hyphens=False)
    ]
    return [*found, *filter(None, [sparkline(heads, width)])]


def _ago(window: Window, kept: Kept) -> str:
    """How long before the newest second this was, if it was."""
    ago = kept.heads[-1].at - window.ended if kept.heads else 0.0
    return f", {units.duration(ago * 1e9, 2)} ago" if ago >= 0.5 else ""


def _server(begin: Begin, window: Window, ago: str) -> list[str]:
    version = f"PostgreSQL {begin.version}, " if begin.version else ""
    if not window.ended:
        return [f"{version}{begin.server}."]
    ended = datetime.fromtimestamp(window.ended, UTC)
    clients = f"{units.count(window.clients)} client{'' if window.clients == 1 else 's'}"
    active = sum(each.state == "active" for each in window.doing)
    said = "the server is away" if window.away else f"{clients}, {units.count(active)} active"
    return [f"{ended:%H:%M:%S} UTC{ago}: {said}.", f"{version}{begin.server}."]


def _answer(begin: Begin, window: Window) -> list[str]:
    seconds = window.seconds or 1.0
    if not window.ended:
        return ["Tracing has begun; the first second is not over."]
    if "read" not in begin.operations:
        return ["Reads are not measured."]
    by_source: dict[Source, Sum] = {}
    for fact, total in window.facts.items():
        if fact.operation == "read":
            of = by_source.setdefault(fact.source, Sum())
            of.add(total.count, total.bytes, total.total_ns)
    everything = Sum()
    for each in by_source.values():
        everything.add(each.count, each.bytes, each.total_ns)
    if not everything.count:
        return ["Nothing was read: all was found in shared_buffers, or nobody asked."]
    known = by_source.keys() - {"unknown"}
    device = by_source.get("device", Sum())
    if not known:
        return [f"{units.number(everything.count / seconds)} reads/s; devices are not measured."]
    cached = Sum()
    for source in _CACHED:
        if source in by_source:
            more = by_source[source]
            cached.add(more.count, more.bytes, more.total_ns)
    return [
        f"Waiting for the device: {units.duration(device.total_ns / seconds)} a second"
        f"{_share_of_all(begin, window, device.total_ns)}.",
        f"Reads: {units.number(everything.count / seconds)} a second, "
        f"{units.rate(cached.bytes / seconds)} from the page cache, "
        f"{units.rate(device.bytes / seconds)} from the device.",
        _levels(begin, window, cached, device),
        f"Time of reads: {units.share(device.total_ns / everything.total_ns)} device, "
        f"{units.share(cached.total_ns / everything.total_ns)} page cache."
        if everything.total_ns
        else "",
    ]


def _share_of_all(begin: Begin, window: Window, device_ns: int) -> str:
    """Of all running time: what processes spent, but for waits for work."""
    whole = sum(window.spent.values())
    if not begin.times or not whole:
        return ""
    return f", {units.share(min(device_ns / whole, 1.0))} of all time"


def _levels(begin: Begin, window: Window, cached: Sum, device: Sum) -> str:
    """How many of all blocks were found at each of three levels."""
    seconds = window.seconds or 1.0
    hit = window.buffers[0] / window.buffers_s if window.buffers and window.buffers_s else None
    blocks = {} if hit is None else {"shared_buffers": hit}
    blocks["page cache"] = cached.bytes / begin.block_size / seconds
    blocks["device"] = device.bytes / begin.block_size / seconds
    whole = sum(blocks.values())
    shares = [
        f"{units.share(rate / whole) if whole else '?'} {name}" for name, rate in blocks.items()
    ]
    unknown = "" if hit is not None else f"; shared_buffers not known {begin.no_buffers}"
    return f"Blocks found: {', '.join(shares)}{unknown}."


def sparkline(heads: Sequence[Head], width: int) -> str:
    """Device wait over time, a character for each second or more; the highest is named."""
    if not heads:
        return ""
    first = "Device wait "
    most = max(head.device_ns / head.length_s for head in heads)
    last = f" (█: {units.duration(most, 2)} a second)" if most else " (none)"
    if len(first) + len(last) + _LEAST > width:
        last = ""
    room = max(width - len(first) - len(last), 1)
    step = max(1, -(-len(heads) // room))
    groups = [heads[at : at + step] for at in range(0, len(heads), step)]
    levels = [max(head.device_ns / head.length_s for head in group) for group in groups]
    marks = (round(level / most * (len(_LEVELS) - 1)) if most else 0 for level in levels)
    return f"{first}{''.join(_LEVELS[mark] for mark in marks)}{last}"[:width]
