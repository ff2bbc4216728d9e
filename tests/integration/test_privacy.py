"""What people keep in their queries is in no file and on no page, wherever the query was cut."""

import itertools
from pathlib import Path

import pytest

import html_page
from pgtrace.files import documents
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace.reporters import hlog
from pgtrace.reporters.terminal import capture_report
from pgtrace.tracing.tracer import trace

SECRET = "ЖЗИЙ"
STATEMENTS = (
    "select 'ЖЗИЙ', E'it\\'s ЖЗИЙ', U&'ЖЗИЙ' where 'a' <> 'ЖЗ''ИЙ'",
    "select $$ЖЗИЙ$$, $a$ ЖЗ $b$ ИЙ $a$, n'ЖЗИЙ'",
    "select 1 /*token=ЖЗИЙ*/ -- ЖЗИЙ",
    "/* ЖЗ /* ИЙ */ ЖЗИЙ */ select 'it''s ЖЗИЙ' as \"one\"",
    "set my.token to ЖЗИЙ",
    "set local my.token = 'ЖЗ', ЖЗИЙ; select 2",
    "alter role nobody set my.token = ЖЗИЙ",
    "alter system set nothing to 'ЖЗИЙ'",
    "create role nobody password ЖЗИЙ",
    "alter user nobody with encrypted password 'ЖЗИЙ' valid until 'infinity'",
    "select set_config('my.token', 'ЖЗИЙ', false)",
    "select 1 where 'C:\\' <> 'ЖЗИЙ' and 'D:\\' = 'ЖЗИЙ'",
    "select 'it's ЖЗИЙ', 'ЖЗИЙ'",
    "select 'a 'ЖЗИЙ' b', 'it's'",
    "select b'ЖЗИЙ', x'ЖЗИЙ'",
    "select date 'ЖЗИЙ', interval'ЖЗИЙ'",
    "do $do$ begin raise 'ЖЗИЙ'; end $do$",
    "select " + "a, " * 338 + "'ЖЗИЙЖЗИЙ'",  # cut by the kernel, within it
)


@pytest.mark.parametrize("per_query", [False, True])
def test_nothing_is_in_a_file_or_on_a_page(
    cluster: PrivateCluster, tmp_path: Path, per_query: bool
) -> None:
    """Most of these are errors to the server."""
    texts = [
        each[:length]
        for each in STATEMENTS
        for length in ((len(each),) if len(each) > 200 else range(len(each) + 1))
    ]
    with cluster.connect() as connection:
        connection.execute("set default_transaction_read_only = on")
        with trace(
            connection.info.backend_pid, probe_type="tracepoint", per_query=per_query
        ) as tracer:
            for each, protocol in itertools.product(texts, ("simple", "extended")):
                if protocol == "simple":
                    connection.pgconn.exec_(each.encode())
                else:
                    connection.pgconn.exec_params(each.encode(), [])
    taken = tracer.capture()
    queries = taken.backends[0].queries
    assert sum(query.calls for query in queries) > 1200
    assert sum(query.text == "select $1, $2, $3 where $4 <> $5" for query in queries) == 2
    documents.write(taken, tmp_path / "it.json", force=False)
    pages = [(tmp_path / "it.json").read_text(), *_rendered(taken)]
    assert not [page for page in pages if set(page) & set(SECRET)]


def _rendered(taken: Capture) -> list[str]:
    return [render(taken) for render in (capture_report.render, html_page.render, hlog.render)]
