"""What this host and its servers can be traced for: the model behind `pgtrace doctor`."""

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import PermissionDeniedError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing that is needed or useful. `reason` is what was found, as a sentence or its part."""

    name: str
    ok: bool | None
    """None where it does not matter, or cannot be known."""
    reason: str
    remedy: str | None = None
    """What to type or to do next."""
    permission: bool = False
    """It is missing because this user may not, rather than because the host cannot."""


@dataclass(frozen=True, slots=True)
class Group:
    """Abilities that belong together, such as those of one server."""

    name: str
    abilities: list[Ability]


Ways = dict[str, str | None]
"""Each probe type for reads: None if it works, or why not. The best is first."""
EnginesTried = dict[str, Ways | str]
"""What each engine can do, or why it works with no probe type at all. The best is first."""


def groups(try_engines: Callable[[], EnginesTried]) -> list[Group]:
    """Examine this host; `try_engines` loads and attaches real probes, and removes them again."""
    from . import engines, host, tracing

    hosts = host.abilities()
    blocked = next((ability for ability in hosts if needed(ability)), None)
    tried = None if blocked else try_engines()
    judged = engines.engines(tried, blocked)
    chosen = engines.choose(tried) if tried else None
    ways = tried[chosen] if tried and chosen else None
    blocked = blocked or next((ability for ability in judged if needed(ability)), None)
    return [
        Group("Host", hosts),
        Group("Engines", judged),
        Group("Reads", tracing.reads(None if isinstance(ways, str) else ways, blocked)),
        Group("Queries", tracing.queries(blocked)),
    ]


def needed(ability: Ability) -> bool:
    """Whether nothing at all can be traced, because of this."""
    return ability.ok is False and ability.name in _NEEDED


def exit_code(found: list[Group]) -> int:
    """0 when reads can be traced, 4 when this user may not, 5 when the host cannot."""
    abilities = [ability for group in found for ability in group.abilities]
    if any(ability.permission and ability.ok is False for ability in abilities):
        return PermissionDeniedError.exit_code
    if any(needed(ability) for ability in abilities) or not any(
        ability.name == "reads" and ability.ok for ability in abilities
    ):
        return UnsupportedError.exit_code
    return 0


_NEEDED = {
    "PID namespace",
    "engine",
    "kernel",
    "kernel configuration",
    "libbpf",
    "load programs",
    "lockdown",
    "object file",
    "preemption",
    "user namespace",
}

__all__ = ["Ability", "EnginesTried", "Group", "Ways", "exit_code", "groups", "needed"]
