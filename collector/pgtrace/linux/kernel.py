"""Which kernel this is, and how it was built."""

import os
import re
from pathlib import Path

_PLACES = ("/boot/config-{}", "/lib/modules/{}/config")


def version(release: str | None = None) -> tuple[int, ...]:
    """The first two numbers of a release, as 6.1.0-50-amd64; by default of the kernel that runs."""
    return tuple(map(int, re.findall(r"\d+", release or os.uname().release)[:2]))


def options() -> dict[str, str] | None:
    """What is set, by option without CONFIG_; None where that is not to be found."""
    text = _text()
    return None if text is None else dict(re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.MULTILINE))


def _text() -> str | None:
    for place in _PLACES:
        try:
            return Path(place.format(os.uname().release)).read_text(errors="replace")
        except OSError:
            continue
    try:
        import gzip

        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        return None
