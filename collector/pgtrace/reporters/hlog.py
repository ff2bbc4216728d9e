"""Read latencies as an HdrHistogram log, format 1.3: for HdrHistogram's own viewers and tools.

The lines are written here, and only the histograms by the library: its log writer has no tags,
and raises where it should write the start time.
"""

from datetime import datetime

from .. import __version__
from ..model.buckets import MAX_BITS
from ..model.capture import Capture, Io
from ..model.histogram import Histogram
from .terminal.block import NAMES
from .view import View

DIGITS = 3
NS_PER_MS = 1_000_000
_COMMENTS = f"""\
#[Histogram log format version 1.3]
#pgtrace {__version__}: latencies of OPERATIONS. Tag: process id, operation, source, scope.
#Values are in ns: middles of pgtrace's buckets, within 3.2 % of what was measured.
#Interval_Max is in ms: the greatest value in ns / {NS_PER_MS}, as it was measured.
"""


def report(capture: Capture, _: View) -> list[str]:
    """Return it in one."""
    return [render(capture)]


def render(capture: Capture) -> str:
    """Return the log: one interval, the whole session, and one line for each tag in it."""
    start = datetime.fromisoformat(capture.started)
    operations = ", ".join(NAMES[each] for each in capture.probes.operations)
    lines = [
        _COMMENTS.replace("OPERATIONS", operations)
        + f"#[StartTime: {start.timestamp():.3f} (seconds since epoch), {capture.started}]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    tagged: dict[tuple[int, str, str, str], list[Io]] = {}
    for backend in capture.backends:
        for reads in backend.io:
            tag = (backend.pid, reads.call or reads.operation, reads.source, reads.scope)
            tagged.setdefault(tag, []).append(reads)
    for key, several in sorted(tagged.items()):
        latencies = Histogram.of(several)
        most = (latencies.max_ns or 0) / NS_PER_MS
        name = ".".join(str(part) for part in key)
        # Times from the start on: readers add an absolute base time twice.
        interval = f"0.000,{capture.duration_s:.3f},{most:.6f}"
        lines.append(f"Tag={name},{interval},{encode(latencies)}")
    return "\n".join(lines) + "\n"


def encode(latencies: Histogram) -> str:
    """Return an HdrHistogram of the buckets' middles in ns: V2, compressed, in base64."""
    from hdrh.histogram import HdrHistogram

    middles = [(latencies.midpoint(index), n) for index, n in latencies.counts.items()]
    most = max((middle for middle, _ in middles), default=0)
    hdr = HdrHistogram(1, max(1 << MAX_BITS, most), DIGITS)
    for middle, count in middles:
        if not hdr.record_value(middle, count):
            raise AssertionError(f"{middle} ns do not fit a histogram made for {most}")
    text: str = hdr.encode().decode()
    return text
