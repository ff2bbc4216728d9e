"""What tracing left behind: programs, maps and links in the kernel, semaphores in PostgreSQL.

Seen by other eyes than pgtrace's: bpftool, /proc/PID/fdinfo, and the notes of the ELF file.
Objects that a process outside this test run holds are someone else's session, and left out.
"""

import json
import os
import re
import struct
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

PREFIX = "pgt_"
NOT_SETTLED = b"Resource temporarily unavailable"
"""EAGAIN of bpf_link_by_id() in kernel/bpf/syscall.c, for a link that somebody is just making; to
bpftool (7.1), which knows ENOENT alone, that is the end of its list."""
HELD = re.compile(r"^(prog|map|link)_id:\s+(\d+)", re.MULTILINE)
RUN = "PGTRACE_TEST_RUN"
"""In the environment of every process that this run of pytest starts."""

os.environ[RUN] = str(os.getpid())  # of its own also in each worker of pytest-xdist


def show(kind: str) -> list[dict[str, Any]]:
    """Return bpftool's list of every prog, map or link of this host."""
    while True:
        shown = subprocess.run(["bpftool", "-j", kind, "show"], capture_output=True, check=False)
        if not (shown.returncode and NOT_SETTLED in shown.stdout):
            break
    assert shown.returncode == 0, shown
    return [one for one in json.loads(shown.stdout or "[]") or [] if "id" in one]


def held_by(process: Path = Path("/proc/self")) -> set[str]:
    """Objects of which it has a descriptor: "prog 12". Those that nobody has may be on their way
    out, of a session that ended."""
    return {" ".join(found) for text in descriptors(process) for found in HELD.findall(text)}


def descriptors(process: Path = Path("/proc/self")) -> Iterator[str]:
    """What the kernel says of each of its descriptors."""
    for descriptor in (process / "fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield descriptor.read_text()


def _others() -> set[str]:
    """Objects with a descriptor in a process that this run did not start: "prog 12"."""
    mine = f"{RUN}={os.environ[RUN]}".encode()
    held: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) == os.getpid():
                continue
            if mine in (process / "environ").read_bytes().split(b"\0"):
                continue
            held |= held_by(process)
        except OSError:
            continue  # ended meanwhile
    return held


def ours() -> dict[str, str]:
    """Objects of pgtrace in the kernel now, by kind and id: {"prog 12": "pgt_sys_exit"}."""
    others = _others()  # and again below: one that ends meanwhile held them before
    programs = [p for p in show("prog") if p.get("name", "").startswith(PREFIX)]
    used = {i for p in programs for i in p.get("map_ids", [])}
    found = {f"prog {p['id']}": p["name"] for p in programs}
    for one in show("map"):
        if one.get("name", "").startswith(PREFIX) or one["id"] in used:
            found[f"map {one['id']}"] = one.get("name", "")
    ids = {p["id"] for p in programs}
    for one in show("link"):
        if one.get("prog_id") in ids:
            found[f"link {one['id']}"] = one.get("type", "")
    others |= _others()
    return {key: name for key, name in found.items() if key not in others}


def leftovers(before: Collection[str] = (), within: float = 30.0) -> dict[str, str]:
    """What is there now and was not in `before`; waits, as the kernel frees objects in its time.

    What comes in that time is somebody else's.
    """
    deadline = time.monotonic() + within
    left = {key: name for key, name in ours().items() if key not in before}
    while left and time.monotonic() <= deadline:
        time.sleep(0.1)
        left = {key: name for key, name in ours().items() if key in left}
    return left


def _load_bias(pid: int, elf: ELFFile) -> int:
    """How far from its addresses in the file this process has the binary."""
    lowest = min(s["p_vaddr"] - s["p_offset"] for s in elf.iter_segments("PT_LOAD"))
    exe = Path(f"/proc/{pid}/exe").readlink()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, _, offset, _, _, *name = line.split(maxsplit=5)
        if name == [str(exe)] and int(offset, 16) == 0:
            return int(addresses.split("-")[0], 16) - int(lowest)
    raise LookupError(f"{exe} is not mapped in {pid}")


def semaphores(pid: int) -> dict[str, int]:
    """Each USDT probe's semaphore in this process: how many tracers have raised it."""
    with Path(f"/proc/{pid}/exe").open("rb") as file:
        elf = ELFFile(file)
        base = elf.get_section_by_name(".stapsdt.base")
        addresses = {}
        notes = elf.get_section_by_name(".note.stapsdt")
        assert isinstance(notes, NoteSection)
        for note in notes.iter_notes():
            data: bytes = note["n_descdata"]
            _, base_then, semaphore = struct.unpack_from("<QQQ", data)
            provider, name, _ = data[24:].split(b"\0", 2)
            moved = base["sh_addr"] - base_then if base else 0  # by prelink, after the notes
            if provider == b"postgresql" and semaphore:
                addresses[name.decode()] = semaphore + moved
        bias = _load_bias(pid, elf)
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        return {
            name: struct.unpack("<H", os.pread(memory.fileno(), 2, bias + address))[0]
            for name, address in addresses.items()
        }


def raised(pid: int) -> dict[str, int]:
    """The semaphores that are not 0."""
    return {name: value for name, value in semaphores(pid).items() if value}
