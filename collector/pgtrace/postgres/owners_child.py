"""What connects to a server as its owner: a child of pgtrace that has become that user."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from ..errors import ConnectionLostError, DatabaseError
from ..linux import as_user, capabilities, foreign_files, forked
from ..linux.other_root import inside
from . import connection
from .owners_messages import MOST_ANSWERED, Answer, Ask, Close, Connect, received_with_file, send

DATABASE = "postgres"
_MOST_MEMORY = 1 << 30
_MOST_PASSWD = 1 << 20


class Child:
    """What runs in the child: one request, one answer, until the other end is closed."""

    def __init__(self, channel: socket.socket, ids: as_user.Ids) -> None:
        self._channel = channel
        self._ids = ids
        self._open: dict[int, tuple[ExitStack, connection.Connection]] = {}
        self._made = 0

    def serve(self) -> None:
        """Become the owner, and answer."""
        import gc

        gc.freeze()  # what is the parent's is never to be closed here
        gc.enable()
        why = self._become()
        wish = msgspec.msgpack.Decoder(Connect | Ask | Close)
        while True:
            data, root = received_with_file(self._channel)
            try:
                answer = Answer(why) if why else self._do(wish.decode(data), root)
            finally:
                if root is not None:
                    os.close(root)
            said = msgspec.msgpack.encode(answer)
            if len(said) > MOST_ANSWERED:
                said = msgspec.msgpack.encode(Answer(f"more than {MOST_ANSWERED >> 20} MiB"))
            send(self._channel, said, [])

    def _become(self) -> str | None:
        """What is needed is imported before: the owner may not be able to read it."""
        try:
            import psycopg
        except ImportError as error:
            from ..remedies import without_psycopg

            return without_psycopg(error)
        assert psycopg.pq.version()
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        capabilities.bound()
        try:
            if os.getresuid() == (self._ids[0],) * 3:
                capabilities.take()
                capabilities.no_new_privileges()
            else:
                as_user.become_for_good(self._ids)
        except OSError as error:
            needs = " and ".join(capabilities.BECOMING[:2])
            what = f"pgtrace cannot become the server's owner, uid {self._ids[0]}"
            return f"{what}: {error.strerror}; that takes {needs}"
        forked.close_up()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + _MOST_MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ.clear()  # PGPASSFILE and others are of somebody else
        return None

    def _do(self, wish: Connect | Ask | Close, root: int | None) -> Answer:
        asked = None
        try:
            if isinstance(wish, Connect):
                assert root is not None
                return self._connect(wish, root)
            opened, asked = self._open[wish.number]
            if isinstance(wish, Ask):
                return Answer(rows=asked.rows(wish.query, wish.parameters))
            del self._open[wish.number]
            opened.close()
            return Answer()
        except DatabaseError as error:
            return Answer(str(error), is_lost=isinstance(error, ConnectionLostError))

    def _connect(self, wish: Connect, root: int) -> Answer:
        from psycopg.conninfo import make_conninfo

        inside = f"/proc/self/fd/{root}"
        user = _name(self._ids[0], inside)
        with ExitStack() as stack:
            host = stack.enter_context(_directory(Path(inside), wish.socket_directory))
            words = make_conninfo(
                "",
                host=host,
                port=str(wish.port),
                user=user,
                dbname=wish.dbname or DATABASE,
                passfile="/dev/null/none",  # one that is there and no file it warns of
                sslmode="disable",
                gssencmode="disable",
            )
            try:
                asked = stack.enter_context(connection.connect(words))
            except DatabaseError as error:
                why = str(error).rpartition(" failed: ")[2]  # before it stands our own name of it
                raise DatabaseError(
                    f"as role {user}, by the socket in {wish.socket_directory}: {why}; "
                    "--dsn names another connection"
                ) from error
            if asked.peer_pid() != wish.postmaster_pid:
                raise DatabaseError("the socket is another process's, not the server's")
            own = asked.own_backend_pid()
            self._made += 1
            self._open[self._made] = stack.pop_all(), asked
        return Answer(number=self._made, backend_pid=own or 0)


@contextmanager
def _directory(root: Path, name: str) -> Iterator[str]:
    """What libpq can take for the socket's directory, in the server's own view."""
    if name.startswith("@"):
        if "," in name:  # libpq's list of hosts, of which the next may be anywhere in the network
            raise DatabaseError(f"{name} is no directory of a socket")
        yield name
        return
    try:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        found = os.open(inside(root, name), flags)
    except OSError as error:
        raise DatabaseError(f"{name}: {error.strerror}") from error
    try:
        yield f"/proc/self/fd/{found}"
    finally:
        os.close(found)


def _name(uid: int, root: str) -> str:
    """Of a user, as the server knows it: `peer` compares that with the role's."""
    with suppress(OSError), foreign_files.opened(root, "etc/passwd") as file:
        for line in os.pread(file, _MOST_PASSWD, 0).decode(errors="replace").splitlines():
            name, *fields = line.split(":")
            if fields[1:2] == [str(uid)]:
                return name
    return DATABASE
