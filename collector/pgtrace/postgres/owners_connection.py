"""Connections to a server as its owner, whom pg_hba.conf usually lets in by the Unix-domain socket.

Root connects to nothing that another user made, and parses nothing that comes from there: a child
that has become the owner does it, who can do to the server no more than its own processes can. The
child hands back rows of plain values, of which each is checked here. It stays for as long as there
is something to ask.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import msgspec

from ..errors import ConnectionLostError, DatabaseError
from ..linux import as_user, capabilities, forked
from . import discovery
from .connection import TIMEOUT_S, Asked, checked, query_text
from .discovery import Server
from .owners_messages import MOST_ANSWERED, Answer, Ask, Close, Connect, receive, send

_R = TypeVar("_R")
_Opened = Callable[[int], None]

_PATIENCE_S = 3 * TIMEOUT_S
"""For one answer: the time to connect, or of a statement and its transaction."""
_LATE_S = 1.0
"""For one that did not come in that time, whenever something is to be asked again."""
_END_S = 0.2
_MOST_SAID = 1000
"""Of an error, in characters: it is in the capture of all servers."""


class OwnersConnections:
    """Connects to a server, also after it was started again. The child is there from the start.

    Raises OSError when there can be no child. To be used by one thread; closed by any.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        ids = server.postmaster.uid, as_user.NO_GROUP
        self._owed: _Opened | None = None
        """Who is told of the backend if an answer that did not come in time is a connection's.
        Nothing is asked until it has come: it would be taken for the answer to that."""
        self._unused: list[int] = []
        """Connections that are open in the child, and that nobody asks: a superuser's, mostly."""
        self._socket, theirs = socket.socketpair()
        with theirs, capabilities.raised():
            self._child = forked.left_running(lambda: _serve(theirs, ids), {theirs.fileno()})

    @contextmanager
    def connect(self, dbname: str | None = None, opened: _Opened | None = None) -> Iterator[Asked]:
        """As connection.Connect. Of one that comes late `opened` is told, too."""
        server = self._present()
        if server.port is None or server.socket_directory is None:
            raise DatabaseError("the server listens at no Unix-domain socket")
        wish = Connect(server.postmaster_pid, server.socket_directory, server.port, dbname)
        try:
            root = os.open(f"/proc/{server.postmaster_pid}/root", os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise DatabaseError(f"the server's root: {error.strerror}") from error
        try:
            answer = self._answer(wish, [root], opened)
        finally:
            os.close(root)
        if opened and answer.backend_pid:
            opened(answer.backend_pid)
        asked = _Asked(self._answer, answer.number)
        try:
            yield asked
        finally:
            self._unused.append(answer.number)
            with suppress(DatabaseError):
                if not self._owed:
                    self._settle()

    def close(self) -> None:
        """End the child, and with it what is open; who waits for an answer gets none."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with suppress(ProcessLookupError, PermissionError), capabilities.raised():
            os.kill(self._child, signal.SIGKILL)
        end = time.monotonic() + _END_S
        with suppress(ChildProcessError):
            while os.waitpid(self._child, os.WNOHANG)[0] == 0 and time.monotonic() < end:
                time.sleep(0.001)

    def _present(self) -> Server:
        """The server as it runs now: started again, it has another postmaster."""
        old = self._server
        if old.runs():
            return old
        new = discovery.successor(old)
        if new is None:
            raise DatabaseError("the server has stopped")
        self._server = new
        return new

    def _answer(
        self, wish: Connect | Ask, files: Sequence[int] = (), opened: _Opened | None = None
    ) -> Answer:
        self._settle()
        answer = self._exchange(wish, files, opened)
        if answer.error is not None:
            kind = ConnectionLostError if answer.is_lost else DatabaseError
            raise kind(answer.error[:_MOST_SAID])
        return answer

    def _settle(self) -> None:
        """Hear what is owed, and close what nobody asks. Raises ConnectionLostError."""
        if self._owed:
            opened = self._owed
            late = self._heard(_LATE_S)
            if late.backend_pid:
                opened(late.backend_pid)
            if late.number:
                self._unused.append(late.number)
        while self._unused:
            self._exchange(Close(self._unused.pop()))

    def _exchange(
        self,
        wish: Connect | Ask | Close,
        files: Sequence[int] = (),
        opened: _Opened | None = None,
    ) -> Answer:
        with self._while_it_is_there():
            self._socket.settimeout(_PATIENCE_S)
            send(self._socket, msgspec.msgpack.encode(wish), list(files))
        self._owed = opened or (lambda _: None)
        return self._heard(_PATIENCE_S)

    def _heard(self, seconds: float) -> Answer:
        """The answer that is owed. It may still come if it has not begun to by then."""
        with self._while_it_is_there():
            self._socket.settimeout(seconds)
            try:
                self._socket.recv(1, socket.MSG_PEEK)
            except TimeoutError as error:
                raise _lost("gave no answer") from error
            self._socket.settimeout(_PATIENCE_S)
            answer = msgspec.msgpack.decode(receive(self._socket, MOST_ANSWERED), type=Answer)
        self._owed = None
        return answer

    @contextmanager
    def _while_it_is_there(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, msgspec.DecodeError) as error:
            # Whatever is heard from now on may answer something else
            self._socket.close()
            why = "gave no answer" if isinstance(error, TimeoutError) else "is gone"
            raise _lost(why) from error


def _lost(why: str) -> ConnectionLostError:
    return ConnectionLostError(f"the child that asks as the server's owner {why}")


def _serve(channel: socket.socket, ids: as_user.Ids) -> None:
    from .owners_child import Child  # in the child alone, which is root yet

    Child(channel, ids).serve()


class _Asked:
    def __init__(self, answer: Callable[[Ask], Answer], number: int) -> None:
        self._answer = answer
        self._number = number

    def ask(self, query: str, row: type[_R], *, schema: str = "", **parameters: object) -> list[_R]:
        text = query_text(query, schema)  # which the owner may not be able to read
        return checked(self._answer(Ask(self._number, text, parameters)).rows, row, query)
