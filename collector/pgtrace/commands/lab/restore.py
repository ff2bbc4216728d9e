"""pgtrace lab restore: after kill -9."""

import argparse


class RestoreCommand:
    """Undo what an experiment left that was killed: servers, directories, settings.

    What is to be undone stands in /run/pgtrace, one file for each run. Doing it twice is harmless.
    """

    examples = (
        "sudo pgtrace lab restore",
        "sudo pgtrace lab restore -v",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """There are no options."""

    def run(self, args: argparse.Namespace) -> int:
        """Undo, and say what was done."""
        import os

        from ... import sudo
        from ...errors import PermissionDeniedError
        from ...lab.core.undo_log import restore

        if os.geteuid() != 0:
            raise PermissionDeniedError(
                f"what an experiment left is root's. Type: {sudo.as_root()}"
            )
        said = False
        for line in restore():
            print(f"{line[0].upper()}{line[1:]}")
            said = True
        if not said and not args.quiet:
            print("Nothing was left to restore.")
        return 0


COMMAND = RestoreCommand()
