"""A process that does what it is told, so that one tracer can watch many kinds of reads."""

import sys

from child import Child

WORKER = """
import ctypes, mmap, os, signal, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
long = ctypes.c_ssize_t
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
memory = mmap.mmap(-1, 1 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
def vector(length, parts, base):
    step = length // parts
    return (Vector * parts)(*[Vector(base + i * step, step) for i in range(parts)])
def call(name, fd, length=8192, position=0, parts=2, base=address):
    # As reader.c; read and readv go on where the last one ended.
    if name == "read":
        return libc.read(fd, long(base), long(length))
    if name == "pread":
        return libc.pread(fd, long(base), long(length), long(position))
    parts = vector(length, parts, base)
    position = [] if name == "readv" else [long(position)] + [0] * (name == "preadv2")
    return getattr(libc, name)(fd, parts, len(parts), *position)
for line in sys.stdin:
    exec(eval(line))
    print(flush=True)
"""


class Worker(Child):
    """A Python process that executes what `do` sends it, and makes no other read of a file."""

    def __init__(self) -> None:
        super().__init__(sys.executable, "-c", WORKER)
        self.do("import gc; gc.disable()")

    def do(self, code: str) -> None:
        """Have it executed, and wait for its end."""
        self.say(repr(code))
        if not self.line():
            raise RuntimeError(f"the worker ended with {self.ended().code} at: {code}")
