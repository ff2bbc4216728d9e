"""A child that may do nothing, for work on what others wrote: it reads one file, and tells.

It has no capability and, if pgtrace may become another user, no id but nobody's; it can open,
write and start nothing, and has little memory and time. Whatever the file does to it, pgtrace
gets fewer bytes back, or none.
"""

import ctypes
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

NOBODY = 65534
MOST_MEMORY = 256 << 20
"""In bytes, beside what pgtrace has itself."""
MOST_SECONDS = 5
MOST_TOLD = 1 << 20
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24  # include/uapi/linux/prctl.h
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_LINUX_CAPABILITY_VERSION_3 = 0x20080522  # include/uapi/linux/capability.h
_LAST_CAPABILITY = 63

Tell = Callable[[bytes], None]


def told(work: Callable[[int, Tell], None], file: int) -> bytes:
    """What `work` tells of an open file in a child, until it ends or is ended.

    It is to import nothing there, and to trust nothing that it finds. Raise OSError when there
    can be no child.
    """
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    # No signal finds the child with the parent's ways to deal with it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        child = os.fork()
        if child == 0:
            _work(work, file, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(theirs)
    try:
        return _all_of(ours)
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _all_of(pipe: int) -> bytes:
    heard, end = bytearray(), time.monotonic() + MOST_SECONDS
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while len(heard) < MOST_TOLD and (left := end - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            data = os.read(pipe, 1 << 16)
            if not data:
                break
            heard += data
    return bytes(heard)


def _work(work: Callable[[int, Tell], None], file: int, pipe: int) -> NoReturn:
    try:
        import gc

        gc.disable()  # nothing of the parent's is to be closed, nor unloaded
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
        signal.set_wakeup_fd(-1)
        _close_all_but({file, pipe})
        _drop_all()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        work(file, lambda data: _write(pipe, data))
    except BaseException:
        os._exit(1)
    os._exit(0)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _close_all_but(kept: Iterable[int]) -> None:
    first = 0
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, max(first, *(int(name) for name in os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208


def _drop_all() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mapped = int(_status("/proc/self/statm").split()[0]) * resource.getpagesize()
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except PermissionError:  # no root, or one without CAP_SETUID: then without capabilities alone
        pass
    header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing) or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        os._exit(1)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # other processes of nobody's may not look into it
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    for limit, most in (
        (resource.RLIMIT_AS, mapped + MOST_MEMORY),
        (resource.RLIMIT_CPU, MOST_SECONDS),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (least, least))


def _status(path: str) -> str:
    with open(path) as file:  # noqa: PTH123
        return file.read()
