"""pgtrace attach: one backend, live."""

import argparse

from ..errors import UsageError
from . import find_target, notes, session, tracing_options


class AttachCommand:
    """Show each query of one backend as it ends: its reads, how long they took, from where.

    A query that already runs is shown at once. Ctrl-C detaches and sums up.
    """

    examples = (
        "sudo pgtrace attach 4711",
        "sudo pgtrace attach -p 4711 --operations read,write,fsync",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        tracing_options.add_arguments(parser)
        output = tracing_options.output_group(parser)
        output.add_argument(
            "--every",
            type=tracing_options.seconds,
            metavar="S",
            help="look at a query that runs every S seconds (5; on a terminal, in place, 1)",
        )
        output.add_argument(
            "--per-query",
            action="store_true",
            help="print each query, even if there are many in a second",
        )
        output.add_argument("--json", action="store_true", help="print each query as a JSON line")
        output.add_argument(
            "--literals", action="store_true", help="with --json: keep the literals of queries"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Trace until the end of something, drawing as it comes."""
        from ..tracing import run_loop
        from . import json_lines, live_screen

        if args.literals and not args.json:
            raise UsageError("--literals is for --json: the screen shows texts as they are")
        if args.json and (args.every or args.per_query):
            option = "--every" if args.every else "--per-query"
            raise UsageError(f"{option} is for the screen: --json prints each query as it ends")
        if args.per_query and args.queries not in (None, "full"):
            raise UsageError(
                f"--per-query: with --queries {args.queries} nothing tells when a query ends; type "
                "--queries full, or leave --queries out"
            )
        with session.attached(
            args, find_target.find_one, literals=args.literals or not args.json, per_query=True
        ) as parts:
            tracer, watched, stopper = parts
            screen: live_screen.Screen
            if args.json:
                screen = json_lines.JsonLines(tracer, literals=args.literals)
            else:
                screen = live_screen.TextScreen(tracer, args.every, per_query=args.per_query)

            watch = notes.watch(args, tracer, screen.make_room)

            def tick() -> None:
                screen.tick()
                watch()
                notes.say_failures(args, tracer.failures, screen.make_room)

            screen.begin()
            reason = run_loop.run(stopper, watched, args.duration, tick, tracer.failures)
            taken = tracer.stop()
            notes.say_failures(args, tracer.failures, screen.make_room)
            screen.end(reason)
        session.check_complete(args, taken)
        return 0


COMMAND = AttachCommand()
