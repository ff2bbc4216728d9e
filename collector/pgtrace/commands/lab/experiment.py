"""An experiment as a command: it is measured, and its result is written or printed."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import DatabaseError, PgtraceError, reason
from .. import notes

if TYPE_CHECKING:
    from ...lab.core.experiment import Experiment
    from ...lab.core.interruption import Interruption
    from ...lab.core.progress import Progress
    from ...model.lab_result import Result


class ExperimentCommand:
    """That of one experiment, whose help is the experiment's."""

    def __init__(self, experiment: "Experiment[Any]") -> None:
        self._experiment = experiment
        self.__doc__ = experiment.__doc__
        self.examples = experiment.examples
        self.prepare_parser = experiment.prepare_parser

    def run(self, args: argparse.Namespace) -> int:
        """Measure, then write or print; what ended it after whole runs is said after that."""
        result, ended_by = _measured(args, self._experiment.prepare(args))
        try:
            _hand_over(args, result)
        except Exception as error:
            if ended_by is None:
                raise
            raise PgtraceError(f"{ended_by}\n{error}") from error
        if ended_by:
            raise ended_by
        return 0


def _measured(
    args: argparse.Namespace, measure: "Callable[[Progress, Interruption], Result]"
) -> "tuple[Result, Exception | None]":
    """Let an experiment be interrupted, and show how far it is; return what ended it, too."""
    from ...lab.core.interruption import Interruption
    from ...lab.core.progress import Progress
    from ...libbpf import objects
    from ...linux import tracepoints

    if args.verbose:
        objects.print_messages()
        tracepoints.verbose = True
    progress = Progress(quiet=args.quiet, verbose=args.verbose)
    interruption = Interruption()
    try:
        result = measure(progress, interruption)
    except Exception as error:
        raise (_of_the_server(args, error) or error) from error
    else:
        ended_by = interruption.error
        return result, ended_by and (_of_the_server(args, ended_by) or ended_by)
    finally:
        progress.clear()
        interruption.restore()


def _of_the_server(args: argparse.Namespace, error: Exception) -> PgtraceError | None:
    """What the server said against it, in one line; None if the error is another's."""
    if "psycopg" not in sys.modules:
        return None
    import psycopg

    if not isinstance(error, psycopg.Error):
        return None
    said = str(error).strip().partition("\n")[0]
    if getattr(args, "dsn", None) is not None:  # lab sync has none
        return DatabaseError(f"--dsn: {said}; what was made there is removed")
    return PgtraceError(f"the server gave up: {said}; its disk, its memory or its end may say why")


def _hand_over(args: argparse.Namespace, result: "Result") -> None:
    """Write the file, and print: the result itself with --json, else its report."""
    from ...lab import result_report, result_words
    from ...model import encoding

    data = encoding.encode(result)
    if args.output:
        notes.note(args, _write(data, args))
        if result.partial:
            notes.note(args, result_words.partial(result))
    try:
        if args.json:
            sys.stdout.write(data.decode())
        elif not args.output:
            from ..report import width

            print(result_report.render(result, width=width(to_file=False)), end="")
        if sys.stdout:  # closed by who started us, which a file has no need of
            sys.stdout.flush()
    except Exception as error:
        if isinstance(error, BrokenPipeError) and (args.output or not args.json):
            return  # it is written, or somebody has seen enough of a report
        if args.output:
            raise
        raise PgtraceError(
            f"the result could not be printed: {error}. {_keep(data, args)}"
        ) from error


def _write(data: bytes, args: argparse.Namespace) -> str:
    """Hours of work are not lost to a full disk: kept elsewhere, and said so."""
    from ...files import output_file

    try:
        return output_file.write(data, args.output, force=args.force)
    except (OSError, PgtraceError) as error:
        raise PgtraceError(f"{error}. {_keep(data, args)}") from error


def _keep(data: bytes, args: argparse.Namespace) -> str:
    """Keep it wherever there is room for it, and say where."""
    from ...files import rescue

    kept = rescue.keep(data, args.output)
    if kept:
        return f"The result was kept: {kept}"
    if sys.stdout is None:
        return "There is no room for the result elsewhere"
    try:
        print(data.decode(), end="", flush=True)  # also on a terminal: a report is not the result
    except OSError as error:
        return f"There is no room elsewhere either, nor can stdout be written: {reason(error)}"
    return "The result went to stdout: there is no room elsewhere either"
