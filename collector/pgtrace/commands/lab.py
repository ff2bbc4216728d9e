"""pgtrace lab: the published experiments, each by one command."""

import argparse
from importlib import import_module

from ..errors import UsageError

EXPERIMENTS = {
    "pages": ("lab_pages", "sequential against random page reads, per storage (document 002)"),
    "readahead": ("lab_readahead", "read-ahead and the true device read (documents 003, 000)"),
    "buffers": ("lab_buffers", "what shared_buffers does to a scan (document 004)"),
    "sync": ("lab_sync", "fsync and checkpoints of two servers (document 001)"),
    "restore": ("lab_restore", "undo what an experiment left that was killed"),
}
"""By name: module and one line of help."""


class LabCommand:
    """Repeat a published experiment, on a private server that is removed at the end.

    Each writes one result file (-o), from which `pgtrace report` shows everything again.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the experiments, each with its options."""
        import inspect

        experiments = parser.add_subparsers(metavar="EXPERIMENT", dest="experiment")
        for name, (module, text) in EXPERIMENTS.items():
            command = import_module(f".{module}", __package__).COMMAND
            own = experiments.add_parser(name, help=text, description=inspect.getdoc(command))
            command.prepare_parser(own)
            own.set_defaults(run_experiment=command.run)

    def run(self, args: argparse.Namespace) -> int:
        """Run the one that was named."""
        if args.experiment is None:
            raise UsageError("which experiment? `pgtrace lab --help` lists them")
        code: int = args.run_experiment(args)
        return code


COMMAND = LabCommand()
