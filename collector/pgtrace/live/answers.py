"""What a live screen asks for beside frames: latencies of one row, and the last minutes as a file.

Both look at everything that was measured, which takes a while: never more than a share of a CPU.
"""

import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ..engines import Counts, QueryEvent, ReadsByKey, io_of
from ..errors import PgtraceError
from ..files import output_file
from ..linux import heap
from ..model import decoding, encoding
from ..model.capture import Operation, Source
from ..model.since import since
from ..tracing.accounts import Account
from ..tracing.statements import shown_text
from ..tracing.tracer import Tracer
from .frame import Asked, Histograms, Look, Said, Told
from .names import MINUTES
from .teller import Teller

_MOST_OF_TIME = 0.03
"""Share of a CPU that looking at everything may take."""
_EVERY_S = 60.0
_MOST_OF_TIME_UNASKED = 0.005
"""Share that keeping moments may take: of a server with many backends there are fewer."""


class _Moment(NamedTuple):
    at_s: float
    """Of the session."""
    data: bytes


class Answers:
    """Answers one after the other."""

    def __init__(self, tracer: Tracer, teller: Teller) -> None:
        self._tracer = tracer
        self._teller = teller
        self._not_before = 0.0
        self._moments: deque[_Moment] = deque(maxlen=MINUTES + 1)
        """What was measured until each minute: what was since is the difference."""
        self._next_moment = time.monotonic() + _EVERY_S

    def tick(self) -> None:
        """Keep what was measured until now, about once a minute."""
        if time.monotonic() >= self._next_moment:
            began = time.thread_time()
            self._moments.append(self._moment())
            heap.give_back()  # else what a moment is made of stays, 26 MiB of 500 backends
            pause = max(_EVERY_S, self._rest(began) / _MOST_OF_TIME_UNASKED)
            self._next_moment = time.monotonic() + pause

    def _moment(self) -> _Moment:
        taken = self._tracer.capture()
        return _Moment(taken.duration_s, zlib.compress(encoding.encode(taken), 1))

    def of(self, several: Iterable[Asked], tell: Callable[[Told], None]) -> list[Asked]:
        """Answer them; return what it is too early for. Who looks at another row asks no more for
        the one before.
        """
        left: list[Asked] = []
        for asked in several:
            if isinstance(asked, Look):
                left = [asked]
            elif told := self.answer(asked):
                tell(told)
        if left and (told := self.answer(left[0])):
            tell(told)
            return []
        return left

    @property
    def due(self) -> float:
        """When what of() left can be answered, by time.monotonic()."""
        return self._not_before

    def answer(self, asked: Asked) -> Histograms | Said | None:
        """Return it; None if it is too early to look again."""
        if isinstance(asked, Look):
            return self._look(asked)
        try:
            return Said(self._write(asked.minutes))
        except (OSError, PgtraceError) as error:
            return Said(f"Not written: {error}", good=False)

    def _rest(self, began: float) -> float:
        """Return how long it took, in seconds of CPU time."""
        busy = time.thread_time() - began
        self._not_before = time.monotonic() + busy / _MOST_OF_TIME
        return busy

    def _look(self, asked: Look) -> Histograms | None:
        if time.monotonic() < self._not_before:
            return None
        began = time.thread_time()
        found: dict[tuple[Operation, Source], Counts] = {}
        for reads in self._reads(asked, self._tracer.accounts()):
            for key, counts in io_of(reads).items():
                if self._is_in(asked, key.file):
                    found.setdefault((key.operation, key.source), Counts()).take(counts)
        self._rest(began)
        seconds = (time.monotonic_ns() - self._tracer.started_ns) / 1e9
        by_source = [
            (operation, source, counts.total_ns, list(counts.to_data().buckets))
            for (operation, source), counts in sorted(found.items())
            if counts.count
        ]
        return Histograms(asked.kind, asked.number, seconds, by_source)

    def _reads(self, asked: Look, accounts: Iterable[Account]) -> Iterable[ReadsByKey]:
        for account in accounts:
            if asked.kind != "statement":
                if asked.kind != "backend" or account.process.serial == asked.number:
                    yield account.reads
                continue
            for name, total in account.statements.totals() if account.statements else ():
                if self._teller.number_of(name.query_id, total.text) == asked.number:
                    yield total.reads
            if (runs := account.running) and self._number_of(runs) == asked.number:
                yield runs.reads

    def _number_of(self, runs: QueryEvent) -> int:
        text = shown_text(runs.text, runs.text_cut, literals=False)
        return self._teller.number_of(runs.query_id, text)

    def _is_in(self, asked: Look, file: int) -> bool:
        if asked.kind == "relation":
            return file == asked.number
        if asked.kind == "device":
            return self._teller.device_of(file) == asked.number
        return True

    def _write(self, minutes: int) -> str:
        path = Path(time.strftime("pgtrace-%Y%m%d-%H%M%S.json"))
        output_file.check(path)
        taken = self._tracer.capture()
        wanted = taken.duration_s - 60 * minutes
        before = [moment for moment in self._moments if moment.at_s <= wanted + _EVERY_S / 2]
        if before and wanted > 0:
            taken = since(taken, decoding.decode_capture(zlib.decompress(before[-1].data)))
        wrote = output_file.write(encoding.encode(taken), path)
        return f"{wrote}: the last {taken.duration_s:.0f} s"
