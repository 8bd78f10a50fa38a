"""What separates a program from the host: Linux namespaces, or nothing where there are none (O12).

Without them the program is an ordinary child process, and its environment says where its endpoint
is (`loopback.py`).
"""

import os
import socket
import sys
from dataclasses import dataclass
from typing import NoReturn

from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.machines.process import namespace

AUTO, NAMESPACES, NONE = "auto", "namespaces", "none"  # what a user can choose
_INSTEAD = "as a child process with http_proxy and FAIRWARNING_ENDPOINT set"
_NOT_SHOWN = (
    "it has this host's name, network and ports; a program that uses neither variable talks to the"
    " real 169.254.169.254"
)
_REASON_BYTES = 200
_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True)
class Isolation:
    """Whether a program runs in namespaces."""

    reason: str = ""  # why it does not

    @property
    def namespaces(self) -> bool:
        """Whether the program runs in namespaces."""
        return not self.reason

    def __str__(self) -> str:
        return NAMESPACES if self.namespaces else NONE

    def notice(self, who: str) -> list[str]:
        """Return what a user has to know at once, in lines; nothing if there are namespaces."""
        if self.namespaces:
            return []
        return [f"{who} runs without namespaces ({self.reason}), {_INSTEAD}", _NOT_SHOWN]


def choose(wanted: str) -> Isolation:
    """Return the isolation that a user wants; by `AUTO`, namespaces if the system allows them.

    Raises Refused on a system that cannot run programs as machines in this way.
    """
    if not hasattr(os, "fork") or not hasattr(socket, "AF_UNIX"):
        text = "this system has neither fork nor Unix sockets; use Linux, macOS or Windows with WSL"
        raise Refused("NotSupported", text)
    if wanted == NONE:
        return Isolation("--isolation none")
    if wanted == NAMESPACES and not _LINUX:
        raise Refused("NotSupported", "only Linux has namespaces; use --isolation none")
    return Isolation(_refusal() if wanted == AUTO else "")


def _refusal() -> str:
    """Return why this system does not let the user create namespaces; empty if it does.

    A child process tries it, because a process that fails is half set up.
    """
    if not _LINUX:
        return "only Linux has them"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _try_namespaces(writer)
    os.close(writer)
    with open(reader, "rb") as answer:  # noqa: PTH123  (a descriptor)
        reason = answer.read(_REASON_BYTES).decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return reason or ("the process that tried was ended" if status else "")


def _try_namespaces(writer: int) -> NoReturn:
    code = 1
    try:
        namespace.create()
        namespace.bind_endpoint().close()
        code = 0
    except FairwarningError as error:
        os.write(writer, os.fsencode(_short(error)))
    finally:
        os._exit(code)


def _short(error: FairwarningError) -> str:
    """Return why the system refused, without what an administrator can do."""
    cause = error.__cause__
    return namespace.reason(cause) if isinstance(cause, OSError) else error.message
