"""Ctrl-C, SIGTERM and SIGHUP during an experiment: long work is left at once, clean-up never. What
was measured outlives them, and errors.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ...errors import NothingCapturedError
from ...interrupts import Handlers


class Interrupted(KeyboardInterrupt):
    """Raised where an experiment may be left. psycopg cancels the query that runs, as it is a
    KeyboardInterrupt.
    """


class Interruption:
    """Raises Interrupted in blocks of `allowed()` alone, at once or when the next one begins.

    A second signal ends the process at once; then `pgtrace lab restore` is needed. Under nohup
    SIGHUP stays ignored.
    """

    error: Exception | None = None
    """What ended it after whole runs, or its clean-up: to be raised once the result is written."""

    def __init__(self) -> None:
        self.asked = False
        self._allowed = False
        self._handlers = Handlers(self._handle)
        self._handlers.install()

    def restore(self) -> None:
        """Put the handlers back as they were."""
        self._handlers.restore()

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Work that may be left in its middle."""
        self._allowed = True
        try:
            if self.asked:
                raise Interrupted
            yield
        finally:
            self._allowed = False

    @contextmanager
    def keeping(self, whole: Callable[[], bool]) -> Iterator[None]:
        """Let neither a signal nor an error out of the block once there are `whole` runs.

        Raises NothingCapturedError for a signal, and the error itself, before that.
        """
        try:
            yield
        except Interrupted:
            if not whole():
                raise NothingCapturedError("interrupted before one run was whole") from None
        except Exception as error:
            if not whole():
                raise
            self.error = error

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._handlers.let_go()
        if self._allowed:
            raise Interrupted
