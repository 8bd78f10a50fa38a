"""Check that what hooks and notifications use is there: programs, servers, Python functions."""

from __future__ import annotations

import inspect
import os
import shutil
import socket
from importlib import import_module
from pathlib import Path

from fairwarning.guest.agent import system
from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.agent.connections import connect
from fairwarning.guest.agent.notify import os_error_text

CONNECT_SECONDS = 5.0
_HEAD_BYTES = 256  # of a program, to find its interpreter


class CheckFailed(Exception):
    """A check failed: the problem and the next step."""

    def __init__(self, problem: str, next_step: str) -> None:
        super().__init__(problem)
        self.next_step = next_step


def check_hook(hook: HookSettings) -> None:
    """Check that a hook's program, server or function is there."""
    if hook.kind is HookKind.COMMAND:
        _check_program(hook.command[0])
    elif hook.kind is HookKind.URL:
        check_url(hook.url)
    else:
        _check_function(hook.call)


def check_not_writable(path: Path) -> None:
    """Check that not every user can change what the agent runs, often as root."""
    if (place := system.find_writable(path)) is not None:
        raise CheckFailed(f"every user can write {place}", f"chmod o-w {place}")


def _check_program(name: str) -> None:
    path = _find_program(name)
    if os.name != "posix":
        return
    check_not_writable(path)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return  # executable, though not readable
    if head.startswith(b"#!"):
        _check_interpreter(path, head)
    elif b"\0" not in head and head.isascii():
        step = "add a first line such as #!/bin/sh, or name the interpreter in `command`"
        raise CheckFailed(f"{path} is a script without a #! line", step)


def _find_program(name: str) -> Path:
    """Find a program as the agent does: a name without a folder in PATH."""
    if Path(name).name == name:
        program = shutil.which(name)
        if program is None:
            problem = f"no program {name} in PATH ({os.environ.get('PATH', '')})"
            raise CheckFailed(problem, "install it, or name it with its folder")
        return Path(program)
    path = Path(name)
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise CheckFailed(f"{name} {problem}", "install it, or correct the path")
    if not os.access(path, os.X_OK):
        raise CheckFailed(f"{name} is not executable", f"chmod +x {name}")
    return path


def _check_interpreter(path: Path, head: bytes) -> None:
    words = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split(" ")
    words = [word for word in words if word.strip(" \t")]
    interpreter = words[0] if words else ""
    if not interpreter or not os.access(interpreter, os.X_OK):
        step = "install the interpreter, or correct the first line (it must not end with CR LF)"
        raise CheckFailed(f"{path} needs {interpreter!r}, which does not exist", step)
    if Path(interpreter).name == "env":
        programs = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if programs and shutil.which(programs[0]) is None:
            problem = f"{path} needs {programs[0]!r}, which is not in PATH"
            raise CheckFailed(problem, "install it, or correct the first line")


def check_url(url: str) -> str:
    """Resolve, connect, and verify the certificate of an https URL; return the address."""
    connection = connect(url, CONNECT_SECONDS)
    address = f"{connection.host}:{connection.port}"
    try:
        connection.connect()
    except socket.gaierror as error:
        step = "correct the host name, or see that DNS works on this machine"
        problem = f"{connection.host} cannot be resolved: {os_error_text(error)}"
        raise CheckFailed(problem, step) from None
    except (OSError, ValueError) as error:  # also of the encoding of names
        reason = os_error_text(error) if isinstance(error, OSError) else str(error)
        problem = f"cannot connect to {address}: {reason}"
        raise CheckFailed(problem, "see that the server runs and can be reached") from None
    finally:
        connection.close()
    return address


def _check_function(call: str) -> None:
    module, _, name = call.partition(":")
    try:
        function = getattr(import_module(module), name)
    except BaseException as error:  # noqa: BLE001  (a module may raise anything, even SystemExit)
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        raise CheckFailed(problem, "set PYTHONPATH, or install what the module needs") from None
    if not callable(function):
        raise CheckFailed("is not a function", "name one as module:function")
    if inspect.iscoroutinefunction(function):
        raise CheckFailed("is an async function", "use a synchronous one")
