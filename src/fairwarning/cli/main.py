"""The entry points: `fairwarning COMMAND ...`, and the agent as a program of its own.

Both report a standard stream that is closed, full or not UTF-8 as a sentence. This module imports
nothing that a bare install or an old Python lacks.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

import fairwarning

if TYPE_CHECKING:
    from collections.abc import Callable

_AGENT = "fairwarning-agent"
_INTERRUPTED = 130  # exit code, as shells show the end by SIGINT


def main() -> None:
    """Run the command line."""
    _run(_main)


def agent_main() -> None:
    """Run `fairwarning-agent ...`, which is one file or a system package: see `deploy/agent`."""
    _run(_agent_main)


def _main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["agent"]:  # part of a bare install, which has no click
        import_module("fairwarning.cli.agent").main(words[1:])
        return
    if sys.version_info < (3, 11):  # too old for everything else
        import_module("fairwarning.cli.command_list").run_bare(words)
        return
    if words[:1] == ["up"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # end without a traceback, as by SIGTERM
    try:
        program = import_module("fairwarning.cli.commands").program
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        import_module("fairwarning.cli.command_list").run_bare(words)
    else:
        program(prog_name="fairwarning")


def _agent_main() -> None:
    from fairwarning.cli import agent  # noqa: PLC0415  (other commands need none)

    words = sys.argv[1:]
    if words == ["--version"]:
        sys.stdout.write(f"{_AGENT}, version {fairwarning.__version__}\n")
    else:
        agent.main(words, program=_AGENT)


# --- The standard streams -------------------------------------------------------------------------


def _run(program: Callable[[], None]) -> None:
    """Run the program; report a stream that fails as a sentence, never as a traceback."""
    _prepare()
    try:
        try:
            program()
        finally:
            sys.stdout.flush()  # what fails only when Python ends would be a traceback
    except (OSError, UnicodeError) as error:
        text = _sentence(error)
        if text:
            with suppress(OSError):
                sys.stderr.write(f"Error: {text}\n")
        sys.exit(1)
    except KeyboardInterrupt:  # while it is imported: commands handle it themselves
        sys.exit(_INTERRUPTED)


def _prepare() -> None:
    """Open what is closed, and escape characters that the encoding of a terminal lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # in this order each gets its own descriptor, 0 to 2
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  (a device)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _sentence(error: OSError | UnicodeError) -> str:
    """Return what to report, or nothing if the reader of a pipe has ended."""
    if isinstance(error, UnicodeError):
        shown = ascii(getattr(error, "object", "")[:60])
        return f"an argument, a variable or a file is not valid UTF-8 ({shown}); correct it"
    if error.errno in {errno.EMFILE, errno.ENFILE}:  # no write fails so
        return "too many open files; raise the limit (ulimit -n)"
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    with open(os.devnull, "w") as nothing:  # noqa: PTH123  (a device)
        os.dup2(nothing.fileno(), 1)  # Python writes what is left when it ends
    reason = f"the output could not be written: {error.strerror}"
    return "" if error.errno == errno.EPIPE else reason
