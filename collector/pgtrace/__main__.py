"""The command line: finds the command, runs it, and prints what went wrong, in one place."""

import _signal  # type: ignore[import-not-found] # as signal, which takes longer to import
import os
import sys

INTERRUPTED = 130
IS_PROGRAM = __name__ == "__main__" or sys.argv[0].rpartition("/")[2] == "pgtrace"
if IS_PROGRAM and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # While modules are imported there is nothing to clean up, and no place to catch it
    _signal.signal(_signal.SIGINT, lambda *_: os._exit(INTERRUPTED))

# ruff: noqa: E402
import argparse
import contextlib
import errno
import io
import itertools
import resource
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from . import __version__, commands, interrupts
from .errors import LeftError, NothingCapturedError, PgtraceError, UsageError

DESCRIPTION = """\
Shows every read that a PostgreSQL query caused, how long it took, and where it
was served."""
_WIDTH = 80
UNEXPECTED = 1
MOST_FILES = 4096
"""Open files that a capture of the largest server needs: a pidfd for each backend, and probes."""


class _Parser(argparse.ArgumentParser):
    """Option names are whole; errors are UsageError. --version, -v and -q are everywhere."""

    given: Sequence[str] = ()
    """What is parsed."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("allow_abbrev", False)
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings)
        self.add_argument("--version", action="version", version=f"pgtrace {__version__}")
        # No defaults: what was said before the command must not be unsaid after it.
        for short, name, text in (
            (
                "-v",
                "--verbose",
                "say more: libbpf's words; of an unexpected error, the traceback",
            ),
            ("-q", "--quiet", "say nothing but data and errors"),
        ):
            self.add_argument(
                short, name, action="store_true", default=argparse.SUPPRESS, help=text
            )

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Refuse what is empty, such as a variable that a script has not set: it is no option left
        out. Of --dsn it says that libpq's environment does; what is parsed says itself what it
        may be."""
        takes_any = action.type is None or isinstance(action.type, type)  # such as Path
        is_parsed = not takes_any or action.dest in ("a", "b", "fail_if")
        if not arg_string and action.dest != "dsn" and not is_parsed:
            raise argparse.ArgumentError(action, "it is empty: give a value, or leave it out")
        return super()._get_value(action, arg_string)

    def error(self, message: str) -> NoReturn:
        """What an unknown option's value was taken for says less than that it is unknown."""
        if not message.startswith(("argument -", "unrecognized")) and (unknown := self._unknown()):
            message = f"unrecognized arguments: {' '.join(unknown)}"
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Of newer Pythons (3.11.7), argparse keeps to itself that it could not be written."""
        if message:
            (file or sys.stderr).write(message)

    def _unknown(self) -> list[str]:
        known = {name for action in self._actions for name in action.option_strings}
        words = itertools.takewhile(lambda word: word != "--", self.given)
        return [
            word
            for word in words
            if word[:1] == "-" and word[1:2] and not (word[1].isdecimal() or " " in word)
            if word.partition("=")[0] not in known and (word[1] == "-" or word[:2] not in known)
        ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run pgtrace with `argv`, by default the process's, and return its exit code."""
    args = argparse.Namespace(verbose=False, quiet=False)
    code = 0
    try:
        if IS_PROGRAM:
            _prepare_program()
        _prepare_output()
        code = _run(list(sys.argv[1:] if argv is None else argv), args)
        if sys.stdout:
            sys.stdout.flush()
    except PgtraceError as error:
        few = os.strerror(errno.EMFILE)
        _say(f"{error}. {few}: {_REASONS[errno.EMFILE]}" if few in str(error) else str(error))
        code = error.exit_code
    except BrokenPipeError:
        pass  # the reader has seen enough, as in `pgtrace report F | head`: the code is as before
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        code = UNEXPECTED
        if _is_interrupt(error):
            code = INTERRUPTED
        elif isinstance(error, OSError) and error.errno in _REASONS:
            _say(f"{error.strerror}: {_REASONS[error.errno]}")
        elif args.verbose:
            import traceback

            _say(traceback.format_exc())
        else:
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            _say(f"unexpected error: {told} (run again with -v for the traceback)")
    _abandon_output()
    if IS_PROGRAM and signal.getsignal(signal.SIGINT) is interrupts.handle:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said: only Python's own end is left
    return code


