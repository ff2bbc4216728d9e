"""Process titles of PostgreSQL 14 to 19: what `ps` shows, and what is certain in it.

    postgres: [cluster_name: ]user database host(port) activity
    postgres: [cluster_name: ]walsender user [database] host(port) activity
    postgres: [cluster_name: ]backend type [detail]

Names may hold spaces, and nothing is quoted: what can be read in two ways is None.
Source: init_ps_display() and its callers, src/backend/utils/misc/ps_status.c.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_MOST = 4096
"""In characters: three names of 63 bytes, a host's name of 1,025 and a command are half of it, also
where each byte is shown by four."""
_MOST_PID = 4 << 20  # PID_MAX_LIMIT, include/linux/threads.h
_MOST_PORT = 65535
_PREFIX = re.compile(r"[\w-]*postgres: ")
_HOST = re.compile(r"(?<![^ ])(?:(\[local\])|([^ ()]+)\(([0-9]+)\))(?![^ ])")
_ACTIVITY = re.compile(
    r"(?:|[A-Z][A-Z ]*|idle(?: in transaction(?: \(aborted\))?)?|initializing|authentication"
    r"|startup|notify interrupt|streaming .*|sending backup .*)(?: ?waiting.*)?",
    re.DOTALL,
)
_QUIET = (
    "checkpointer",
    "background writer",
    "walwriter",
    "autovacuum launcher",
    "logical replication launcher",
    "walsummarizer",
)
"""Types that every server of some version has, and that show no detail in peace."""
_TYPES = (
    *_QUIET,
    "archiver",
    "autovacuum worker",
    "io worker",
    "logger",
    "slotsync worker",
    "startup",
    "stats collector",
    "walreceiver",
)
_LEADER = re.compile(r"parallel worker for PID ([0-9]+) ?(.*)", re.DOTALL)
_LOGICAL = re.compile(
    r"(logical replication (?:(?:apply |tablesync |sequencesync |parallel )*)worker)"
    r" for subscription [\d ]+(?:sync \d+ ?)?(.*)",
    re.DOTALL,
)
_SEPARATE_LOGICAL_TYPES = 17
_REPACK = re.compile(r'(REPACK decoding worker) for relation ".*?(?:" (waiting))?', re.DOTALL)
"""The relation's name may hold anything; of a long one the second quote is cut off."""


@dataclass(frozen=True, slots=True)
class Title:
    """What a title says. None is what it does not say, or not for certain."""

    backend_type: str | None = None
    """In the words of pg_stat_activity.backend_type."""
    usename: str | None = None
    datname: str | None = None
    client_addr: str | None = None
    """Address or host name; `[local]` for a Unix socket."""
    client_port: int | None = None
    activity: str | None = None
    """Command tag or state, such as `SELECT`, `idle in transaction`, `SELECT waiting`."""
    leader_pid: int | None = None
    """As the server counts: a pid of its own PID namespace."""


def cluster_name(titles: Iterable[str]) -> str | None:
    """Find the cluster_name, empty when the server has none, in the titles of all its processes.

    None when no title tells. Only background processes do for certain: a user may be named
    like anything.
    """
    for title in titles:
        body = _body(title)
        for kind in _QUIET:
            if body in (kind, f"{kind} "):
                return ""
            for end in (f": {kind}", f": {kind} "):
                if body is not None and body.endswith(end):
                    return body.removesuffix(end)
    return None


def parse(title: str, cluster: str | None = None, major: int | None = None) -> Title:
    """Read a title; all None when it is none, as a process's is that has only just begun, or when
    it is longer than any server's: whoever owns a process writes there what he likes.

    cluster: the cluster_name, or None when it is not known. major: version of the server.
    """
    body = _body(title)
    if body is None or len(title) > _MOST:
        return Title()
    if cluster is None:
        return _guess(body, major)
    if cluster:
        body = body.removeprefix(f"{cluster}: ")
    return _background(body, major) or _client(body) or _extension(body)


def _body(title: str) -> str | None:
    prefix = _PREFIX.match(title)
    return title[prefix.end() :] if prefix else None


def _guess(body: str, major: int | None) -> Title:
    # The longest prefix that can be a cluster's name leaves the least to be read wrong.
    names = [match.start() for match in (_HOST.search(body), _REPACK.search(body)) if match]
    colons = [match.end() for match in re.finditer(": ", body[: min(names, default=len(body))])]
    for start in (*reversed(colons), 0):
        known = _background(body[start:], major)
        if known is not None:
            return known
    return _client(body[colons[-1] if colons else 0 :]) or _extension(body)


def _background(body: str, major: int | None) -> Title | None:
    if match := _LEADER.fullmatch(body):
        leader, activity = match.groups()
        pid = _number(leader, _MOST_PID)
        return Title("parallel worker", leader_pid=pid, activity=activity or None)
    if match := _LOGICAL.fullmatch(body) or _REPACK.fullmatch(body):
        kind, activity = match.groups()
        kind = kind.replace("parallel apply", "parallel")
        if major is not None and major < _SEPARATE_LOGICAL_TYPES:
            kind = "logical replication worker"
        return Title(kind, activity=activity or None)
    for kind in _TYPES:
        if body == kind or body.startswith(f"{kind} "):
            detail = body[len(kind) + 1 :] or None
            if detail and _HOST.search(body):
                return None  # a user of that name
            if kind == "autovacuum worker":
                return Title(kind, datname=detail)
            return Title(kind, activity=None if kind == "io worker" else detail)
    return None


def _client(body: str) -> Title | None:
    hosts = list(_HOST.finditer(body))
    if not hosts:
        return None
    # A name may look like a host, an activity hardly: the last that can be one is it.
    told = [host for host in hosts if _ACTIVITY.fullmatch(body[host.end() + 1 :])]
    host = told[-1] if told else hosts[0]
    local, address, port = host.groups()
    title = Title(
        "client backend",
        client_addr=local or address,
        client_port=_number(port, _MOST_PORT) if port else None,
        activity=body[host.end() + 1 :] or None,
    )
    match body[: host.start()].removesuffix(" ").split(" "):
        case ["walsender", user] if user:
            return replace(title, backend_type="walsender", usename=user)
        case ["walsender", user, database] if user and database:
            return replace(title, backend_type="walsender", usename=user, datname=database)
        case ["walsender", _, *_]:
            return replace(title, backend_type="walsender")
        case [user, database] if user and database:
            return replace(title, usename=user, datname=database)
    return title


def _number(digits: str, most: int) -> int | None:
    """None if it is more: CPython refuses to read some thousands of digits."""
    number = int(digits) if len(digits) <= len(str(most)) else most + 1
    return number if number <= most else None


def _extension(body: str) -> Title:
    # An extension's background worker: its name, which most give their type as well.
    return Title(body.removesuffix(" ") or None)
