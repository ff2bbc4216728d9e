"""Which programs an engine loads, and where they are attached: when it begins, and to servers that
are started later."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import PgtraceError
from ..libbpf.objects import Object
from ..linux import program_file
from ..linux.program_file import Program
from ..model.capture import COUNT_CALLS
from ..postgres.binary import Programs
from . import Postmaster, Probed, ProbeType, QuerySource, Request, probes


class Attachments:
    """What could not be attached is said in `not_measured`."""

    def __init__(
        self,
        loaded: Object,
        request: Request,
        probe_type: ProbeType,
        not_measured: list[str],
        *,
        no_usdt: bool,
        uring: dict[str, str],
    ) -> None:
        """`uring` are its programs by their tracepoints."""
        self._object = loaded
        self._request = request
        self._probe_type = probe_type
        self._no_usdt = no_usdt
        self._uring = uring
        self._asked_in: set[program_file.Identity] = set()
        self._waited_in: set[program_file.Identity] = set()
        """Both have binaries, by their identities."""
        self._not_measured = not_measured
        self._attach_ids: Callable[[Program, int], list[str]] = lambda _, __: []
        self._attach_asking: Callable[[Program, int], str | None] = lambda _, __: None
        self.query_source: QuerySource = "none"
        self.times = False
        self.waits: set[int] = set()
        """The postmasters whose backends are seen to wait for asynchronous reads."""
        self.done = not no_usdt and not all(
            probes.tells_of_aborts(binary) for binary, _ in request.binaries
        )
        """Whether query__done is probed."""

    def choose(self) -> None:
        """Have the programs loaded that will be needed, and no others."""
        request = self._request
        wanted = [probes.prefix(self._probe_type, each) for each in request.options.operations]
        wanted += [probes.EXIT, probes.FILL]
        if request.binaries:
            wanted += [probes.NO_USDT if self._no_usdt else probes.QUERIES, probes.ABORT]
        wanted += [probes.DONE] if self.done else []
        wanted += [probes.QUERY_ID] if self._no_usdt or request.query_ids else []
        wanted += [probes.AIO] if request.aio else []
        wanted += [probes.CALIBRATION] if request.light else []
        wanted += [probes.CHECKPOINTS] if request.checkpoints else []
        wanted += [probes.times(self._probe_type)] if request.options.times else []
        wanted += self._uring.values()
        self._object.choose(lambda name: name.startswith(tuple(wanted)))

    def attach(
        self,
        close_scopes: Callable[[], None],
        begin_light: Callable[[], bool],
        attach_ids: Callable[[Program, int], list[str]],
        attach_asking: Callable[[Program, int], str | None],
    ) -> None:
        """Attach them. `close_scopes` is called where nothing would tell when a query ends;
        `begin_light` returns whether backends' memory tells what they run; `attach_ids` what is
        not measured of query ids, and `attach_asking` of I/O workers.
        """
        self._attach_ids, self._attach_asking = attach_ids, attach_asking
        # Before all: who ends from now on is seen to. Then what may be refused: links of uprobes
        # take long to come and to go
        request = self._request
        probes.attach_exit(self._object)
        for operation in request.options.operations:
            probes.attach_operation(self._object, self._probe_type, operation)
        self._attach_times()
        refused = self._attach_queries(close_scopes)
        if request.light and begin_light():
            self.query_source = "memory"
        if request.aio:
            waiters = [each for each in request.waiters if each not in refused]
            self._not_measured += self._attach_waits(waiters)
            for postmaster in request.postmasters:
                self._note_waits(postmaster)
            if any(postmaster.io_workers for postmaster in request.postmasters):
                askers = [each for each in request.askers if each not in refused]
                self._not_measured += self._attach_io_workers(askers)
        if request.checkpoints:
            self._not_measured += probes.attach_checkpoints(self._object, request.checkpoints)
        if self._uring:
            probes.attach_uring(self._object, self._uring)

    def follow(self, new: Postmaster, binary: Program | None) -> None:
        """The same for a server in the place of another; `binary` is what it runs, if nothing is
        attached to that yet.
        """
        path = Path(f"/proc/{new.pid}/exe")
        aio = self._request.aio and new.aio
        if binary:
            self._attach_later("queries", lambda: self._attach_to_another(binary, new, aio=aio))
        elif aio and new.io_workers:
            self._attach_later("charging reads of I/O workers", lambda: self._ask_in(path))
        self._note_waits(new)

    def _attach_later(self, what: str, attach: Callable[[], list[str]]) -> None:
        """Attach, and note what cannot be; of what failed nothing stays."""
        before, known = self._object.attached, (self._asked_in.copy(), self._waited_in.copy())
        try:
            missing = attach()
        except (probes.MissingProbesError, PgtraceError) as error:
            self._object.detach(keep=before)
            self._asked_in, self._waited_in = known
            missing = [f"{what} of the server started since: {error}"]
        except BaseException:
            self._object.detach(keep=before)
            self._asked_in, self._waited_in = known
            raise
        self._not_measured += [each for each in missing if each not in self._not_measured]

    def _attach_times(self) -> None:
        if not self._request.options.times:
            return
        try:
            probes.attach_times(self._object, self._probe_type)
        except PgtraceError as error:
            self._not_measured.append(f"where the time of queries goes: {error}")
            return
        self.times = True

    def _attach_queries(self, close_scopes: Callable[[], None]) -> list[Probed]:
        """Of several binaries one may be refused: say so, and return it."""
        request = self._request
        if not request.binaries:
            return []
        missing: list[str] = []
        refused: list[Probed] = []
        for each in request.binaries:
            before = self._object.attached
            try:
                missing += self._attach_to(*each)
                if each[0].identity in request.query_ids:
                    missing += self._attach_ids(*each)
            except PgtraceError as error:
                if len(refused) + 1 == len(request.binaries):
                    raise
                self._object.detach(keep=before)
                refused.append(each)
                missing.append(f"queries of processes that run {each[0]}: {error}")
        self._not_measured += dict.fromkeys(missing)
        if any(reason.startswith("queries:") for reason in missing):
            close_scopes()
        else:
            self.query_source = "uprobe" if self._no_usdt else "usdt"
        return refused

    def _attach_to(self, binary: Program, pid: int) -> list[str]:
        """The probes of queries. What is not measured."""
        if self._no_usdt:
            return probes.attach_functions(self._object, binary, pid)
        return probes.attach_queries(self._object, binary, pid, done=self.done)

    def _attach_io_workers(self, binaries: Sequence[Probed]) -> list[str]:
        missing = []
        for binary, pid in binaries:
            try:
                missing.append(self._attach_asking(binary, pid))
            except PgtraceError as error:
                if len(binaries) == 1:
                    raise
                missing.append(f"reads by I/O workers of {binary}, as their queries': {error}")
            self._asked_in.add(binary.identity)
        return list(dict.fromkeys(filter(None, missing)))

    def _ask_in(self, path: Path) -> list[str]:
        """The same in one that may have them already."""
        with Programs() as programs:
            program = programs.of(path)
            asked = program.identity in self._asked_in
            return [] if asked else self._attach_io_workers([(program, -1)])

    def _attach_waits(self, binaries: Sequence[Probed]) -> list[str]:
        missing = {each: probes.attach_waits(self._object, *each) for each in binaries}
        there = [each for each in binaries if not missing[each]]
        self._waited_in |= {binary.identity for binary, _ in there}
        return list(dict.fromkeys(filter(None, missing.values())))

    def _note_waits(self, postmaster: Postmaster) -> None:
        if program_file.identity(f"/proc/{postmaster.pid}/exe") in self._waited_in:
            self.waits.add(postmaster.pid)

    def _attach_to_another(self, binary: Program, new: Postmaster, *, aio: bool) -> list[str]:
        everybody, missing = [(binary, -1)], []
        if self.query_source in COUNT_CALLS:
            missing += self._attach_to(binary, -1)
        if aio:
            if self.query_source != "memory":
                missing += self._attach_waits(everybody)
            missing += self._attach_io_workers(everybody)
        # Last: what it keeps is not to be detached since something else failed
        if self.query_source in COUNT_CALLS and new.query_ids:
            missing += self._attach_ids(binary, -1)
        return missing
