"""The standard streams of the command line: what happens if one is closed, full or not UTF-8.

It imports nothing that a bare install or an old Python lacks.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def run(program: Callable[[], None]) -> None:
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
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    with open(os.devnull, "w") as nothing:  # noqa: PTH123  (a device)
        os.dup2(nothing.fileno(), 1)  # Python writes what is left when it ends
    reason = f"the output could not be written: {error.strerror}"
    return "" if error.errno == errno.EPIPE else reason
