"""Commands that error texts and output suggest, written so that the reader can paste them."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from fairwarning.server import contexts, variables

DATA = ".fairwarning"  # the data folder of commands that name no service


def command_line(folder: Path, command: str, *words: str) -> str:
    """Return a command on the service of this data folder, quoted for a shell.

    `command` is the command with its options, such as "rollout status --watch".
    """
    elsewhere = os.environ.get(variables.URL) or os.environ.get(variables.CONTEXT)
    if not os.environ.get(variables.DATA):
        elsewhere = elsewhere or contexts.current_name()
    is_default = folder == default_folder() and not elsewhere
    return with_options([] if is_default else ["--data", str(folder)], command, *words)


def with_options(options: Sequence[str], command: str, *words: str) -> str:
    """Return a command with options that name a service, quoted for a shell."""
    if words and words[0].startswith("-"):  # a name, not an option
        words = ("--", *(word for word in words if word != "--"))
    return " ".join([program(), command, *map(shlex.quote, [*options, *words])])


def start_hint(folder: Path) -> str:
    """Return how to start a service in this data folder."""
    options = [] if folder == default_folder() else ["--data", str(folder)]
    return f"start one with `{with_options(options, 'up')}`"


def default_folder() -> Path:
    """Return the folder of FAIRWARNING_DATA; with a database, that of `up` without --run."""
    named = os.environ.get(variables.DATA, "")
    return Path(DATA if not named or variables.is_database(named) else named)


def program() -> str:
    """Return the shell command that runs this program."""
    path = Path(sys.argv[0])
    if len(path.parts) == 1 or shutil.which("fairwarning"):
        return "fairwarning"
    if path.name == "__main__.py":  # python -m fairwarning
        return f"{shlex.quote(sys.executable)} -m fairwarning"
    inside = Path(os.path.relpath(path))
    if inside.parts[0] == os.pardir:
        return shlex.quote(str(path.absolute()))
    return shlex.quote(str(inside) if len(inside.parts) > 1 else f"./{inside}")
