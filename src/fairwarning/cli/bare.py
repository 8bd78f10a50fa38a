"""The program where the server is not installed, or where Python is too old for it.

It has only the agent, and needs only the standard library.
"""

import sys
from collections.abc import Sequence

import fairwarning
from fairwarning.cli.command_list import SUMMARIES

_HELP = """\
Usage: fairwarning [OPTIONS] COMMAND [ARGS]...

  Scheduled Events for any fleet.

Options:
  --version  Show the version and exit.
  --help     Show this message and exit.

Commands:
  agent  {agent}

The other commands need {needed}
  {others}
"""


def main(words: Sequence[str]) -> None:
    """Print the help or the version, or exit with an error that says what to install."""
    name = words[0] if words else ""
    if name == "--version":
        sys.stdout.write(f"fairwarning, version {fairwarning.__version__}\n")
    elif name == "--help":
        sys.stdout.write(_help())
    elif not name:
        _fail(_help())
    elif name in SUMMARIES:
        sys.exit(f"`fairwarning {name}` needs {_needed()}")
    else:
        _fail(f"Error: No such command {name!r}. Try 'fairwarning --help'.\n")


def _help() -> str:
    others = ", ".join(name for name in SUMMARIES if name != "agent")
    return _HELP.format(agent=SUMMARIES["agent"], needed=_needed(), others=others)


def _needed() -> str:
    if sys.version_info < (3, 11):
        version = ".".join(map(str, sys.version_info[:3]))
        return f"Python 3.11 or newer; this is Python {version}"
    return "the server: pip install 'fairwarning[server]'"


def _fail(text: str) -> None:
    sys.stderr.write(text)
    sys.exit(2)
