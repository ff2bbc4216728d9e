"""pgtrace attach: one backend, live."""

import argparse

from . import tracing


class AttachCommand:
    """Show each query of one backend as it ends: its reads, how long they took, from where.

    A query that already runs is shown at once. Ctrl-C detaches and sums up.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        tracing.add_arguments(parser)
        parser.add_argument(
            "--every",
            type=tracing.seconds,
            default=5.0,
            metavar="S",
            help="seconds between two looks at the running query (5)",
        )
        parser.add_argument(
            "--per-query", action="store_true", help="print each query, however many there are"
        )
        parser.add_argument("--json", action="store_true", help="print each query as a JSON line")
        parser.add_argument(
            "--literals", action="store_true", help="with --json: keep the literals of queries"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Trace until the end of something, drawing as it comes."""
        from .. import live, session

        with tracing.attached(
            args, tracing.find_one, literals=args.literals or not args.json, per_query=True
        ) as parts:
            tracer, watched, stopper = parts
            screen: live.Screen
            if args.json:
                screen = live.JsonLines(tracer, literals=args.literals)
            else:
                screen = live.TextScreen(tracer, args.every, per_query=args.per_query)

            watch = tracing.watch(args, tracer)

            def tick() -> None:
                screen.tick()
                watch()
                tracing.say_failures(args, tracer.failures)

            screen.begin()
            reason = session.run(stopper, watched, args.duration, tick, tracer.failures)
            taken = tracer.stop()
            tracing.say_failures(args, tracer.failures)
            screen.end(reason)
        tracing.check_complete(args, taken)
        return 0


COMMAND = AttachCommand()
