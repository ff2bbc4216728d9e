"""What pgtrace and the child that has become a server's owner say to each other."""

import socket
from typing import Any

import msgspec

_MOST_ASKED = 1 << 24
MOST_ANSWERED = 1 << 24
"""In bytes: 200,000 relations. Rows without anything in them take thirty times that in Python."""
_LENGTH = 4

Value = bool | int | float | str | None


class Connect(msgspec.Struct, tag="connect"):
    """To a server's database; with it comes a descriptor of the server's root."""

    postmaster_pid: int
    socket_directory: str
    port: int
    dbname: str | None


class Ask(msgspec.Struct, tag="ask"):
    """That query, in a transaction of its own."""

    number: int
    query: str
    parameters: dict[str, Any]


class Close(msgspec.Struct, tag="close"):
    """Nothing more is asked of that connection."""

    number: int


class Answer(msgspec.Struct):
    """To one of these."""

    error: str | None = None
    number: int = 0
    """Of the connection."""
    backend_pid: int = 0
    """As the server counts, if it serves nobody else."""
    is_lost: bool = False
    rows: list[tuple[Value, ...]] = []


def send(channel: socket.socket, data: bytes, files: list[int]) -> None:
    """Raises OSError."""
    socket.send_fds(channel, [len(data).to_bytes(_LENGTH, "little")], files)
    channel.sendall(data)


def receive(channel: socket.socket, most: int, length: bytes = b"") -> bytes:
    """Raises OSError, and EOFError when the other end is closed, or sends more than that."""
    size = int.from_bytes(length or _exactly(channel, _LENGTH), "little")
    if size > most:
        raise EOFError("too long")
    return _exactly(channel, size)


def received_with_file(channel: socket.socket) -> tuple[bytes, int | None]:
    """What came, and the descriptor that came along. Raises as receive()."""
    length, files, _, _ = socket.recv_fds(channel, _LENGTH, 1, socket.MSG_WAITALL)
    if len(length) < _LENGTH:
        raise EOFError
    return receive(channel, _MOST_ASKED, length), files[0] if files else None


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = channel.recv(min(size - len(data), 1 << 16))
        if not more:
            raise EOFError
        data += more
    return bytes(data)
