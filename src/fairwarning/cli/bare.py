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
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
  agent    {agent}
  version  {version}

The other commands need {needed}
  {others}
"""


def main(words: Sequence[str]) -> None:
    """Print the help or the version, or exit with an error that says what to install."""
    name = words[0] if words else ""
    if name in {"--version", "version"}:
        sys.stdout.write(f"fairwarning, version {fairwarning.__version__}\n")
    elif name in {"--help", "-h"}:
        sys.stdout.write(_help())
    elif not name:
        _fail(_help())
    elif name in SUMMARIES:
        sys.exit(f"`fairwarning {name}` needs {_needed()}")
    else:
        _fail(f"Error: No such command {name!r}. Try 'fairwarning --help'.\n")


def _help() -> str:
    own = {name: SUMMARIES[name] for name in ("agent", "version")}
    others = ", ".join(name for name in SUMMARIES if name not in own)
    return _HELP.format(**own, needed=_needed(), others=others)


def _needed() -> str:
    if sys.version_info < (3, 11):
        version = ".".join(map(str, sys.version_info[:3]))
        return f"Python 3.11 or newer; this is Python {version}"
    return "the server: pip install 'fairwarning[server]'"


def _fail(text: str) -> None:
    sys.stderr.write(text)
    sys.exit(2)
