"""Abilities of one server: its version, its probes, and where its files lie."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import PermissionDeniedError, PgtraceError
from ..linux.storage import Storage, storage
from ..postgres import binary
from ..postgres.discovery import Server, tablespaces
from ..postgres.versions import KNOWN, SUPPORTED, too_new
from . import Ability, Group

QUERY_PROBES = (
    "statement__status",
    "query__start",
    "query__done",
    "query__execute__done",
)
"""USDT probes that open and close the scope of a query."""
_PACKAGES = "install a build with --enable-dtrace, or one that exports its functions: not stripped"
_EXPORTED = "install a build that exports its functions, as PostgreSQL's own do: not stripped"


def group(server: Server) -> Group:
    """Examine one server, from its binary and /proc alone."""
    title = f"Server {server.version or '?'} in {server.data_directory}"
    return Group(f"{title} (postmaster {server.postmaster_pid})", abilities(server))


def abilities(server: Server) -> list[Ability]:
    """What of a server can be traced; a part that may not be read is an ability that is missing."""
    found = [version(server.version, server.major)]
    if server.postmaster.exe_replaced:
        why = f"{server.postmaster.exe} was replaced since the start; what runs is still traced"
        found.append(Ability("binary", None, why))
    try:
        file = server.postmaster.binary
        found.append(query_probes(binary.probes(file), _lacking(file)))
        found.append(symbol(file, "AbortCurrentTransaction", "errors of extended queries"))
        found.append(symbol(file, "debug_query_string", "the query that runs already"))
    except PgtraceError as error:
        found.append(_failed("query probes", error))
    places = [("data directory", server.directory)]
    try:
        places += [(f"tablespace {space.oid}", space.path) for space in tablespaces(server)]
    except PgtraceError as error:
        found.append(_failed("tablespaces", error))
    for name, directory in places:
        try:
            found.append(sources(name, storage(directory, server.postmaster_pid)))
        except PgtraceError as error:
            found.append(_failed(name, error))
    return found


def version(text: str | None, major: int | None) -> Ability:
    """Judge the version of PostgreSQL."""
    if major in SUPPORTED:
        return Ability("version", True, text or str(major))
    if newer := too_new(text):
        return Ability("version", None, newer)
    return Ability("version", False, f"{text or 'unknown'}: pgtrace is made for {KNOWN}")


def _lacking(file: Path) -> list[str]:
    """Functions in which the USDT probes would be, and that a binary does not export."""
    from ..engines.probes import FUNCTIONS_OF_QUERIES

    names = dict.fromkeys(name.split()[0] for name in FUNCTIONS_OF_QUERIES)
    return [name for name in names if not binary.has_symbol(file, name)]


def query_probes(probes: set[str], lacking: Sequence[str]) -> Ability:
    """Judge the USDT probes of a binary, and the functions that do the same, but for those that it
    is `lacking`.
    """
    name = "query probes"
    missing = [probe for probe in QUERY_PROBES if probe not in probes]
    if not missing:
        return Ability(name, True, f"USDT, {len(probes)} in the binary")
    why = f"the binary lacks {', '.join(missing)}"
    if not probes:
        why = "the binary has no USDT probes: it was built without --enable-dtrace"
    if not lacking:
        return Ability(name, True, f"by exported functions, which tell the same, as {why}")
    return Ability(name, False, f"{why}; and it does not export {', '.join(lacking)}", _PACKAGES)


def symbol(file: Path, name: str, gives: str) -> Ability:
    """Judge whether a binary exports what gives something."""
    if binary.has_symbol(file, name):
        return Ability(name, True, f"exported: gives {gives}")
    return Ability(name, False, f"not exported: {gives} cannot be told", _EXPORTED)


def sources(name: str, found: Storage) -> Ability:
    """Judge whether page cache and device can be told apart where a directory lies."""
    device = found.device
    where = found.filesystem
    if device is not None:
        spins = {True: ", rotational", False: "", None: ""}[device.rotational]
        below = f" on {', '.join(device.beneath)}" if device.beneath else ""
        made_up = ", simulated" if device.simulated else ""
        where += f" on {device.name} ({device.kind}{spins}{made_up}){below}"
        if device.read_ahead_kb is not None:
            where += f", read-ahead {device.read_ahead_kb} KiB"
    if found.unknown_because is None:
        told = "no device behind it" if device is None else "page cache and device are told apart"
        return Ability(name, True, f"{where}: {told}")
    why = f"{where}: a read that asked no device is `unknown`, for {found.unknown_because}"
    return Ability(name, False, why)


def _failed(name: str, error: PgtraceError) -> Ability:
    return Ability(name, False, str(error), permission=isinstance(error, PermissionDeniedError))
