"""What stands above the lists: the answer, in a few lines."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import NamedTuple

from .. import units
from ..model.capture import RELATIONS, Source
from ..reporters.sections.sums import at_least, waited_ns
from ..terminal_text import escape
from .frame import Begin
from .kept import Fact, Head, Kept, Sum, Window
from .names import Names

_LEAST = 8
"""Characters of the line over time, or its highest is not named."""
_LEVELS = " ▁▂▃▄▅▆▇█"
_HIDDEN = "not known"
_NAMES = ("page cache", "device", _HIDDEN)
_FROM = {"page cache": "from page cache", "device": "from device"}
_PARTS: dict[Source, str] = {
    "page_cache": "page cache",
    "readahead_issued": "page cache",
    "device": "device",
    "unknown": _HIDDEN,
}
_NOTHING = "Nothing was read: all was found in shared_buffers, or nobody asked."
_SHARE, _TIME, _SIZE, _NUMBER, _CLIENTS = ">99.9 %", "9,999 ms", "1,023.9 MiB", "1,234,567", "9,999"
"""As wide as they get, but for the extraordinary."""


class _Said(NamedTuple):
    """A sentence, and those of other seconds that take most room: as many lines are its own, lest
    the screen jump from one second to the next.
    """

    text: str
    widest: Sequence[str]


class _Served(NamedTuple):
    """As sums.Timed."""

    source: Source
    total_ns: int


def lines(begin: Begin, window: Window, kept: Kept, *, width: int, back: int = 0) -> list[str]:
    """Return them, folded at words to fit `width`; as many whatever the numbers are."""
    heads = list(kept.heads)[: max(len(kept) - back, 0)]
    found = []
    for text, widest in (*_server(begin, window, kept), *_answer(begin, window, kept)):
        now, *others = (folded(each, width) for each in (text, *widest))
        found += now + [""] * (max(map(len, others), default=0) - len(now))
    return [*found, *filter(None, [sparkline(heads, width)])]


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most `width`, folded at words; at least one."""
    return wrap(escape(text), max(width, 1), break_on_hyphens=False) or [""]


def _ago(window: Window, kept: Kept) -> str:
    """How long before the newest second this was, if it was."""
    ago = kept.heads[-1].at - window.ended if kept.heads else 0.0
    return f", {units.duration(ago * 1e9, 2)} ago" if ago >= 0.5 else ""


def _server(begin: Begin, window: Window, kept: Kept) -> list[_Said]:
    version = f"PostgreSQL {begin.version}, " if begin.version else ""
    server = _Said(f"{version}{begin.server}.", [])
    if not window.ended:
        return [server]
    ended = datetime.fromtimestamp(window.ended, UTC)
    clients = f"{units.count(window.clients)} client{'' if window.clients == 1 else 's'}"
    # As clients are counted: an autovacuum worker may be active, too
    types = {number: each.backend_type for number, each in kept.names.processes.items()}
    doing = (each for each in window.doing if types.get(each.process) == "client backend")
    active = units.count(sum(each.state == "active" for each in doing))
    least = "" if window.saw_all else "at least "
    said = "the server is away" if window.away else f"{clients}, {least}{active} active"
    widest = f"{_CLIENTS} clients, at least {_CLIENTS} active"
    at = f"{ended:%H:%M:%S} UTC{_ago(window, kept)}"
    return [_Said(f"{at}: {said}.", [f"{at}: {widest}."]), server]


def _answer(begin: Begin, window: Window, kept: Kept) -> list[_Said]:
    if not window.ended:
        return [_Said("Tracing has begun; the first second is not over.", [])]
    if "read" not in begin.operations:
        return [_Said("Reads are not measured.", [])]
    reads = {fact: total for fact, total in window.facts.items() if fact.operation == "read"}
    # From the first read from where is not known on there is room for such a part
    names = [name for name in _NAMES if name != _HIDDEN or any(h.hidden for h in kept.heads)]
    return [
        _waiting(begin, window, reads),
        _rates(window, reads, names),
        _levels(begin, window, _of_relations(reads, kept.names), names),
        _times(reads, names),
    ]


def _waiting(begin: Begin, window: Window, reads: Mapping[Fact, Sum]) -> _Said:
    """As reports have it."""
    served = [_Served(fact.source, total.total_ns) for fact, total in reads.items()]
    waited, least = waited_ns(served), at_least(served)
    share, widest_share = _share_of_all(begin, window, waited or 0)
    form = "Waiting for the device: {}."
    if not reads:
        text = _NOTHING
    elif waited is None:
        text = form.format("not measured")
    elif least and not waited:
        text = form.format("none, as far as is known")
    else:
        took = units.duration(waited / (window.seconds or 1.0))
        text = form.format(f"{least}{took} a second{share}")
    return _Said(text, [form.format(f"at least {_TIME} a second{widest_share}"), _NOTHING])


