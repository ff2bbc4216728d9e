"""What a forked child keeps open of what its parent had, and how it hears of a limit."""

import os
import resource
from pathlib import Path

import pytest

from pgtrace.linux import forked


@pytest.mark.parametrize("kept", [{0, 1, 2}, {0}, {2}, {1, 2}, set()])
def test_a_child_keeps_what_it_is_given_and_no_more(kept: set[int]) -> None:
    """Also descriptor 0: CPython's closerange(0, 0) closes everything. What else libraries take for
    stdin, stdout and stderr leads nowhere.
    """
    read, write = os.pipe()
    null = Path("/dev/null").stat().st_rdev

    def work() -> None:
        there = [n for n in range(64) if os.path.exists(f"/proc/self/fd/{n}")]  # noqa: PTH110
        assert {0, 1, 2} <= {*there}
        found = [n for n in there if n > 2 or os.fstat(n).st_rdev != null]
        os.write(write, repr([n for n in found if n != write]).encode())

    child = forked.left_running(work, {*kept, write})
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    ours = [n for n in sorted(kept) if os.fstat(n).st_rdev != null]
    assert told == repr(ours).encode()


def test_to_write_beyond_a_limit_is_an_error_and_not_its_end(tmp_path: Path) -> None:
    """As in any other process of Python's: who cannot write may still say so."""
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with pytest.raises(OSError, match="File too large"):
            os.write(file, b"x")

    child = forked.left_running(work, {file})
    os.close(file)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("fails", ["first", "then"])
def test_of_an_error_that_nobody_expected_it_is_told_what_it_was(fails: str) -> None:
    def work(step: str) -> bytes:
        if step == fails:
            raise ZeroDivisionError
        return b""

    beside = forked.Beside(lambda: work("first"), lambda _: work("then"))
    ended = beside.ended(within_s=10)
    assert ended
    assert (ended.said, ended.status) == (b"an unexpected ZeroDivisionError", 0)
