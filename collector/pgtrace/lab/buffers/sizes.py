"""Sizes of shared_buffers: asked of PostgreSQL itself, and held against this host's memory."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from ... import units
from ...errors import UsageError
from ...linux import as_user
from ..core.private_cluster import PrivateCluster
from ..core.private_server import memory_available

USUAL = "128kB,32MB,512MB"
"""The two of the published experiment, and between them this laboratory's own."""


class Size(NamedTuple):
    """One value of the setting."""

    text: str
    """As it was given."""
    buffers: int
    block_size: int

    @property
    def bytes(self) -> int:
        """Of all its buffers."""
        return self.buffers * self.block_size


def sizes(text: str, cluster: PrivateCluster) -> list[Size]:
    """What `--shared-buffers 128kB,32MB` says, ascending. Raises UsageError, with PostgreSQL's own
    words where it does not take one.
    """
    block_size = int(_ask(cluster, "block_size", text))
    found: dict[int, Size] = {}
    for each in (part.strip() for part in text.split(",")):
        size = Size(each, int(_ask(cluster, "shared_buffers", text, each)), block_size)
        other = found.setdefault(size.buffers, size)
        if other is not size:
            raise UsageError(
                f"--shared-buffers {text}: {other.text} and {each} are one size; "
                "--runs measures all again"
            )
    return [found[buffers] for buffers in sorted(found)]


def check_memory(every: list[Size], table_bytes: int) -> None:
    """Raise UsageError unless the largest fits into memory, and the table beside it: the page
    cache has to hold that.
    """
    largest, free = every[-1], memory_available()
    if largest.bytes > free:
        raise UsageError(
            f"--shared-buffers {largest.text} is more than the memory that is available, "
            f"{units.size(free)}; take a smaller one"
        )
    if largest.bytes + table_bytes > free:
        raise UsageError(
            f"--shared-buffers {largest.text} and the table of {units.size(table_bytes)}, which "
            f"the page cache has to hold, need more than the memory that is available, "
            f"{units.size(free)}; take a smaller one, or fewer --rows"
        )


def _ask(cluster: PrivateCluster, setting: str, text: str, value: str | None = None) -> str:
    """What `postgres -C` makes of it: without a data directory, so that nothing is made."""
    uid, gid = cluster.ids()
    binary = Path("/") / cluster.binary.relative_to(cluster.root)
    nowhere = ("config_file", "data_directory", "hba_file", "ident_file")
    settings = [f"{name}=/dev/null" for name in nowhere]
    settings += [] if value is None else [f"{setting}={value}"]
    words = [*as_user.NO_NEW_PRIVILEGES, "--"]
    words += ["chroot", f"--userspec=+{uid}:+{gid}", "--groups=", str(cluster.root)]
    words += ["/usr/bin/env", "-i", "LC_ALL=C", str(binary), "-C", setting]
    words += [word for each in settings for word in ("-c", each)]
    asked = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        start_new_session=True,
    )
    if asked.returncode == 0:
        return asked.stdout.strip()
    said = [line for line in asked.stderr.splitlines() if "FATAL:" in line or "HINT:" in line]
    words_of_it = "; ".join(line.partition(":  ")[2].strip() for line in said)
    raise UsageError(
        f"--shared-buffers {text}: PostgreSQL says: {words_of_it or asked.stderr.strip()}; "
        f"say it as in --shared-buffers {USUAL}; the least is 128kB"
    )
