"""Which signals are one wish to end, and which a second."""

import sys

import pytest

from pgtrace_command import run

SESSION = """
import os, signal, sys
from types import SimpleNamespace
from pgtrace import interrupts
from pgtrace.lab.core.interruption import Interruption
from pgtrace.tracing.run_loop import Stopper

now = 100.0
interrupts.time = SimpleNamespace(monotonic=lambda: now)
kind, *words = sys.argv[1:]
if kind == "lab":
    session = Interruption()
else:
    session = Stopper(keeps=kind == "keeps")
    session.hurry = lambda: print("hurry", flush=True)
    session.start()
for word in words:
    if word.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[word])
    else:
        now += float(word)
print("asked" if session.asked else "goes on", flush=True)
session.restore()
"""
"""One that gets these signals; seconds between them pass at once."""


@pytest.mark.parametrize(
    ("kind", "words", "said", "code"),
    [
        ("keeps", "SIGHUP .002 SIGHUP .002 SIGHUP .002 SIGHUP", "asked", 0),
        ("keeps", "SIGTERM SIGHUP .02 SIGTERM SIGHUP", "asked", 0),
        ("keeps", "SIGTERM 1.1 SIGTERM", "hurry asked", 0),
        ("keeps", "SIGTERM .6 SIGTERM .6 SIGTERM", "hurry asked", 0),
        ("keeps", "SIGINT SIGINT", "hurry asked", 0),
        ("keeps", "SIGINT SIGTERM", "hurry asked", 0),
        ("keeps", "SIGTERM SIGINT", "hurry asked", 0),
        ("keeps", "SIGINT 9 SIGHUP SIGHUP .02 SIGHUP SIGHUP", "hurry asked", 0),
        ("keeps", "SIGHUP SIGINT .02 SIGHUP", "hurry asked", 0),
        ("keeps", "SIGHUP SIGHUP 9 SIGHUP SIGHUP 9 SIGHUP", "hurry", -1),
        ("keeps", "SIGINT SIGINT SIGTERM", "hurry", -15),
        ("keeps", "SIGTERM SIGINT SIGINT", "hurry", -2),
        ("leaves", "SIGHUP .002 SIGHUP SIGTERM .002 SIGHUP", "asked", 0),
        ("leaves", "SIGHUP 1.1 SIGTERM", "", -15),
        ("leaves", "SIGHUP SIGINT", "", -2),
        ("leaves", "SIGINT SIGTERM", "", -15),
        ("lab", "SIGHUP .002 SIGHUP SIGTERM .002 SIGHUP", "asked", 0),
        ("lab", "SIGTERM 1.1 SIGTERM", "", -15),
        ("lab", "SIGTERM SIGINT", "", -2),
        ("lab", "SIGINT SIGHUP", "", -1),
    ],
)
def test_what_nobody_types_is_one_wish_within_a_second(
    kind: str, words: str, said: str, code: int
) -> None:
    """A connection that breaks sends SIGHUP up to four times, the end of a session SIGTERM and
    SIGHUP; who types Ctrl-C twice, or sends SIGTERM again later, wants something else."""
    ended = run(kind, *words.split(), command=(sys.executable, "-c", SESSION))
    assert (ended.out.split(), ended.code, ended.err) == (said.split(), code, "")
