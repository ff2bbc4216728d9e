"""What was attached is let go of at the end, also where the host has no room for who would wait."""

import errno
import os
import threading
from types import SimpleNamespace
from typing import NoReturn

import pytest

from pgtrace.libbpf.objects import Object


def attached(gone: list[str]) -> Object:
    """With two links, each of which is told when it goes, as the object is."""
    found = Object.__new__(Object)
    found._links = [lambda: gone.append("link"), lambda: gone.append("link")]
    found._pointer = 1
    found._lib = SimpleNamespace(bpf_object__close=lambda _: gone.append("object"))
    return found


def refuse(*_: object) -> NoReturn:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.mark.parametrize("call", ["pipe", "fork", "waitpid"])
def test_a_child_that_waits_for_the_kernel_is_no_condition(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    gone, children = list[str](), list[int]()
    before, fork = os.listdir("/proc/self/fd"), os.fork  # noqa: PTH208

    def remembered() -> int:
        children.append(fork())
        return children[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", remembered)
        patch.setattr(os, call, refuse)
        attached(gone).close()
    for child in children:
        os.waitpid(child, 0)
    assert gone == ["link", "link", "object"]
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_nor_is_a_thread_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    gone = list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        attached(gone).close(wait=True)
    assert gone == ["link", "link", "object"]
