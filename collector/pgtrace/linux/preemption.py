"""From whom the kernel takes the CPU while it works for a task."""

import functools
import os
import re
from pathlib import Path

_SCHED = "/sys/kernel/debug/sched/preempt"
_COMMAND_LINE = "/proc/cmdline"
_BUILT = ("/boot/config-{}", "/lib/modules/{}/config")


@functools.cache
def model() -> str:
    """none, voluntary, lazy, full or rt; empty if it cannot be told.

    It may be changed while the kernel runs, through debugfs, and is asked for once.
    """
    about = os.uname()
    if "PREEMPT_RT" in about.version:
        return "rt"
    for chosen in re.findall(r"\((\w+)\)", _text(_SCHED)):  # as in "none voluntary (full) lazy"
        return str(chosen)
    if "PREEMPT_DYNAMIC" in about.version:
        for asked in reversed(re.findall(r"\bpreempt=(\w+)", _text(_COMMAND_LINE))):
            return str(asked)
    config = "".join(_text(place.format(about.release)) for place in _BUILT)
    for built in re.findall(r"^CONFIG_PREEMPT(|_NONE|_VOLUNTARY|_LAZY)=y$", config, re.MULTILINE):
        return built[1:].lower() or "full"
    return ""


def may_be_anywhere() -> bool:
    """Whether a task may lose its CPU at any moment."""
    return model() in ("full", "rt")


def _text(file: str) -> str:
    """Empty where it is not there, as debugfs need not be mounted."""
    try:
        return Path(file).read_text()
    except OSError:
        return ""
