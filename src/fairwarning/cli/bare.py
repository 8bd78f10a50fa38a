"""The program in a bare install, which has only the agent and needs only the standard library."""

import sys
from collections.abc import Sequence

import fairwarning
from fairwarning.cli.command_list import SUMMARIES

_HELP = f"""\
Usage: fairwarning [OPTIONS] COMMAND [ARGS]...

  Scheduled Events for any fleet.

Options:
  --version  Show the version and exit.
  --help     Show this message and exit.

Commands:
  agent  {SUMMARIES["agent"]}

The other commands need the server: pip install 'fairwarning[server]'
  {", ".join(name for name in SUMMARIES if name != "agent")}
"""


def main(words: Sequence[str]) -> None:
    """Print the help or the version, or exit with an error that says what to install."""
    match words:
        case ["--version", *_]:
            sys.stdout.write(f"fairwarning, version {fairwarning.__version__}\n")
        case ["--help", *_]:
            sys.stdout.write(_HELP)
        case []:
            _fail(_HELP)
        case [name, *_] if name in SUMMARIES:
            sys.exit(f"`fairwarning {name}` needs the server: pip install 'fairwarning[server]'")
        case [name, *_]:
            _fail(f"Error: No such command {name!r}. Try 'fairwarning --help'.\n")


def _fail(text: str) -> None:
    sys.stderr.write(text)
    sys.exit(2)
