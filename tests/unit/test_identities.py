"""Who a process is: by its title, and by what the database calls it."""

from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.postgres.catalog import Name
from pgtrace.postgres.titles import Title
from pgtrace.tracing.identities import Identities
from pgtrace.tracing.traced_process import TracedProcess

CLIENT, WORKER = "client backend", "autovacuum worker"


@pytest.mark.parametrize(
    ("titled", "named", "expected"),
    [
        (WORKER, CLIENT, WORKER),
        (CLIENT, WORKER, CLIENT),
        (None, CLIENT, CLIENT),
        (CLIENT, CLIENT, CLIENT),
        (CLIENT, "pg_cron launcher", "pg_cron launcher"),  # its title looks like a client's
    ],
)
def test_who_had_the_pid_before_gives_it_no_name(
    titled: str | None, named: str, expected: str
) -> None:
    """Names are known for a minute after their process has ended."""
    names: Any = SimpleNamespace(
        of=lambda _: SimpleNamespace(
            of=lambda pid: Name(pid, "books", "reader", "", named, None), met=lambda _: None
        )
    )
    anything: Any = SimpleNamespace(first=lambda postmaster: postmaster)
    identities = Identities(anything, anything, anything, anything, names)
    process = TracedProcess(1, 2, 2, 3, Title(titled, None, None), 0)
    identities.name(process)
    assert process.title.backend_type == expected
    assert process.title.datname == ("books" if expected == named else None)
