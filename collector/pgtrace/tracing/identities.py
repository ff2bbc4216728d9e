"""Who each traced process is, and whether anybody is to be told of it."""

import time
from collections.abc import Iterable
from dataclasses import replace

from ..engines import Engine, TaskSnapshot
from ..errors import PgtraceError, UnsupportedError
from ..linux.program_file import identity
from ..postgres import binary, titles
from ..postgres.catalog import Names
from ..postgres.discovery import Backend
from ..postgres.names_of_servers import NamesOfServers
from . import traced_process
from .options import TraceOptions
from .server_watch import Servers
from .targets import Target
from .traced_process import TracedProcess


class Identities:
    """By its title, by what it shows of itself, and by the database where there is a connection."""

    def __init__(
        self,
        engine: Engine,
        target: Target,
        options: TraceOptions,
        servers: Servers,
        names: NamesOfServers | None,
    ) -> None:
        self._engine = engine
        self._target = target
        self._options = options
        self._servers = servers
        self._names = names
        self._seen: dict[int, Backend] = {}
        self._named_by = 0
        """The look into the database whose names all have."""

    def names_of(self, postmaster: int) -> Names | None:
        """Who may know names of a server, by its postmaster."""
        return self._names.of(self._servers.first(postmaster)) if self._names else None

    def are_new(self) -> bool:
        """Whether the database was asked again since the last call."""
        if self._names is None or self._names.looks == self._named_by:
            return False
        self._named_by = self._names.looks
        return True

    def name(self, process: TracedProcess) -> None:
        """Take over what the database calls it."""
        names = self.names_of(process.postmaster)
        if names is None:
            return
        name = names.of(process.inner_pid, process.born_ns, process.ended_ns)
        # One that is not in the list is about to be, unless it is of a kind that never is
        names.met(time.monotonic_ns() if name is None and process.is_client else process.began_ns)
        if name is None or name == process.called:
            return
        process.called = name
        process.title = replace(
            process.title,
            datname=name.datname or process.title.datname,
            usename=name.usename or process.title.usename,
            backend_type=name.backend_type or process.title.backend_type,
        )
        if name.application_name:
            process.application_name = name.application_name.encode()

    def title(self, raw: bytes, postmaster: int) -> titles.Title:
        """What a title says."""
        server = self._servers.of(postmaster)
        cluster, major = (server.cluster_name, server.major) if server else (None, None)
        return traced_process.title_of(raw, cluster, major)

    def remember(self, family: Iterable[Backend]) -> None:
        """Take these as who they were when they were looked at, a moment ago: within that no pid
        is given again, and who they are does not change once their titles say it."""
        self._seen = {each.pid: each for each in family if each.backend_type}

    def title_now(self, pid: int) -> titles.Title | None:
        """The same of a process as it is now; None once it has ended."""
        seen = self._seen.get(pid)
        if seen:
            return seen.title
        try:
            return self._servers.backend(pid).title
        except PgtraceError:
            return None

    def is_stranger(self, process: TracedProcess) -> bool:
        """Whether it runs another program than its postmaster: that is process 1 of a container and
        adopts who is left behind there, such as what `docker exec` began in the background.
        """
        if not process.postmaster:
            return False
        own, servers = (identity(f"/proc/{p}/exe") for p in (process.pid, process.postmaster))
        return own is not None and servers is not None and own != servers

    def learn_database(self, process: TracedProcess, task: TaskSnapshot) -> None:
        """An autovacuum worker reads before it shows its database: it may have been met then."""
        if process.title.datname is None and process.title.backend_type == "autovacuum worker":
            title = self.title(task.title, task.postmaster)
            if title.backend_type == process.title.backend_type:
                process.title = replace(process.title, datname=title.datname)

    def is_meant(self, process: TracedProcess) -> bool:
        """Whether it is one to tell of."""
        if process.leader or process.is_stranger or self.is_own(process):
            return False
        if not self._target.whole:
            if not self._target.backends:
                return True
            if process.pid not in self._target.pids:
                return False
        title = process.title
        return self._target.filters.allow(title.datname, title.usename, title.backend_type)

    def is_own(self, process: TracedProcess) -> bool:
        """Whether it is there for pgtrace's names alone."""
        if self._options.own_queries:
            return False
        if process.is_own is not None:
            return process.is_own
        own = self._names is not None and self._names.is_own(
            self._servers.first(process.postmaster),
            process.inner_pid,
            process.born_ns,
            process.ended_ns,
        )
        if process.ended_ns:
            process.is_own = own
        return own

    def running_text(
        self, process: TracedProcess, addresses: dict[int, int | None]
    ) -> tuple[bytes | None, bool] | None:
        """What it runs now, without a text if that cannot be known; None if it is idle.

        One look into the binary serves all backends of a server, unless the one looked at ended.
        """
        owner = process.postmaster or process.pid
        try:
            if owner not in addresses:
                addresses[owner] = binary.variable_address(process.pid, "debug_query_string")
            if address := addresses[owner]:
                return binary.running_query(process.pid, variable=address)
        except PgtraceError as error:
            if isinstance(error, UnsupportedError):
                addresses[owner] = None
            missing = f"text of the query that ran before: {error}"
            if missing not in self._engine.not_measured and not self._target.whole:
                self._engine.not_measured.append(missing)
        return None if self._is_idle(process.pid) else (None, False)

    def _is_idle(self, pid: int) -> bool:
        """Whether its title says so; if that says nothing, as well."""
        try:
            activity = self._servers.backend(pid).activity
        except PgtraceError:
            return True
        return not activity or activity.startswith("idle")