_REASONS = {
    errno.EMFILE: "`ulimit -n` is too low, and may not be raised by pgtrace: `ulimit -n 1024`",
    errno.ENOSPC: "make room where the output goes, or name another place",
}


def _prepare_program() -> None:
    """What a library must not do to who imports it."""
    sys.unraisablehook = _unraisable
    interrupts.is_program = True
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupts.handle)
    # Ignored by who started us, nobody could be waited for
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _unraisable(told: Any) -> None:
    """Ctrl-C where Python can raise nothing, as in a callback while it imports."""
    if type(told.exc_value) is KeyboardInterrupt:
        os._exit(INTERRUPTED)
    if not isinstance(told.exc_value, (KeyboardInterrupt, PgtraceError)):
        sys.__unraisablehook__(told)


def _is_interrupt(error: BaseException) -> bool:
    """Whether it comes of Ctrl-C, as where Python turns that into another error."""
    cause: BaseException | None = error
    for _ in range(20):
        if cause is None:
            break
        if isinstance(cause, (KeyboardInterrupt, NothingCapturedError, LeftError)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _run(argv: list[str], args: argparse.Namespace) -> int:
    top = _Parser(
        prog="pgtrace",
        usage="pgtrace COMMAND [options]",
        description=DESCRIPTION,
        epilog=_listed("commands", commands.TABLE, "pgtrace COMMAND"),
    )
    try:
        at = _first_word(argv)
        top.parse_args(argv[:at], args)
        if at == len(argv):
            top.print_help()
            return 0
        found, prog, rest = commands.load(argv[at]), f"pgtrace {argv[at]}", argv[at + 1 :]
        if isinstance(found, commands.Group):
            at, group = _first_word(rest), _parser(found, prog)
            group.parse_args(rest[:at], args)
            if at == len(rest):
                group.print_help()
                return 0
            found, prog, rest = found.load(rest[at]), f"{prog} {rest[at]}", rest[at + 1 :]
        parser = _parser(found, prog)
        found.prepare_parser(parser)
        parser.given = rest
        parser.parse_args(rest, args)
    except SystemExit as error:  # --help and --version
        if sys.stdout:
            sys.stdout.flush()
        return error.code if isinstance(error.code, int) else 0
    _check_stdout(args, prog)
    return found.run(args)


def _check_stdout(args: argparse.Namespace, prog: str) -> None:
    """Raise UsageError if nobody is there to get what will be printed, rather than after hours."""
    if sys.stdout is not None or (getattr(args, "output", None) and not getattr(args, "json", 0)):
        return
    with_o, where = hasattr(args, "output") and not args.output, f"`{prog} … > FILE`"
    raise UsageError(f"stdout is closed: {'name a file with -o FILE' if with_o else where}")


def _first_word(argv: Sequence[str]) -> int:
    """Where the first is that is no option."""
    return next((i for i, word in enumerate(argv) if not word.startswith("-")), len(argv))


def _parser(found: commands.Command | commands.Group, prog: str) -> _Parser:
    import inspect
    import textwrap

    paragraphs = (inspect.getdoc(found) or "").split("\n\n")
    about = "\n\n".join(textwrap.fill(" ".join(one.split()), _WIDTH) for one in paragraphs)
    below = ["examples:", *(f"  {line}" for line in found.examples)]
    if isinstance(found, commands.Group):
        below = [_listed("experiments", found.subcommands, f"{prog} EXPERIMENT"), "", *below]
    return _Parser(prog=prog, description=about, epilog="\n".join(below))


def _listed(what: str, table: Mapping[str, tuple[str, str]], line: str) -> str:
    width = max(map(len, table))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in table.items()]
    return "\n".join([f"{what}:", *lines, "", f"`{line} --help` says more."])


def _prepare_output() -> None:
    """Let files be UTF-8, whatever the locale; a terminal shows ? for what it lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="replace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")


def _abandon_output() -> None:
    """Lest Python say at its exit, in other words or by 120, that something was not written."""
    for stream in sys.stdout, sys.stderr:
        try:
            if stream:
                stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(message: str) -> None:
    from .stderr import say
    from .terminal_text import escape

    say(f"pgtrace: {escape(message.rstrip(), lines=True)}")


if __name__ == "__main__":
    sys.exit(main())
