"""Makes frames of what a tracer records: in the process that traces."""

import os
from collections.abc import Iterable, Mapping, Sequence

from .. import terminal_text
from ..engines import StatementName
from ..model.capture import Tablespace, waits_for_work
from ..reporters.losses import Watch
from ..tracing.recorder import Recorder, Row
from ..tracing.statements import shown_text
from ..tracing.traced_process import TracedProcess
from ..tracing.tracer import Tracer
from .activities import Activities
from .buffers import Buffers
from .frame import Begin, Cell, Frame, Place, Process, Spent
from .names import Numbered, Used, drop, numbered
from .numbers import Numbers

_Statement = tuple[int, str | None]
"""A query_id, or without one a text without its literals."""


class Teller:
    """Tells a tracer's seconds one after the other."""

    def __init__(self, tracer: Tracer, recorder: Recorder) -> None:
        self._tracer = tracer
        self._recorder = recorder
        self._told_ns = tracer.started_ns
        self._statements: Numbers[_Statement | tuple[int, int]] = Numbers()
        self._events: Numbers[tuple[str, str | None]] = Numbers()
        self._processes: dict[int, Process] = {}
        self._nameless: dict[int, int] = {}
        """Statements that were told without their texts: the query_ids."""
        self._places: dict[int, Place] = {}
        """As they were told last; and so the processes."""
        self._used = Used()
        self._activities = Activities(tracer.registry.servers)
        self._devices: list[str] = []
        self._buffers = Buffers(tracer.target.filters.datnames)
        self.notices: list[str] = []
        """What is to be said with the next frame."""
        self._losses = Watch(tracer.lost, tracer.kept, self.notices.append)

    def begin(self, by_relation: bool) -> Begin:
        """What stays the same."""
        tracer, servers = self._tracer, self._tracer.target.servers
        return Begin(
            server=str(tracer.target),
            version=servers[0].version if len(servers) == 1 else None,
            block_size=tracer.block_size,
            cpus=os.cpu_count() or 1,
            operations=list(tracer.engine.operations),
            times=tracer.engine.times,
            queries=tracer.engine.query_source,
            by_relation=by_relation,
            no_buffers=_no_buffers(tracer),
        )

    def frame(self) -> Frame | None:
        """What was done since the last one; None as long as no second is over."""
        ended_ns = self._tracer.intervals.cut_ns
        if ended_ns == self._told_ns:
            return None
        length_s = (ended_ns - self._told_ns) / 1e9
        self._told_ns = ended_ns
        self._losses.tick()
        taken, registry = self._recorder.take(), self._tracer.registry
        is_meant = registry.identities.is_meant
        here = {each.serial: each for each in registry.processes() if is_meant(each)}
        meant = {
            serial: process
            for serial, process in taken.processes.items()
            if serial in here or is_meant(process)
        }
        cells = [
            self._cell(row, sums, taken)
            for row, sums in taken.rows.items()
            if sums[0] and row.serial in meant
        ]
        spent = self._spent(taken, meant)
        doing = self._activities.look(here, _heaviest(cells))
        became = self._became(taken)
        notices, self.notices[:] = list(self.notices), []
        frame = Frame(
            at=self._tracer.wall_time(ended_ns).timestamp(),
            length_s=length_s,
            cells=cells,
            spent=spent,
            doing=doing,
            clients=sum(each.title.backend_type == "client backend" for each in here.values()),
            saw_all=self._activities.saw_all,
            buffers=self._hits(),
            buffers_s=self._buffers.seconds,
            away=registry.servers.are_away(),
            became=became,
            devices=self._new_devices(),
            notices=notices,
        )
        has = numbered(frame)
        frame.processes = self._new_processes(has.processes, here | meant)
        frame.statements = self._new_statements(taken)
        # Of another name of a tablespace, those in it have to be told that were not read again
        again = self._places.keys() if frame.devices else set[int]()
        frame.places = self._new_places(has.places | again)
        frame.events = self._events.take()
        if old := self._used.add(has):
            self._forget(old)
        return frame

    def number_of(self, query_id: int, text: object) -> int:
        """Under which number a statement was told, by what tells it from others; 0: never."""
        what = (query_id, None) if query_id else (0, str(text))
        return self._statements.known(what)

    def device_of(self, file: int) -> int:
        """Which of the devices that were told a file lies on; -1: none."""
        name = self._tracer.places.place(file).tablespace
        return self._devices.index(name) if name in self._devices else -1

    def _hits(self) -> tuple[int, int] | None:
        """See Frame.buffers."""
        if not self._tracer.target.is_of_databases:
            return None  # the server counts those of others with them
        return self._buffers.look(self._tracer.names)

    def _cell(self, row: Row, sums: Sequence[int], taken: Recorder) -> Cell:
        count, size, total_ns = sums
        statement = self._number(row.statement, taken)
        return Cell(
            row.serial, statement, row.file, row.operation, row.source, count, size, total_ns
        )

    def _number(self, statement: StatementName | tuple[int, int] | None, taken: Recorder) -> int:
        if statement is None:
            return 0
        if not isinstance(statement, StatementName):
            return self._statements.of(statement)
        if statement.query_id:
            return self._statements.of((statement.query_id, None))
        text = shown_text(statement.text, statement.text_cut, literals=False)
        return self._statements.of((0, text)) if text else 0

    def _became(self, taken: Recorder) -> dict[int, int]:
        return {
            self._statements.of(told): self._number(who, taken)
            for told, who in taken.became
            if isinstance(who, StatementName)
        }

    def _spent(self, taken: Recorder, meant: dict[int, TracedProcess]) -> list[Spent]:
        found = []
        for (serial, kind, scope, number), ns in taken.spent.items():
            if serial not in meant:
                continue
            master = meant[serial].postmaster
            event = self._tracer.assembly.event(number, master) if kind == "sleep" else None
            if event and waits_for_work(scope, *event):
                continue
            what = self._events.of((event.type, event.event) if event else (kind, None))
            found.append(Spent(serial, what, ns))
        return found

    def _new_processes(
        self, serials: Iterable[int], known: Mapping[int, TracedProcess]
    ) -> dict[int, Process]:
        found = {}
        for process in (known[serial] for serial in serials):
            name = terminal_text.decode(process.application_name) or None
            title = process.title
            told = Process(process.pid, title.backend_type, title.datname, title.usename, name)
            if self._processes.get(process.serial) != told:
                self._processes[process.serial] = found[process.serial] = told
        return found

    def _new_statements(self, taken: Recorder) -> dict[int, str]:
        """Also those whose text has come by now: another backend may have told it."""
        found = {}
        for number, what in self._statements.take().items():
            if isinstance(what[1], str):
                found[number] = what[1]
            elif what[1] is None:
                self._nameless[number] = what[0]
                found[number] = f"query_id {what[0]}"
        for number, query_id in [*self._nameless.items()]:
            name = taken.texts.get(query_id)
            text = shown_text(name.text, name.text_cut, literals=False) if name else None
            if text:
                found[number] = text
                del self._nameless[number]
        return found

    def _new_places(self, files: Iterable[int]) -> dict[int, Place]:
        """A relation's name may come later than the reads of it."""
        found = {}
        for file in files:
            place = self._tracer.places.place(file)
            if place.kind == "unknown" and file in self._places:
                continue  # it is gone by now
            name = f"{place.relation} ({place.kind})" if place.relation else place.kind
            told = Place(name, place.tablespace, place.kind)
            if self._places.get(file) != told:
                self._places[file] = found[file] = told
        return found

    def _forget(self, old: Numbered) -> None:
        """What is in no frame any more that is kept is told anew should it come back."""
        drop(self._processes, old.processes)
        drop(self._places, old.places)
        drop(self._nameless, old.statements)
        self._statements.forget(old.statements)
        self._events.forget(old.events)
        self._recorder.keep_texts(lambda query_id: self._statements.known((query_id, None)) > 0)

    def _new_devices(self) -> list[Tablespace]:
        found = self._tracer.places.tablespaces()
        names = [each.name for each in found]
        if names == self._devices:
            return []
        self._devices = names
        return found


def _no_buffers(tracer: Tracer) -> str:
    if tracer.names is None:
        return "without a connection"
    if not tracer.target.is_of_databases:
        return "but of whole databases"
    return "yet" if tracer.names.only else "of several servers"


def _heaviest(cells: Sequence[Cell]) -> list[int]:
    sums: dict[int, int] = {}
    for cell in cells:
        sums[cell.process] = sums.get(cell.process, 0) + cell.total_ns
    return sorted(sums, key=lambda serial: -sums[serial])