def _rates(window: Window, reads: Mapping[Fact, Sum], names: Sequence[str]) -> _Said:
    """How many reads there were, and how much came from where."""
    seconds = window.seconds or 1.0

    def sentence(number: str, sizes: Mapping[str, str]) -> str:
        told = (f"{sizes[name]}/s {_FROM.get(name, name)}" for name in sizes)
        return f"Reads: {', '.join([f'{number}/s', *told])}."

    number = units.number(sum(total.count for total in reads.values()) / seconds)
    sizes = {name: units.size(part.bytes / seconds) for name, part in _parts(reads).items()}
    return _Said(sentence(number, sizes), [sentence(_NUMBER, dict.fromkeys(names, _SIZE))])


def _times(reads: Mapping[Fact, Sum], names: Sequence[str]) -> _Said:
    """Where reads spent their time, the device first."""

    def sentence(shares: Mapping[str, str]) -> str:
        order = sorted(shares, key=lambda name: name != "device")
        return f"Time of reads: {_listed({name: shares[name] for name in order})}."

    whole = sum(total.total_ns for total in reads.values())
    parts = _parts(reads) if whole else {}
    shares = {name: units.share(part.total_ns / whole) for name, part in parts.items()}
    return _Said(sentence(shares), [sentence(dict.fromkeys(names, _SHARE))])


def _listed(shares: Mapping[str, str]) -> str:
    return ", ".join(f"{share} {name}" for name, share in shares.items()) or "none"


def _parts(reads: Mapping[Fact, Sum]) -> dict[str, Sum]:
    """By where they were served. Of a part without any nothing is said if that is not known of all:
    they may be of it.
    """
    found = {name: Sum() for name in _NAMES}
    for fact, total in reads.items():
        if name := _PARTS.get(fact.source):
            found[name].add(total.count, total.bytes, total.total_ns)
    if found[_HIDDEN].count:
        return {name: part for name, part in found.items() if part.count}
    del found[_HIDDEN]
    return found


def _of_relations(reads: Mapping[Fact, Sum], names: Names) -> dict[Fact, Sum]:
    """Those of what shared buffers may hold, as reports count blocks: temporary files and WAL are
    never found there.
    """
    kinds = {number: place.kind for number, place in names.places.items()}
    of = {*RELATIONS, "unknown"}
    return {fact: sums for fact, sums in reads.items() if kinds.get(fact.place, "unknown") in of}


def _share_of_all(begin: Begin, window: Window, device_ns: int) -> tuple[str, str]:
    """Of all running time: what processes spent, but for waits for work."""
    if not begin.times:
        return "", ""
    form, whole = ", {} of all time", sum(window.spent.values())
    now = form.format(units.share(min(device_ns / whole, 1.0))) if whole else ""
    return now, form.format(_SHARE)


def _levels(begin: Begin, window: Window, reads: Mapping[Fact, Sum], names: Sequence[str]) -> _Said:
    """How many of all blocks were found at each of three levels."""
    seconds = window.seconds or 1.0
    hit = window.buffers[0] / window.buffers_s if window.buffers and window.buffers_s else None
    blocks = {} if hit is None else {"shared_buffers": hit}
    for name, part in _parts(reads).items():
        blocks[name] = part.bytes / begin.block_size / seconds
    whole = sum(blocks.values())
    shares = {name: units.share(rate / whole) for name, rate in blocks.items() if whole}
    unknown = f"; shared_buffers not known {begin.no_buffers}"
    widest = dict.fromkeys(names, _SHARE)
    return _Said(
        f"Blocks found: {_listed(shares)}{unknown if hit is None else ''}.",
        [
            f"Blocks found: {_listed({'shared_buffers': _SHARE, **widest})}.",
            f"Blocks found: {_listed(widest)}{unknown}.",
        ],
    )


def sparkline(heads: Sequence[Head], width: int) -> str:
    """Device wait over time, a character for each second or more; the highest is named."""
    if not heads:
        return ""
    first = "Device wait "
    most = max(head.device_ns / head.length_s for head in heads)
    hides = any(head.hidden for head in heads)
    last = " (none known)" if hides else " (none)"
    if most:
        last = f" (█: {'at least ' if hides else ''}{units.duration(most, 2)} a second)"
    if len(first) + len(last) + _LEAST > width:
        last = ""
    room = max(width - len(first) - len(last), 1)
    step = max(1, -(-len(heads) // room))
    groups = [heads[at : at + step] for at in range(0, len(heads), step)]
    levels = [max(head.device_ns / head.length_s for head in group) for group in groups]
    marks = (round(level / most * (len(_LEVELS) - 1)) if most else 0 for level in levels)
    return f"{first}{''.join(_LEVELS[mark] for mark in marks)}{last}"[:width]
