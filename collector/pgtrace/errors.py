"""What can go wrong, each with its exit code. Only main() prints them.

A message says what happened, why, and what to type next, in one or two lines.
"""

from typing import ClassVar


def reason(error: Exception) -> str:
    """What an error of the system's says, without its number and the name of a file."""
    return getattr(error, "strerror", None) or str(error)


class PgtraceError(Exception):
    """Base of every error that pgtrace raises on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(PgtraceError):
    """The command line, or a file named on it, cannot be used."""

    exit_code = 2


class TargetError(PgtraceError):
    """No such process, or it is not PostgreSQL."""

    exit_code = 3


class PermissionDeniedError(PgtraceError):
    """A capability or root is missing."""

    exit_code = 4


class UnsupportedError(PgtraceError):
    """The kernel or the server lacks what is needed."""

    exit_code = 5


class IncompleteError(PgtraceError):
    """Events were lost or a probe is missing, under --strict."""

    exit_code = 6


class DatabaseError(PgtraceError):
    """The database connection that was asked for failed."""

    exit_code = 7


class ConnectionLostError(DatabaseError):
    """It was there, and nothing more can be asked by it."""


class ConditionError(PgtraceError):
    """What --fail-if asked for is so."""

    exit_code = 8


class NothingCapturedError(PgtraceError):
    """Interrupted before anything was captured."""

    exit_code = 130


class LeftError(PgtraceError):
    """Interrupted while what was captured was shown."""

    exit_code = 130
