"""A terminal to run a program on, and what a person sees there."""

import fcntl
import os
import re
import struct
import termios
import threading
from contextlib import suppress

_PARTS = re.compile(r"\x1b\[(\d*)([AJK])|([\r\n])|([^\x1b\r\n]+)")


class Terminal:
    """A pseudo-terminal of this size; `fd` is the end for the program. It knows what pgtrace
    writes: text, \\r, \\n, and to go up, to empty a line, and all below.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._master, self.fd = os.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.written = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def screen(self) -> list[str]:
        """Every line, those that have left the screen too."""
        lines, at, column = [""], 0, 0
        for number, what, control, text in _PARTS.findall(self.written):
            if control:
                column = 0
                at += control == "\n"
                lines += [""] * (at == len(lines))
            elif what == "A":
                at -= int(number or 1)
                assert at >= 0
            elif what == "K":
                lines[at] = "" if number == "2" else lines[at][:column]
            elif what == "J":
                lines[at:] = [lines[at][:column]]
            else:
                lines[at] = (
                    lines[at][:column].ljust(column) + text + lines[at][column + len(text) :]
                )
                column += len(text)
        return lines

    def close(self) -> None:
        """Once no program has it any more."""
        os.close(self.fd)
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        with suppress(OSError):  # nobody writes any more
            pending = b""
            while data := pending + os.read(self._master, 1 << 16):
                whole = data[: data.rfind(b"\n") + 1]
                self.written += whole.decode()
                pending = data[len(whole) :]
