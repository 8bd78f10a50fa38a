"""Commands that error texts and output suggest, written so that the reader can paste them."""

import os
import shlex
import shutil
import sys
from pathlib import Path

DATA = ".fairwarning"  # the data folder of commands without --data


def command_line(folder: Path, command: str, *words: str) -> str:
    """Return a command on the service of this data folder, quoted for a shell.

    `command` is the command with its options, such as "rollout status --watch".
    """
    where = [] if folder == Path(DATA) else ["--data", str(folder)]
    if words and words[0].startswith("-"):  # a name, not an option
        words = ("--", *(word for word in words if word != "--"))
    return " ".join([program(), command, *map(shlex.quote, [*where, *words])])


def start_hint(folder: Path) -> str:
    """Return how to start a service in this data folder."""
    return f"start one with `{command_line(folder, 'up')}`"


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
