"""Between the process that traces and the one that draws: messages over a socket."""

import select
import socket
from typing import Generic, TypeVar

import msgspec

from ..model.encoding import shown
from .frame import Asked, Told

_Sent = TypeVar("_Sent")
_Heard = TypeVar("_Heard")
_HEAD = 4
_MOST = 64 << 20
"""Bytes of one message."""
_PIECE = 1 << 18


class Link(Generic[_Sent, _Heard]):
    """One end. Nobody waits: what cannot be sent yet is sent with a later call."""

    def __init__(self, end: socket.socket, heard: object) -> None:
        """`heard` is the type of what comes."""
        end.setblocking(False)
        self._end = end
        self._decoder: msgspec.msgpack.Decoder[_Heard] = msgspec.msgpack.Decoder(heard)
        self._out = bytearray()
        self._in = bytearray()
        self.closed = False
        """The other is gone."""

    def fileno(self) -> int:
        """To wait for what comes."""
        return self._end.fileno()

    @property
    def waiting(self) -> int:
        """Bytes that the other has not taken yet."""
        return len(self._out)

    def send(self, message: _Sent) -> None:
        """Send it, now or later."""
        try:
            data = msgspec.msgpack.encode(message)
        except UnicodeEncodeError:  # a path that is not UTF-8, such as a data directory's
            data = msgspec.msgpack.encode(shown(msgspec.to_builtins(message)))
        self._out += len(data).to_bytes(_HEAD, "little") + data
        self.flush()

    def wait(self) -> _Heard | None:
        """The first that comes; None if the other is gone before."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        while not self.closed:
            poll.poll()
            if heard := self.receive(1):
                return heard[0]
        return None

    def receive(self, most: int | None = None) -> list[_Heard]:
        """What has come, so many at most. What is no message is the other's end: ValueError."""
        try:
            while piece := self._end.recv(_PIECE):
                self._in += piece
            self.closed = True
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        found: list[_Heard] = []
        while len(self._in) >= _HEAD and (most is None or len(found) < most):
            size = int.from_bytes(self._in[:_HEAD], "little")
            if size > _MOST:
                raise ValueError(f"a message of {size} bytes")
            if len(self._in) < _HEAD + size:
                break
            found.append(self._decoder.decode(self._in[_HEAD : _HEAD + size]))
            del self._in[: _HEAD + size]
        return found

    def close(self) -> None:
        """Say nothing more."""
        self._end.close()

    def flush(self) -> None:
        """Send what could not be sent before."""
        try:
            while self._out:
                sent = self._end.send(self._out[:_PIECE], socket.MSG_NOSIGNAL)
                del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
            self._out.clear()


def tracing_end(end: socket.socket) -> Link[Told, Asked]:
    """That of the process that traces."""
    return Link(end, Asked)


def drawing_end(end: socket.socket) -> Link[Asked, Told]:
    """That of the process that draws."""
    return Link(end, Told)
