"""Tables, function, and load: writers and readers at once, then a bulk insert.

What it set by `\\setrandom`, which pgbench no longer has, is set by random(). Each client draws
from a seed that is the run's: both servers of a run get the same keys.
"""

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import PgtraceError
from ...linux import as_user
from .result import LoadName

if TYPE_CHECKING:
    import psycopg

    from .servers import SyncServer

LOADS: tuple[LoadName, ...] = ("wide", "narrow", "bulk")
NARROW = 1000
"""Keys 1 to so many, as published: pages that are changed again and again."""
ROW_BYTES = 250
"""Of user_info and its index, rounded up."""
BULK_BYTES = 45
"""Of a row of the bulk insert."""
TRANSACTION_BYTES = 20_000
"""At most that a writing transaction leaves: two pages of WAL, and its row versions."""

_TABLES = """
drop table if exists user_info, success_log, failed_log, tbl_fsync_merge_test;
create table user_info
(userid int primary key,
firstname text,
lastname text,
age smallint,
sex text check (sex in ('female','male')),
mobile text,
address text,
corp text,
quarters text,
kb numeric check (kb >= 0),
last_login_ip inet,
crt_time timestamp without time zone,
mod_time timestamp without time zone);
create table success_log
(userid int,
consume_kb numeric,
last_login_ip inet,
crt_time timestamp without time zone);
create table failed_log
(userid int,
consume_kb numeric,
last_login_ip inet,
crt_time timestamp without time zone);
create table tbl_fsync_merge_test (id int, info text);
"""
_FUNCTION = """
create or replace function consume_kb(i_userid integer, i_consume_kb numeric,
i_last_login_ip inet)
 returns integer
 language plpgsql
as $function$
declare
begin
update user_info set kb=kb-i_consume_kb,last_login_ip=i_last_login_ip,mod_time=now()
where userid=i_userid;
insert into success_log(userid,consume_kb,last_login_ip,crt_time)
values (i_userid,i_consume_kb,i_last_login_ip,now());
return 0;
exception
when others then
insert into failed_log(userid,consume_kb,last_login_ip,crt_time)
values (i_userid,i_consume_kb,i_last_login_ip,now());
return 1;
end;
$function$
"""
_FILL = """
insert into user_info
select i, 'zhou'||i, 'digoal'||i, 28, 'male', '13999999999',
'杭州市紫荆花路2号联合大厦B座11楼', '杭州斯凯', 'DBA Team Leader', 100000, '192.168.1.100',
now(), now()
from generate_series(1, {rows}) as i
"""
WRITER = """\
\\set i_userid random(1, :keys)
\\set i_consume_kb random(-10000000, 10000000)
SELECT consume_kb(:i_userid,:i_consume_kb,'192.168.1.2');
"""
READER = """\
\\set i_userid random(1, :keys)
SELECT * from user_info where userid=:i_userid;
"""
BULK = "insert into tbl_fsync_merge_test select generate_series(1,{rows}),'Merge test!'"
_DONE = re.compile(r"number of transactions actually processed: (\d+)")
_TPS = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_END_S = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done. Transactions are those of all writers together, and as many are read."""

    rows: int
    transactions: int
    clients: int
    bulk_rows: int

    def keys(self, load: LoadName) -> int:
        """Up to which key users are drawn."""
        return min(NARROW, self.rows) if load == "narrow" else self.rows

    @property
    def bytes(self) -> int:
        """That one server needs at most, WAL included: of every row, what is written twice."""
        data = self.rows * ROW_BYTES + self.bulk_rows * BULK_BYTES
        return 2 * data + 2 * self.transactions * TRANSACTION_BYTES


@dataclass(frozen=True, slots=True)
class Done:
    """What a load took; tps as pgbench has it, None of the bulk insert."""

    elapsed_s: float
    tps: float | None = None
    reading_tps: float | None = None


def make(server: "SyncServer", size: Size) -> None:
    """Make the tables anew: each turn begins with the same rows, and a checkpoint behind it."""
    with server.connect() as connection:
        for statement in _TABLES.split(";"):
            if statement.strip():
                connection.execute(statement.encode())
        connection.execute(_FUNCTION.encode())
        connection.execute(_FILL.format(rows=size.rows).encode())
        connection.execute("vacuum (freeze, analyze) user_info")
        connection.execute("checkpoint")


def do(
    server: "SyncServer",
    connection: "psycopg.Connection[Any]",
    load: LoadName,
    size: Size,
    seed: int,
) -> Done:
    """One of the loads, to its end."""
    if load == "bulk":
        began = time.perf_counter()
        connection.execute(BULK.format(rows=size.bulk_rows).encode())
        return Done(time.perf_counter() - began)
    return _clients(server, size, size.keys(load), seed)


def _clients(server: "SyncServer", size: Size, keys: int, seed: int) -> Done:
    began = time.perf_counter()
    begun = []
    try:
        begun += [_pgbench(server, size, keys, seed, name) for name in ("writer", "reader")]
        outputs = [process.communicate()[0] for process in begun]
    finally:
        for process in begun:
            _end(process)
    elapsed = time.perf_counter() - began
    writing, reading = (
        _tps(process, output, size) for process, output in zip(begun, outputs, strict=True)
    )
    return Done(elapsed, writing, reading)


def _pgbench(
    server: "SyncServer", size: Size, keys: int, seed: int, name: str
) -> "subprocess.Popen[str]":
    # By its input, in which nobody can put another one
    script, end = os.pipe()
    with os.fdopen(script, "rb") as begin:
        with os.fdopen(end, "wb") as ours:
            ours.write((WRITER if name == "writer" else READER).encode())
        return subprocess.Popen(
            server.cluster.command(
                "pgbench", "-M", "extended", "-n", "-c", str(size.clients), "-j", "1",
                "-t", str(size.transactions // size.clients), "-D", f"keys={keys}",
                f"--random-seed={seed}", "-f", "-",
            ),
            stdin=begin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd="/",
        )  # fmt: skip


def _end(process: "subprocess.Popen[str]") -> None:
    """After an interruption it works still."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        as_user.ended(process, _END_S)


def _tps(process: "subprocess.Popen[str]", output: str, size: Size) -> float:
    """Raise PgtraceError unless all was done that was asked for."""
    done, tps = _DONE.search(output), _TPS.search(output)
    wanted = size.transactions // size.clients * size.clients
    if process.returncode != 0 or not done or not tps or int(done[1]) != wanted:
        raise PgtraceError(f"pgbench ended with {process.returncode}: {output[-500:].strip()}")
    return float(tps[1])
