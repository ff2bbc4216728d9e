"""What was done in each interval, by which process and statement and where: for a live screen."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..engines import StatementName
from ..model.capture import Operation, Scope, Source, TimeKind
from .gains import Gain, Told
from .heaviest import Who
from .traced_process import TracedProcess


class Row(NamedTuple):
    """What is told apart."""

    serial: int
    """Of the process that pays: of a parallel worker, its leader."""
    statement: StatementName | Told | None
    """One that runs has no name before it ends, where queries are probed."""
    file: int
    operation: Operation
    source: Source


class Recorder:
    """All that was done since it was taken last; Intervals tells it, as it looks."""

    def __init__(
        self,
        statement: Callable[[int, int], StatementName | None],
        process: Callable[[int], TracedProcess | None],
    ) -> None:
        """`statement` as Engine has it; `process` by a serial the one that pays for it."""
        self._statement = statement
        self._process = process
        self.processes: dict[int, TracedProcess] = {}
        """Those of the rows, by their serials, also of who has ended meanwhile."""
        self.rows: dict[Row, list[int]] = {}
        """Count, bytes, nanoseconds."""
        self.spent: dict[tuple[int, TimeKind, Scope, int], int] = {}
        """By serial and as TimeSums: nanoseconds."""
        self.became: list[tuple[Told, Who]] = []
        """Queries that ended, and the statements they were of."""
        self.texts: dict[int, StatementName] = {}
        """By query_id, of those whose text is known."""

    def count(self, serial: int, who: Who, gain: Gain) -> None:
        """See timeline.Recorder."""
        payer = self._payer(serial)
        statement = None if isinstance(who, str) else who
        query_id = statement.query_id if isinstance(statement, StatementName) else 0
        if query_id and query_id not in self.texts:
            name = self._statement(*gain.told)
            if name and name.query_id == query_id and name.text:
                self.texts[query_id] = name
        row = Row(payer, statement, gain.key.file, gain.key.operation, gain.key.source)
        count, size, total_ns = gain.totals
        sums = self.rows.setdefault(row, [0, 0, 0])
        sums[0] += count
        sums[1] += size
        sums[2] += total_ns

    def spend(self, serial: int, spent: tuple[TimeKind, Scope, int], ns: int) -> None:
        """See timeline.Recorder. As of reads: else these would be a share of time without them."""
        key = (self._payer(serial), *spent)
        self.spent[key] = self.spent.get(key, 0) + ns

    def rename(self, running: Told, who: Who) -> None:
        """See timeline.Recorder."""
        self.became.append((running, who))

    def take(self) -> "Recorder":
        """What there is, and begin anew."""
        taken = Recorder(self._statement, self._process)
        for name in ("processes", "rows", "spent", "became"):
            setattr(taken, name, getattr(self, name))
            setattr(self, name, type(getattr(self, name))())
        taken.texts = self.texts
        return taken

    def keep_texts(self, is_needed: Callable[[int], bool]) -> None:
        """Forget those of other query_ids: of who runs again they are asked for anew."""
        for query_id in [each for each in self.texts if not is_needed(each)]:
            del self.texts[query_id]

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone, and have no names any more; others stand for them."""
        rows, self.rows = self.rows, {}
        for row, sums in rows.items():
            known = self.rows.setdefault(
                row._replace(file=instead.get(row.file, row.file)), [0, 0, 0]
            )
            known[:] = map(sum, zip(known, sums, strict=True))

    def _payer(self, serial: int) -> int:
        process = self._process(serial)
        if process is None:
            return serial
        payer = process.leader or process
        self.processes[payer.serial] = payer
        return payer.serial
