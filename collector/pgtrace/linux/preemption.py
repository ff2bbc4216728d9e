"""From whom the kernel takes the CPU while it works for a task."""

import os
import re
from pathlib import Path

from . import kernel

_SCHED = "/sys/kernel/debug/sched/preempt"
_COMMAND_LINE = "/proc/cmdline"
_CHOICES = ("none", "voluntary", "full", "lazy")
_WITHOUT_NONE = (7, 0)
"""7dadeaa6e851, "sched: Further restrict the preemption modes": of x86 and arm64."""


def model() -> str:
    """none, voluntary, lazy, full or rt; empty if it cannot be told.

    It may be changed while the kernel runs, through debugfs, which root alone can read.
    """
    about = os.uname()
    built = re.search(r"\bPREEMPT(|_RT|_LAZY|_DYNAMIC)(?!\w)", about.version)
    if built is None:
        return "none"
    if built[1] == "_RT":
        return "rt"
    for chosen in re.findall(r"\((\w+)\)", _text(_SCHED)):  # as in "none voluntary (full) lazy"
        return str(chosen)
    if built[1] != "_DYNAMIC":
        return "lazy" if built[1] else "full"
    choices = _CHOICES[2:] if kernel.version() >= _WITHOUT_NONE else _CHOICES
    for asked in reversed(re.findall(r"\bpreempt=(\w+)", _text(_COMMAND_LINE))):
        if asked in choices:  # the kernel passes over others, too
            return str(asked)
    options = kernel.options() or {}
    named = [choice for choice in choices if f"PREEMPT_{choice.upper()}" in options]
    return "full" if "PREEMPT" in options else "".join(named[:1])


def may_be_anywhere() -> bool:
    """Whether a task may lose its CPU at any moment."""
    return model() in ("full", "rt")


def _text(file: str) -> str:
    """Empty where it is not there, as debugfs need not be mounted."""
    try:
        return Path(file).read_text()
    except OSError:
        return ""
