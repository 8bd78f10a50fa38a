"""The names and summaries of all commands, and what they say where they cannot run.

That is where the server is not installed, or where Python is too old for it. This module needs only
the standard library.
"""

import sys
from collections.abc import Sequence

import fairwarning

COMMANDS = {
    "Fleet commands": {
        "up": "Run the service.",
        "status": "Show the service, its fleet, what is due and what is wrong.",
        "machine": "Manage machines and trigger events on them.",
        "set": "Manage scale sets.",
        "event": "List, approve, cancel, explain and watch events.",
        "operation": "Show the progress of an operation.",
        "rollout": "Roll out host updates, one update domain at a time.",
        "clock": "Show the service's clock; control a virtual clock.",
        "webhook": "Manage webhooks.",
        "journal": "List who did what, when and why.",
    },
    "Handler commands": {
        "agent": "Run hooks inside a machine and approve events.",
        "exec": "Run a program as if it were inside a machine.",
        "certify": "Test an event handler against common failure cases.",
        "scenario": "Run scripted event scenarios and check the outcome.",
        "fault": "Inject faults into the metadata endpoint.",
    },
    "Other commands": {
        "az": "Run the Azure CLI against the service.",
        "context": "Give names to services, and choose the one to use.",
        "token": "Create, list and revoke tokens.",
        "bug": "List and release what is set aside because of a bug.",
        "healthcheck": "Check whether the service is ready.",
        "completion": "Print a shell completion script.",
        "version": "Print the version of this program.",
    },
}
"""Each name is a module in this package with a `command`; the summaries are those of --help."""

SUMMARIES = {name: summary for group in COMMANDS.values() for name, summary in group.items()}

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


def run_bare(words: Sequence[str]) -> None:
    """Run the program where it has only the agent: other commands say what to install."""
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
