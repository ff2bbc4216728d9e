"""What a live screen of a busy server costs: CPU and memory of both its processes, and when it is
there. `scripts/bench/top` calls it where tracefs is mounted.

The terminal is a pseudo-terminal; 500 backends read all the time, at a pace that leaves the host
time: each waits between two queries. Goals: 5 % of a core, 120 MiB, the first screen within 1 s.
"""

import argparse
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

import bench

from pgtrace.lab.core.private_cluster import PrivateCluster

SETTLE_S = 5
SIZE = struct.pack("HHHH", 50, 132, 0, 0)
"""Lines and columns."""
SCRIPT = """\\set id random(1, {rows})
select sum(length(filler)) from pgbench_accounts where aid between :id and :id + 200;
\\sleep {pause} ms
"""
FIRST = re.compile(rb"UTC: [0-9,]+ client")
"""Of the first screen that shows something."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Start it some times, then look for a while at what it takes."""
    parser = argparse.ArgumentParser(prog="scripts/bench/top", description=__doc__)
    parser.add_argument("--clients", type=int, default=500, metavar="N", help="(500)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="(60)")
    parser.add_argument("--starts", type=int, default=5, metavar="N", help="(5)")
    parser.add_argument("--scale", type=int, default=20, metavar="N", help="of pgbench (20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    args = parser.parse_args(arguments)
    bench.interruptible()
    print(bench.host())
    settings = {"max_connections": args.clients + 20, "shared_buffers": "16MB"}
    with PrivateCluster(settings) as cluster:
        cluster.run("pgbench", "-i", "-q", "-s", str(args.scale), "postgres")
        script = cluster.root / "bench.sql"
        pause = 500 * args.clients // 100
        script.write_text(SCRIPT.format(rows=args.scale * 99_000, pause=pause))
        words = ["-n", "-f", str(script), "-c", str(args.clients), "-T", "3600", "postgres"]
        command = cluster.command("pgbench", *words)
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as load:
            try:
                found = measured(cluster.datadir, args)
            finally:
                load.terminate()
    for name, value in found.items():
        print(f"  {name:<24} {value}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def measured(server: Path, args: argparse.Namespace) -> dict[str, float | int | list[float]]:
    """Of all its processes together: Pss shares what they share."""
    starts = []
    for _ in range(args.starts):
        time.sleep(SETTLE_S)  # while probes of the one before go, the next start waits for them
        with Screen(server) as screen:
            starts.append(round(screen.first_s, 2))
    with Screen(server) as screen:
        time.sleep(SETTLE_S)
        before, began = screen.cpu_s(), time.monotonic()
        time.sleep(args.seconds)
        after, ended = screen.cpu_s(), time.monotonic()
        shares = [100 * (b - a) / (ended - began) for a, b in zip(before, after, strict=True)]
        return {
            "clients": args.clients,
            "seconds": round(ended - began, 1),
            "tracing_percent": round(shares[0], 2),
            "drawing_percent": round(sum(shares[1:]), 2),
            "pss_mib": round(sum(map(pss_kib, screen.pids)) / 1024, 1),
            "first_screen_s": sorted(starts),
        }


class Screen:
    """pgtrace top at a terminal of its own."""

    def __init__(self, server: Path) -> None:
        self._terminal, inside = pty.openpty()
        ioctl(inside, termios.TIOCSWINSZ, SIZE)
        words = [sys.executable, "-m", "pgtrace", "top", "--server", str(server)]
        environment = os.environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        began = time.monotonic()
        self._process = subprocess.Popen(
            words, stdin=inside, stdout=inside, stderr=inside, env=environment, process_group=0
        )
        os.close(inside)
        shown = b""
        while not FIRST.search(shown):
            shown += os.read(self._terminal, 1 << 16)
        self.first_s = time.monotonic() - began
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._terminal, b"q")
        self._process.wait(30)
        os.close(self._terminal)

    @property
    def pids(self) -> list[int]:
        """The one that traces, and its children."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu_s(self) -> list[float]:
        """Of each, all its threads, in user space and in the kernel."""
        return [time.clock_gettime((~pid << 3) | 2) for pid in self.pids]

    def _read(self) -> None:
        try:
            while os.read(self._terminal, 1 << 16):
                pass
        except OSError:
            return


def pss_kib(pid: int) -> int:
    """What it takes of memory, of what it shares with others its part."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]


if __name__ == "__main__":
    sys.exit(main())
