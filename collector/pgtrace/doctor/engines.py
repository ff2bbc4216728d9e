"""Abilities of the two engines, and which of them is taken."""

from . import Ability, EnginesTried

LIBBPF = "everything"
BCC = (
    "reads by kprobe and tracepoint, queries, statements, parallel and I/O workers; "
    "not reads by fentry, nor by io_uring"
)


def engines(tried: EnginesTried | None, blocked: Ability | None = None) -> list[Ability]:
    """Judge the engines; None where they were not tried because of `blocked`."""
    if tried is None:
        why = f"not tried, because of {blocked.name}" if blocked else "not tried"
        return [Ability("engine", False, why, blocked.remedy if blocked else None)]
    chosen = choose(tried)
    reasons = {"libbpf": "libbpf, the first choice", "bcc": "bcc, as the kernel has no BTF"}
    if chosen:
        found = [Ability("engine", True, reasons[chosen])]
    else:
        found = [Ability("engine", False, "none works here, see below")]
    for name, covers in (("libbpf", LIBBPF), ("bcc", BCC)):
        ways = tried[name]
        ability = f"engine {name}"
        if not isinstance(ways, str):
            found.append(Ability(ability, True, f"covers {covers}"))
        else:
            found.append(Ability(ability, None if chosen else False, ways))
    return found


def choose(tried: EnginesTried) -> str | None:
    """As engines.select does: libbpf, and bcc where that cannot for lack of BTF."""
    return next((name for name, ways in tried.items() if not isinstance(ways, str)), None)
