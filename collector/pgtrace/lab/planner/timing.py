"""One query of several clients at once, each with a plan of its own, timed by the server."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import PgtraceError
from .plans import scan
from .regret import Plan

if TYPE_CHECKING:
    import psycopg

_EXPLAIN = "explain (analyze, buffers, timing off, format json) "


class Timing(NamedTuple):
    """One client's query: seconds, and blocks, which are not known of one that was stopped."""

    elapsed_s: float
    stopped: bool = False
    hits: int | None = None
    reads: int | None = None


def run_all(
    clients: "list[psycopg.Connection[Any]]", queries: list[str], plan: Plan
) -> list[Timing]:
    """All at once, by the same plan. Raises PgtraceError if the server has another one."""
    with ThreadPoolExecutor(len(clients)) as threads:
        running = [
            threads.submit(_run, client, text, plan)
            for client, text in zip(clients, queries, strict=True)
        ]
        try:
            return [each.result() for each in running]
        except BaseException:
            for client in clients:
                client.cancel()
            raise


def _run(client: "psycopg.Connection[Any]", text: str, plan: Plan) -> Timing:
    import psycopg

    began = time.perf_counter()
    try:
        row = client.execute(f"{_EXPLAIN}{text}".encode()).fetchone()
    except psycopg.errors.QueryCanceled:
        return Timing(time.perf_counter() - began, stopped=True)
    assert row is not None
    (explained,) = row[0]
    top = explained["Plan"]
    if scan(top)[0] != plan:
        raise PgtraceError(f"the server does not run a {plan} scan of {text}")
    return Timing(
        explained["Execution Time"] / 1000,
        hits=top["Shared Hit Blocks"],
        reads=top["Shared Read Blocks"],
    )
