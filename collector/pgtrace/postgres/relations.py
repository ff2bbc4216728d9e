"""Which relation a file is of, as the catalogs of its database have it.

Files go by their path within the data directory, as pg_relation_filepath() gives it: without the
suffix of a fork and the number of a segment.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from ..errors import DatabaseError
from ..model.capture import Kind
from .connection import Asked, Connect, Oid

LEAST_PAUSE_S = 1.0
_MOST_PAUSE_S = 60.0
_REST = 20
"""So many times as long as an answer took, the database is not asked again, whatever is read
there: of hundreds of thousands of relations all are listed, and that is the server's work."""
_PATH = r"^(?:[^/]+/)*(?:global|[0-9]{1,10})/[^/]+$"
"""Above the file is the oid of its database."""


class Relation(NamedTuple):
    """What a file belongs to."""

    name: str
    """`schema.relation`, quoted as SQL wants it; `database.schema.relation` outside the
    connection's own database. Of TOAST, that of its table."""
    kind: Kind


class _Row(NamedTuple):
    """One of queries/relations.sql."""

    path: Annotated[str, Meta(pattern=_PATH)] | None
    name: str
    kind: Literal["heap", "index", "toast"]


class _Database(NamedTuple):
    oid: Oid
    name: str
    quoted: str
    allowed: bool


@dataclass
class _Pending:
    """Files of one database that nobody knows yet, and when it is asked again."""

    paths: set[str] = field(default_factory=set)
    due_s: float = 0
    pause_s: float = LEAST_PAUSE_S


@dataclass
class _Rest:
    """How long a database is left alone, whatever is read there."""

    length_s: float = LEAST_PAUSE_S
    until_s: float = 0


class Relations:
    """All that there are, and of files that were read also those of who was dropped or rewritten.

    A database is asked when a file of it is read that is not known; one that stays so, because it
    is of a transaction that runs, or gone, is asked for less and less often.
    """

    def __init__(self, connect: Connect, opened: Callable[[int], None] | None = None) -> None:
        self._connect = connect
        self._opened = opened
        self._own = 0
        self._databases: dict[int, _Database] = {}
        self._wished: deque[str] = deque()
        self._forgotten: deque[str] = deque()
        self._wanted: set[str] = set()
        self._pending: dict[int, _Pending] = {}
        self._rests: dict[int, _Rest] = {}
        self.known: dict[str, Relation] = {}
        self.tablespaces: dict[int, str] = {}
        self.missing: dict[str, str] = {}
        """Databases that were asked in vain, and why."""

    def wish(self, path: str) -> None:
        """Ask for that file, when it is time; from any thread."""
        self._wished.append(path)

    def forget(self, path: str) -> None:
        """That file is gone, and nobody asks for it any more; from any thread."""
        self._forgotten.append(path)

    def forbidden(self, names: frozenset[str]) -> list[str]:
        """Databases that the role may not connect to; of these, if any are given."""
        found = self._databases.values()
        return [d.name for d in found if not d.allowed and (not names or d.name in names)]

    def begin(self, connection: Asked, own: int) -> None:
        """Learn what there is, and the relations of the connection's own database."""
        self._own = own
        self._look(connection)
        self._learn(connection, own)

    def ask(self, connection: Asked, *, last: bool = False) -> None:
        """Ask the databases whose time has come; all that are of use, if it is the last time."""
        while self._wished:
            path = self._wished.popleft()
            self._wanted.add(path)
            if path not in self.known:
                pending = self._pending.setdefault(self._database_of(path), _Pending())
                pending.paths.add(path)
                pending.due_s = min(pending.due_s, time.monotonic() + LEAST_PAUSE_S)
                pending.pause_s = LEAST_PAUSE_S
        while self._forgotten:
            path = self._forgotten.popleft()
            self._wanted.discard(path)
            asked = self._pending.get(self._database_of(path))
            if asked:
                asked.paths.discard(path)
        now = time.monotonic()
        due = [oid for oid in self._pending if last or self._is_due(oid, now)]
        if any(oid not in self._databases for oid in due):
            self._look(connection)
        for oid in due:
            self._ask(connection, oid)

    def _is_due(self, oid: int, now: float) -> bool:
        rest = self._rests.get(oid)
        return self._pending[oid].due_s <= now and (rest is None or rest.until_s <= now)

    def _leave_alone(self, oid: int, length_s: float) -> None:
        self._rests[oid] = _Rest(length_s, time.monotonic() + length_s)

    def _ask(self, connection: Asked, oid: int) -> None:
        pending, database = self._pending[oid], self._databases.get(oid)
        if database is None:  # dropped, or a template that nobody may enter
            del self._pending[oid]
            return
        began = time.monotonic()
        try:
            if oid == self._own:
                self._learn(connection, oid)
            else:
                with self._connect(database.name, self._opened) as other:
                    self._learn(other, oid)
            self.missing.pop(database.name, None)
            self._leave_alone(oid, _REST * (time.monotonic() - began))
        except DatabaseError as error:
            if oid == self._own:
                raise
            self.missing[database.name] = str(error)
            before = self._rests.get(oid, _Rest()).length_s
            self._leave_alone(oid, min(2 * max(before, LEAST_PAUSE_S), _MOST_PAUSE_S))
        pending.paths -= self.known.keys()
        if not pending.paths:
            del self._pending[oid]
            return
        pending.due_s = time.monotonic() + pending.pause_s
        pending.pause_s = min(2 * pending.pause_s, _MOST_PAUSE_S)

    def _look(self, connection: Asked) -> None:
        self._databases = {each.oid: each for each in connection.ask("databases", _Database)}
        self.tablespaces |= dict(connection.ask("tablespaces", tuple[Oid, str]))

    def _learn(self, connection: Asked, oid: int) -> None:
        before = "" if oid == self._own else f"{self._databases[oid].quoted}."
        found = {}
        for path, name, kind in connection.ask("relations", _Row):
            if path:  # of one that was dropped meanwhile there is none
                shared = path.startswith("global/")
                found[path] = Relation(name if shared else before + name, kind)
        kept = {
            path: relation
            for path, relation in self.known.items()
            if path in self._wanted or self._database_of(path) != oid
        }
        # One that may be looked at meanwhile stays as it is
        self.known = kept | found

    def _database_of(self, path: str) -> int:
        """Shared catalogs are in each."""
        name = path.split("/")[-2]
        return int(name) if name.isdecimal() else self._own
