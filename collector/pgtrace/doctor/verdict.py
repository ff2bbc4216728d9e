"""What of all that comes to: one sentence, as one would say it aloud."""

from collections.abc import Sequence

from . import Ability, Group, needed

_SERVER = "Server "


def verdict(groups: Sequence[Group]) -> str:
    """What works here, and what does not."""
    hosts = [ability for group in groups if not _is_server(group) for ability in group.abilities]
    servers = [group for group in groups if _is_server(group)]
    by_name = {ability.name: ability for ability in hosts}
    missing = [a for a in hosts if a.permission and a.ok is False]
    if missing:
        return f"Nothing can be traced by this user: {_listed([a.reason for a in missing])}."
    blocked = next((a for a in hosts if needed(a)), None)
    reads = by_name.get("reads")
    if blocked or reads is None or not reads.ok:
        why = blocked or reads
        return f"Nothing can be traced on this host: {why.reason if why else 'see above'}."
    look = by_name.get("look into processes")
    whose = " of this user's own processes" if look and look.ok is False else ""
    way = next((a.name for a in hosts if a.name in _WAYS and a.ok), "?")  # the best is first
    if not servers:
        return f"Reads{whose} can be traced here, by {way}; no server was found to look at."
    works = f"Reads{whose} can be traced here, by {way}"
    uprobes = by_name.get("uprobes")
    if uprobes and uprobes.ok is False:
        return f"{works}, but not the queries that make them: {uprobes.reason}."
    lacks = [lack for group in servers for lack in _lacks(group, several=len(servers) > 1)]
    if not lacks:
        return f"{works}, with the queries that make them and where each was served."
    return f"{works}; what cannot be told: {'; '.join(lacks)}."


_WAYS = ("fentry", "tracepoint", "kprobe")


def _is_server(group: Group) -> bool:
    return group.name.startswith(_SERVER)


def _lacks(group: Group, *, several: bool) -> list[str]:
    """What cannot be told of a server."""
    of = f", of the server in {_directory(group)}" if several else ""
    return [_lack(a) + of for a in group.abilities if a.ok is False]


def _lack(ability: Ability) -> str:
    if ability.name == "version":
        return f"more than reads, as {ability.reason}"
    if ability.name == "query probes":
        return "which query a read was for"
    if ability.name == "AbortCurrentTransaction":
        return "which extended queries failed"
    if ability.name == "debug_query_string":
        return "the text of a query that runs already"
    if ability.name == "data directory" or ability.name.startswith("tablespace "):
        return f"where reads in the {ability.name} were served"
    return ability.name


def _directory(group: Group) -> str:
    return group.name.removeprefix(_SERVER).partition(" in ")[2].rpartition(" (postmaster")[0]


def _listed(reasons: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(reasons))
