"""`fairwarning-agent ...`: the agent as a program of its own, in one file or a system package.

`deploy/agent` builds both.
"""

from __future__ import annotations

import sys

import fairwarning
from fairwarning.cli import agent
from fairwarning.cli.output import streams

_NAME = "fairwarning-agent"


def main() -> None:
    """Run the agent's command line."""
    streams.run(_main)


def _main() -> None:
    words = sys.argv[1:]
    if words == ["--version"]:
        sys.stdout.write(f"{_NAME}, version {fairwarning.__version__}\n")
    else:
        agent.main(words, program=_NAME)
