"""As which role statements of others may be planned: planning runs functions that anybody wrote.

A function that is declared immutable, or stable, is evaluated to estimate, and may call one that is
neither. It runs with the rights of the connection. `set role` is no protection from it: `reset
role` takes that back, which anybody may do, a function too. What holds is the role that connected.
"""

import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..errors import DatabaseError, UsageError

if TYPE_CHECKING:
    from .connection import Connection

_WHY = "planning runs functions that others wrote, with its rights"


def own_role(connection: "Connection", ran: Collection[str], database: str) -> str:
    """The connection's role, if statements of others may be planned as it.

    `ran` are roles that ran statements of that database, those that ran longest first. Raises
    UsageError if it is a superuser, or could become one or a role that may have the server run
    programs, read or write files; the message names a connection of another role of `ran`.
    """
    rows = connection.ask("roles", tuple[str, bool, bool, str | None], names=list(ran))
    found = {name: (own, superuser, could_become) for name, own, superuser, could_become in rows}
    role = next((name for name, (own, _, _) in found.items() if own), None)
    if role is None:
        raise DatabaseError("its role is gone")
    _, superuser, could_become = found[role]
    if superuser:
        what = "is a superuser"
    elif could_become:
        what = f"could become {could_become} by its memberships"
    elif connection.may_become_anybody():
        what = "was set by a superuser's connection"
    else:
        return role
    for name in ran:
        if name in found and not any(found[name]):
            raise UsageError(
                f"--dsn: role {role} {what}, and {_WHY}. Connect as a role whose statements are "
                f"to be explained: --dsn {shlex.quote(connection.words(user=name))}"
            )
    raise UsageError(
        f"--dsn: role {role} {what}, and {_WHY}; and no other role ran statements of database "
        f"{database}. Leave --dsn out: costs are shown without it"
    )
