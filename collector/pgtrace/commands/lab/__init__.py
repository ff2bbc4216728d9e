"""pgtrace lab: the published experiments, each by one command."""

from ...lab import EXPERIMENTS
from .. import Command, imported

TABLE = {
    **{name: ("experiment", text) for name, text in EXPERIMENTS.items()},
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
    subcommands = TABLE

    def load(self, name: str) -> Command:
        """Import an experiment; UsageError if there is none of that name."""
        if name in EXPERIMENTS:
            from ...lab.experiments import experiment
            from .experiment import ExperimentCommand

            return ExperimentCommand(experiment(name))
        found: Command = imported(__name__, "experiment", name, TABLE, "pgtrace lab")
        return found


COMMAND = LabCommand()
