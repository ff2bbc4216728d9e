"""PostgreSQL's protocol message by message, as no client library sends it.

https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from pgtrace.lab.core.private_cluster import PrivateCluster

_VERSION = 196608  # 3.0
_ANSWERS = {
    b"Q": b"Z",
    b"S": b"Z",
    b"P": b"1E",
    b"B": b"2E",
    b"C": b"3E",
    b"D": b"TnE",
    b"E": b"CsIE",
}
"""With what the server may end its answer to each message."""


class Answer(NamedTuple):
    """One message of the server's."""

    kind: bytes
    body: bytes


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def query(text: str) -> bytes:
    return message(b"Q", text.encode() + b"\0")


def parse(text: str, name: str = "") -> bytes:
    return message(b"P", f"{name}\0{text}\0".encode() + struct.pack("!H", 0))


def bind(*values: str, statement: str = "", portal: str = "") -> bytes:
    given = b"".join(struct.pack("!I", len(value)) + value.encode() for value in values)
    names = f"{portal}\0{statement}\0".encode()
    return message(b"B", names + struct.pack("!HH", 0, len(values)) + given + struct.pack("!H", 0))


def execute(rows: int = 0, portal: str = "") -> bytes:
    """At most that many rows; 0: all."""
    return message(b"E", f"{portal}\0".encode() + struct.pack("!I", rows))


def describe(kind: str, name: str = "") -> bytes:
    """S: a statement, P: a portal."""
    return message(b"D", f"{kind}{name}\0".encode())


def close(kind: str, name: str = "") -> bytes:
    return message(b"C", f"{kind}{name}\0".encode())


SYNC, FLUSH, TERMINATE = message(b"S"), message(b"H"), message(b"X")


class Wire:
    """A connection. `pid` is its backend's."""

    def __init__(
        self, cluster: PrivateCluster, dbname: str = "postgres", application_name: str = "wire"
    ) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(f"{cluster.socket_dir}/.s.PGSQL.{cluster.port}")
        self.pid = 0
        words = ["user", "postgres", "database", dbname, "application_name", application_name]
        body = struct.pack("!I", _VERSION) + "".join(f"{word}\0" for word in words).encode() + b"\0"
        self._socket.sendall(struct.pack("!I", len(body) + 4) + body)
        for answer in self._until(b"Z"):
            if answer.kind == b"K":
                (self.pid,) = struct.unpack_from("!I", answer.body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def send(self, *messages: bytes) -> None:
        self._socket.sendall(b"".join(messages))

    def ask(self, *messages: bytes) -> None:
        """Send them, and wait for what the server answers to each. The last is a Sync or a query.

        After an error it passes over all up to the next Sync.
        """
        self.send(*messages)
        failed = False
        for kind in (each[:1] for each in messages):
            if kind == b"H" or (failed and kind != b"S"):
                continue
            *_, last = self._until(_ANSWERS[kind])
            failed = last.kind == b"E"

    def _until(self, kinds: bytes) -> Iterator[Answer]:
        while True:
            answer = self.receive()
            if answer is None:
                raise ConnectionError("the server closed the connection")
            yield answer
            if answer.kind in kinds:
                return

    def receive(self) -> Answer | None:
        """The next message; None if there comes no more."""
        head = self._exactly(5)
        if head is None:
            return None
        kind, length = struct.unpack("!cI", head)
        return Answer(kind, self._exactly(length - 4) or b"")

    def end(self) -> None:
        """Part as clients do."""
        self.send(TERMINATE)
        while self.receive():
            pass

    def _exactly(self, count: int) -> bytes | None:
        found = b""
        while len(found) < count:
            try:
                part = self._socket.recv(count - len(found))
            except ConnectionResetError:
                return None
            if not part:
                return None
            found += part
        return found
