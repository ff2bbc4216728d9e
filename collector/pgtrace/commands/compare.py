"""pgtrace compare: whether B differs from A, and in what."""

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from ..errors import ConditionError, UsageError
from . import notes

if TYPE_CHECKING:
    from ..comparing.comparison import Comparison
    from ..comparing.conditions import Asked
    from ..comparing.side import Side
    from ..model.capture import Capture
    from ..model.lab_result import Result

_FORMATS = ("text", "json", "html")
_USUAL = 10.0


class CompareCommand:
    """Tell whether B differs from A, in what, and how certain that is: two captures, two parts of
    one, or two results of one experiment.

    Verdicts come from how much each session varies from one time to another, never from single
    reads; what that does not tell is "not decided". With --fail-if a condition that is true makes
    the exit code 8, for scripts. Needs no root and no server.
    """

    examples = (
        "pgtrace compare before.json after.json --fail-if 'p99(device) > 1.2x'",
        "pgtrace compare day.json --a 'interval 10:00-10:05' --b 'interval 14:00-14:05'",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("a_file", metavar="FILE", help="A: what was before; - is stdin")
        parser.add_argument(
            "b_file",
            metavar="FILE",
            nargs="?",
            help="B: what is to be judged; A's file if not given",
        )
        for side in "ab":
            parser.add_argument(
                f"--{side}",
                metavar="PART",
                action="append",
                default=[],
                help=f"{side.upper()} is this part alone: 'interval 10:00-10:05', 'backend PID', "
                "'statement ID|TEXT', 'relation NAME' or 'tablespace NAME'; repeatable",
            )
        parser.add_argument(
            "--margin",
            type=_percent,
            default=_USUAL,
            metavar="PERCENT",
            help="differences up to that do not matter; 10 if not given",
        )
        parser.add_argument(
            "--fail-if",
            action="append",
            default=[],
            metavar="CONDITION",
            help="exit with 8 if it is certain: 'p99(device) > 1.2x', 'mean > 20%%'; repeatable",
        )
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--format", choices=_FORMATS, default="text", help="text if not given")
        form.add_argument(
            "--json", dest="format", action="store_const", const="json", help="--format json"
        )
        parser.add_argument("-o", "--output", metavar="OUT", help="write it there, not to stdout")
        parser.add_argument("--force", action="store_true", help="overwrite OUT")

    def run(self, args: argparse.Namespace) -> int:
        """Read both, compare, print; 8 if a condition was true."""
        from ..comparing import captures, conditions, selection
        from ..files import output_file
        from ..lab import result_file
        from ..model.capture import Capture
        from ..reporters import comparison as forms
        from .report import width

        asked = _asked(args.fail_if)
        parts = []
        for texts in (args.a, args.b):
            try:
                parts.append(selection.parse(texts))
            except selection.SelectionError as error:
                raise UsageError(f"--{'ab'[len(parts)]}: {error}") from error
        if args.output is not None:
            output_file.check_apart(args.output, [args.a_file, args.b_file or args.a_file])
            output_file.check(args.output, args.force)
        if args.a_file == "-" == args.b_file:
            raise UsageError("stdin is one file: name the other, as in `pgtrace compare A.json -`")
        one = result_file.load_any(args.a_file)
        same = args.b_file is None
        other = one if same else result_file.load_any(args.b_file)
        if same and args.a == args.b:
            parted = f", or two parts: {selection.halves(one)}" if isinstance(one, Capture) else ""
            raise UsageError(
                f"{args.a_file} alone: what is it to be compared with? Name another file{parted}"
            )
        if isinstance(one, Capture) and isinstance(other, Capture):
            a, b = _side("a", one, parts[0]), _side("b", other, parts[1])
            _check(args, a, b)
            found = captures.compare(a, b, 1 + args.margin / 100)
            found.conditions = [conditions.evaluate(each, a, b) for each in asked]
        else:
            found = _results(args, one, other)
        found.a.file = "stdin" if args.a_file == "-" else args.a_file
        found.b.file = "stdin" if args.b_file == "-" else args.b_file or found.a.file
        drawn = forms.FORMS[args.format](found, width(args.output is not None))
        if args.output is None:
            with contextlib.suppress(BrokenPipeError):  # what is so is so whether it is read or not
                sys.stdout.write(drawn)
                sys.stdout.flush()
        else:
            notes.note(args, output_file.write(drawn.encode(), args.output, args.force))
        if so := [each.text for each in found.conditions if each.outcome == "true"]:
            raise ConditionError(f"--fail-if: {', '.join(so)}: true")
        return 0


def _percent(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = 0.0
    if not 0 < number <= 1000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number above 0, up to 1000; say it as in --margin 20"
        )
    return number


def _asked(texts: list[str]) -> "list[Asked]":
    from ..comparing import conditions

    try:
        return [conditions.parse(text) for text in texts]
    except conditions.NoConditionError as error:
        raise UsageError(f"--fail-if: {error}") from error


def _side(name: str, capture: "Capture", part: object) -> "Side":
    from ..comparing import selection, side

    assert isinstance(part, selection.Selection)
    try:
        return side.side_of(capture, part)
    except selection.SelectionError as error:
        raise UsageError(f"--{name}: {error}") from error


def _check(args: argparse.Namespace, a: "Side", b: "Side") -> None:
    """Raise UsageError where A is B, or a part of it at the same time."""
    from ..comparing import selection

    if a.capture != b.capture:
        return
    if a.selection == b.selection:
        raise UsageError(
            f"{args.a_file} and {args.b_file or args.a_file} are the same capture: nothing can "
            f"differ. Compare it with another, or two parts of it: {selection.halves(a.capture)}"
        )
    if a.selection.interval == b.selection.interval:
        return
    (a_first, a_last), (b_first, b_last) = (
        selection.span(side.capture, side.selection) for side in (a, b)
    )
    if a_first < b_last and b_first < a_last:
        raise UsageError(
            "the intervals of --a and --b overlap: what is in both cannot differ. Give two that "
            f"follow each other, such as {selection.halves(a.capture)}"
        )


def _results(
    args: argparse.Namespace, one: "Capture | Result", other: "Capture | Result"
) -> "Comparison":
    from ..comparing import results
    from ..lab.core.valid_runs import counted
    from ..lab.sync import result as sync_result
    from ..model.capture import Capture
    from ..model.lab_result import TableResult

    a, b = args.a_file, args.b_file or args.a_file
    if isinstance(one, Capture) or isinstance(other, Capture):
        which = b if isinstance(one, Capture) else a
        raise UsageError(
            f"{which} is the result of a lab experiment, and the other a capture: name two "
            "captures, or two results of one experiment"
        )
    if one.experiment != other.experiment:
        raise UsageError(
            f"{a} is of the experiment {one.experiment}, {b} of {other.experiment}: name two "
            "results of one experiment"
        )
    if args.a or args.b or args.fail_if:
        option = "--fail-if" if args.fail_if else "--a" if args.a else "--b"
        raise UsageError(f"{option} is for captures, and {a} is a lab result: leave it out")
    if one == other:
        raise UsageError(f"{a} and {b} are the same result: nothing can differ. Name another")
    margin = 1 + args.margin / 100
    if isinstance(one, sync_result.SyncResult) and isinstance(other, sync_result.SyncResult):
        phases = one.cells, other.cells
        found = results.compare(one, other, phases, sync_result.called, margin)
        what, option = "servers", "--server"
        names = [{server.name for server in each.options.servers} for each in (one, other)]
    else:
        assert isinstance(one, TableResult) and isinstance(other, TableResult)
        runs = counted(one), counted(other)
        found = results.compare(one, other, runs, results.query_called, margin)
        what, option = "storages", "--storage"
        names = [{storage.name for storage in each.storages} for each in (one, other)]
    if not found.findings:
        listed = " and ".join(", ".join(sorted(each)) for each in names)
        raise UsageError(
            f"{a} and {b} have nothing in common: {what} {listed}. Measure both with the same "
            f"{option} names"
        )
    return found


COMMAND = CompareCommand()
