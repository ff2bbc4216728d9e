"""pgtrace lab: the published experiments, each by one command."""

from .. import Command, imported

EXPERIMENTS = {
    "pages": ("pages", "sequential against random page reads, per storage"),
    "readahead": ("readahead", "read-ahead and the true device read"),
    "buffers": ("buffers", "what shared_buffers does to a scan"),
    "sync": ("sync", "fsync and checkpoints of two servers"),
    "restore": ("restore", "undo what an experiment left that was killed"),
}
"""By name: module and one line of help."""


class LabCommand:
    """Repeat a published experiment, on a private server that is removed at the end.

    Each writes one result file (-o), from which `pgtrace report` shows everything again.
    """

    examples = (
        "sudo pgtrace lab pages --storage ssd=/mnt/ssd --memory -o pages.json",
        "pgtrace report pages.json",
    )
    subcommands = EXPERIMENTS

    def load(self, name: str) -> Command:
        """Import an experiment; UsageError if there is none of that name."""
        found: Command = imported(__name__, "experiment", name, EXPERIMENTS, "pgtrace lab")
        return found


COMMAND = LabCommand()
