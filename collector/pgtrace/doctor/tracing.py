"""Abilities of tracing: probe types for reads, probes for queries."""

from pathlib import Path

from ..linux import kernel
from . import Ability, Ways
from .host import tracefs

_SLOWED = "every system call of every process on this host is a little slower while it is attached"
_OPTIONS = {"kprobe": "KPROBES", "tracepoint": "FTRACE_SYSCALLS", "fentry": "DEBUG_INFO_BTF"}
_UPROBES = Path("/sys/bus/event_source/devices/uprobe")


def reads(ways: Ways | None, blocked: Ability | None = None) -> list[Ability]:
    """Judge the probe types for reads; None where they were not tried because of `blocked`."""
    if ways is None:
        why = f"not tried, because of {blocked.name}" if blocked else "not tried"
        return [Ability("reads", False, why, blocked.remedy if blocked else None)]
    best = next((way for way, reason in ways.items() if reason is None), None)
    options = kernel.options()
    found = [_best(best, only=[*ways.values()].count(None) == 1)]
    for way, reason in ways.items():
        if reason is None:
            found.append(Ability(way, True, "loads and attaches"))
            continue
        reason = reason.removeprefix(f"reads by {way}: ")  # noqa: PLW2901
        option = _OPTIONS.get(way, "")
        built = options is None or option in options or "was built without" in reason
        why = reason if built else f"{reason} (the kernel was built without CONFIG_{option})"
        remedy = tracefs().remedy if way == "tracepoint" else None
        # With a better way, the lack of one is no fault to mend.
        found.append(Ability(way, None if best else False, why, None if best else remedy))
    return found


def _best(way: str | None, *, only: bool) -> Ability:
    if way is None:
        return Ability("reads", False, "cannot be traced: no probe type works, see below")
    why = f"by {way}, the {'only' if only else 'best'} probe type here"
    return Ability("reads", True, f"{why}: {_SLOWED}" if way == "tracepoint" else why)


def queries(blocked: Ability | None = None) -> list[Ability]:
    """Judge what the kernel offers for following queries; servers are judged one by one."""
    name = "uprobes"
    if not (_UPROBES / "type").exists():
        remedy = "boot a kernel built with CONFIG_UPROBE_EVENTS=y"
        return [Ability(name, False, f"the kernel has no {_UPROBES}", remedy)]
    if not (_UPROBES / "format/ref_ctr_offset").exists():
        why = "the kernel cannot arm USDT probes that have semaphores, as PostgreSQL's have"
        return [Ability(name, False, why, "boot Linux 4.20 or later")]
    if blocked is not None:
        return [Ability(name, None, f"in the kernel; not tried, because of {blocked.name}")]
    return [Ability(name, True, "in the kernel, with semaphores for USDT")]
