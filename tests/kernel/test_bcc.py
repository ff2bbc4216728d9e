"""Which engine is taken, and that what bcc compiles from the kernel's headers is right.

Under the kernels whose headers Debian 12's bcc compiles, with BTF and without.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from field_offsets import offsets, read_by_pgtrace
from fix_cluster import Connection
from fix_engines import ways
from pgtrace import trace
from pgtrace.engines.bcc import kernel_types
from pgtrace.engines.select import probe_types
from pgtrace.errors import UnsupportedError
from pgtrace_command import run

pytestmark = [pytest.mark.kernel("< 6.2"), pytest.mark.vm, pytest.mark.core]


def test_the_engine_is_chosen_by_itself(connection: Connection, engine: str) -> None:
    """With one line on stderr where it is not the first choice."""
    with trace(connection.info.backend_pid) as tracer:
        connection.execute("select 1")
    probes = tracer.capture().probes
    assert (probes.engine, probes.queries, probes.not_measured) == (engine, "usdt", [])
    assert probes.type == ways(engine)[0]
    ended = run("capture", connection.info.backend_pid, "--duration", 1)
    assert ended.code == 0
    said = [line for line in ended.err.splitlines() if "bcc" in line]
    assert len(said) == (engine == "bcc"), ended.err
    assert f"engine {engine}" in ended.out


def test_an_engine_can_be_asked_for(connection: Connection, engine: str) -> None:
    """bcc also where there is BTF, without a word; libbpf refuses where there is none."""
    pid = connection.info.backend_pid
    with trace(pid, engine="bcc") as tracer:
        connection.execute("select 1")
    assert tracer.engine.note is None
    probes = tracer.capture().probes
    assert (probes.engine, probes.type, probes.queries) == ("bcc", ways("bcc")[0], "usdt")
    if engine == "libbpf":
        assert probe_types(os.getpid())["kprobe"] is None
        return
    with pytest.raises(UnsupportedError, match="no BTF"):
        probe_types(os.getpid())
    ended = run("capture", pid, "--engine", "libbpf", "--duration", 1)
    assert (ended.code, ended.out) == (5, "")
    assert re.search("no BTF.*--engine bcc", ended.err)


def test_each_field_is_where_the_kernel_has_it(engine: str, tmp_path: Path) -> None:
    """What bcc compiles agrees with the kernel's own BTF, to the bit."""
    place = Path("/sys/kernel/btf")
    if engine == "bcc":
        subprocess.run(["umount", place], check=True)
    try:
        own = offsets(place / "vmlinux")
    finally:
        if engine == "bcc":
            subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    (tmp_path / "types").write_bytes(kernel_types.compiled().read_bytes())
    compiled = offsets(tmp_path / "types")
    missing = read_by_pgtrace() - compiled.keys()
    # These are in no package of headers (kernel/sched/sched.h): programs ask whether they are there
    missing -= {("cfs_rq", "rq"), ("rq", "clock"), ("rq", "clock_task"), ("rq", "curr")}
    (name,) = missing  # of two, the older kernel has the one and the newer the other
    assert name in {("task_struct", "state"), ("task_struct", "__state")}
    # Else programs would be loaded that want the kernel's own, which these kernels only hide
    assert b"get_current_task_btf" not in (tmp_path / "types").read_bytes()
    known = {field: bits for field, bits in compiled.items() if field[0] != "types"}
    assert {field: own.get(field) for field in known} == known
