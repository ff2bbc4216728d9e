"""Queries added up by statement, in bounded memory."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

from .. import terminal_text
from ..engines import (
    QueryEvent,
    ReadsByKey,
    StatementTotal,
    add_reads,
    fold_files,
    io_of,
)
from ..engines.layout import OTHERS
from ..model import capture
from ..model.histogram import Histogram
from ..postgres.redaction import redact
from . import time_names

MOST_TEXTS = 1000
"""Distinct texts kept as they came; more are folded by what is left without their literals."""
MOST_STATEMENTS = 5000
"""Distinct statements kept; more are added up under `text: null`, never dropped."""


class Name(NamedTuple):
    """What is told apart."""

    query_id: int
    text: bytes | str | None
    """None also where the query id tells enough."""
    cut: bool
    protocol: capture.Protocol
    begun_before: bool
    application_name: bytes


class Sum:
    """Calls of one statement; `latency` counts nanoseconds."""

    __slots__ = ("calls", "cut", "errors", "latency", "reads", "text", "waited_ns")

    def __init__(self) -> None:
        self.text: bytes | str | None = None
        self.cut = False
        self.calls = 0
        self.errors = 0
        self.waited_ns = 0
        self.latency = Histogram()
        self.reads: ReadsByKey = {}

    def add(self, other: "Sum") -> None:
        """Count the other's calls too."""
        if self.text is None:
            self.text, self.cut = other.text, other.cut
        self.calls += other.calls
        self.errors += other.errors
        self.waited_ns += other.waited_ns
        self.latency.take(other.latency)
        add_reads(self.reads, other.reads)


class Statements:
    """What each statement of one backend cost."""

    def __init__(self, *, literals: bool, most: int = MOST_STATEMENTS, light: bool = False) -> None:
        """With `light`, of what they read alone; the calls are not known."""
        self._literals = literals
        self._light = light
        self._most = most
        self.unnamed = 0
        """Calls that are counted under no statement, for want of room; with `light`, reads."""
        self._fresh: dict[Name, Sum] = {}
        self._folded: dict[Name, Sum] = {}

    def add(self, event: QueryEvent) -> None:
        """Count one query that ended."""
        total = self._fresh_sum(event)
        total.calls += 1
        total.errors += event.error
        total.waited_ns += event.waited_ns
        total.latency.add(event.end_ns - event.start_ns)
        if event.reads:
            add_reads(total.reads, event.reads)

    def add_total(self, given: StatementTotal) -> None:
        """Count the calls that the kernel added up."""
        total = self._fresh_sum(given)
        total.calls += given.latency.count
        if given.statement == OTHERS:
            self.unnamed += self._weight(given.latency.count, given.reads)
        total.errors += given.errors
        total.waited_ns += given.waited_ns
        total.latency.take(given.latency)
        add_reads(total.reads, given.reads)

    def merge(self, other: "Statements") -> None:
        """Count the other's calls too."""
        other.fold()
        self.fold()
        self.unnamed += other.unnamed
        for name, total in other._folded.items():
            self._add(name, total)

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Count what was of some files on those that stand for them."""
        for total in (*self._fresh.values(), *self._folded.values()):
            fold_files(total.reads, instead)

    def tell_version(self, major: int) -> None:
        """As time_names has it."""
        for total in (*self._fresh.values(), *self._folded.values()):
            time_names.tell_version(total.reads, major)

    def totals(self) -> list[tuple[Name, Sum]]:
        """Every statement so far, those that took longest first, or with `light` read longest."""
        self.fold()
        if self._light:
            self._unite()
            return sorted(self._folded.items(), key=lambda item: -_read_ns(item[1].reads))
        return sorted(self._folded.items(), key=lambda item: -item[1].latency.total_ns)

    def fold(self) -> None:
        """Keep no text but as it is shown."""
        for name, total in self._fresh.items():
            raw = total.text
            total.text = shown_text(raw, total.cut, literals=self._literals)
            shown = name if name.query_id else name._replace(text=total.text)
            self._add(shown, total)
        self._fresh.clear()

    def _unite(self) -> None:
        """Count what was read before an id was known, while a statement was parsed, with its own:
        that of the only one that has this text.
        """
        ids: dict[Name, list[Name]] = {}
        for name, total in self._folded.items():
            if name.query_id:
                ids.setdefault(self._without_id(name, total), []).append(name)
        for name, total in list(self._folded.items()):
            same = ids.get(self._without_id(name, total), [])
            if not name.query_id and name.text is not None and len(same) == 1:
                add_reads(self._folded[same[0]].reads, self._folded.pop(name).reads)

    def _without_id(self, name: Name, total: Sum) -> Name:
        text = total.text
        if self._literals and isinstance(text, str):
            text = shown_text(text, total.cut, literals=False)
        return name._replace(query_id=0, text=text, cut=total.cut)

    def _weight(self, calls: int, reads: ReadsByKey) -> int:
        return sum(counts.count for counts in io_of(reads).values()) if self._light else calls

    def _fresh_sum(self, given: QueryEvent | StatementTotal) -> Sum:
        name = Name(
            given.query_id,
            None if given.query_id else given.text,
            given.text_cut and not given.query_id,
            given.protocol,
            given.begun_before,
            given.application_name,
        )
        total = self._fresh.get(name)
        if total is None:
            if len(self._fresh) >= MOST_TEXTS:
                self.fold()
            total = self._fresh[name] = Sum()
            total.text, total.cut = given.text, given.text_cut
        return total

    def _add(self, name: Name, total: Sum) -> None:
        if name not in self._folded and len(self._folded) >= self._most:
            if name.query_id or name.text is not None:
                self.unnamed += self._weight(total.calls, total.reads)
            name = name._replace(query_id=0, text=None, cut=False)
            total.text, total.cut = None, False
        self._folded.setdefault(name, Sum()).add(total)


def _read_ns(reads: ReadsByKey) -> int:
    return sum(counts.total_ns for counts in io_of(reads).values())


@functools.lru_cache(maxsize=1 << 13)  # more than the usual room for statements
def shown_text(text: bytes | str | None, cut: bool, *, literals: bool) -> str | None:
    """A query's text as files hold it: without its literals, unless they are asked for."""
    if not text:
        return None if text is None else ""
    if isinstance(text, str):
        return text if literals else redact(text, cut)
    if literals:
        return terminal_text.decode(text, cut)
    # Escaped only after: what is no UTF-8 is part of a name, such as that of a dollar quote
    raw = terminal_text.decode(text, cut, "surrogateescape")
    return terminal_text.decode(redact(raw, cut).encode("utf-8", "surrogateescape"))
