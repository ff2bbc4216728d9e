"""What to install, by the pip of the interpreter that runs: the lines work as printed."""

import os
import shlex
import sys
import sysconfig


def with_pip(*words: str) -> str:
    """How to type a command of pip for the environment that pgtrace runs from."""
    return shlex.join([*sudo_to_install(), sys.executable, "-m", "pip", *words])


def sudo_to_install() -> list[str]:
    """sudo, unless this user may write to the environment that pgtrace runs from."""
    return [] if os.access(sysconfig.get_path("purelib"), os.W_OK) else ["sudo"]


def without_psycopg(error: ImportError) -> str:
    """What to say where it cannot be imported: it is missing, or finds no libpq."""
    why = str(error).partition("\n")[0]
    return f"psycopg cannot be imported ({why}): {with_pip('install', 'psycopg[binary]>=3.2')}"
