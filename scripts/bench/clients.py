"""What clients that come and go cost the collector: seconds of its CPU for each 1,000.

`scripts/bench/clients` calls it where tracefs is mounted. One server, many clients at once, each
query in a backend of its own. With `--busy`, as many loops beside them as there are CPUs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pgtrace.lab.core.private_cluster import PrivateCluster

COLLECTOR = """
import cProfile, json, sys, threading, time
from pgtrace.tracing import tracer as session
pid, options, profiled = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
options["operations"] = tuple(options.get("operations", ("read",)))
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
tracer = session.Tracer(Target.find(pid), TraceOptions(**options))
leave, slowest, polls = threading.Event(), 0.0, 0
def fetch():
    global slowest, polls
    profile = cProfile.Profile() if profiled else None
    if profile:
        profile.enable()
    while not leave.wait(session.POLL_S):
        began = time.monotonic()
        tracer.poll()
        slowest = max(slowest, time.monotonic() - began)
        polls += 1
    if profile:
        profile.disable()
        profile.dump_stats(profiled)
thread = threading.Thread(target=fetch, daemon=True)
thread.start()
print("attached", flush=True)
for _ in range(2):
    sys.stdin.readline()
    print(json.dumps({
        "cpu_s": time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID),
        "poll_s": time.clock_gettime(time.pthread_getcpuclockid(thread.ident)),
        "slowest_s": slowest,
        "polls": polls,
    }), flush=True)
sys.stdin.readline()
leave.set()
thread.join()
lost = tracer.stop().lost
names = [name for name in lost.__struct_fields__ if name != 'in_flight']
print(json.dumps({name: getattr(lost, name) for name in names}))
"""
SETTINGS: dict[str, object] = {"max_connections": 300, "shared_buffers": "16MB"}
SCRIPT = "select count(*) from pg_class;\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="scripts/bench/clients", description=__doc__)
    parser.add_argument("--clients", type=int, default=200, help="at once (200)")
    parser.add_argument("--times", type=int, default=30, help="that each connects (30)")
    parser.add_argument("--by-relation", action="store_true", help="tell files apart")
    parser.add_argument("--operations", default="read", help="what is measured (read)")
    parser.add_argument("--busy", action="store_true", help="keep every CPU busy beside them")
    parser.add_argument("--profile", type=Path, metavar="FILE", default="", help="of cProfile")
    args = parser.parse_args(arguments)
    options = {"by_relation": args.by_relation, "operations": args.operations.split(",")}
    profile = str(args.profile) if args.profile != Path() else ""
    with PrivateCluster(SETTINGS) as cluster, tempfile.NamedTemporaryFile("w") as script:
        script.write(SCRIPT)
        script.flush()
        Path(script.name).chmod(0o644)
        command = [sys.executable, "-c", COLLECTOR, str(cluster.postmaster_pid)]
        with subprocess.Popen(
            [*command, json.dumps(options), profile],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as collector:
            assert collector.stdin and collector.stdout
            collector.stdout.readline()
            before = ask(collector)
            loops = [
                subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in range((os.cpu_count() or 1) if args.busy else 0)
            ]
            subprocess.run(
                [cluster.bindir / "pgbench", "-n", "-C", "-c", str(args.clients), "-j", "4",
                 "-t", str(args.times), "-f", script.name, cluster.dsn()],
                check=True,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            for loop in loops:
                loop.kill()
                loop.wait()
            after, lost = ask(collector), ask(collector)
    thousands = args.clients * args.times / 1000
    cpu, polling, polls = (after[name] - before[name] for name in ("cpu_s", "poll_s", "polls"))
    print(
        f"{1000 * thousands:,.0f} clients: {cpu / thousands:.2f} s of CPU for each 1,000, of which "
        f"{polling / thousands:.2f} to look at who ended ({polls:,.0f} looks, the longest "
        f"{after['slowest_s'] * 1000:.0f} ms)"
    )
    losses = {name: count for name, count in lost.items() if count}
    print(f"lost: {losses or 'nothing'}")
    return 1 if losses else 0


def ask(collector: subprocess.Popen[str]) -> dict[str, float]:
    """A line, and what it answers."""
    assert collector.stdin and collector.stdout
    collector.stdin.write("\n")
    collector.stdin.flush()
    found: dict[str, float] = json.loads(collector.stdout.readline())
    return found


if __name__ == "__main__":
    sys.exit(main())
