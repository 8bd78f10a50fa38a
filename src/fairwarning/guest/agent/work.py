"""The work of a hook: run a program, send an HTTP request, or call a Python function.

`hooks` runs it and enforces its deadline.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeVar

from fairwarning.guest.agent import system
from fairwarning.guest.agent.actions import RunHook
from fairwarning.guest.agent.config import HookKind
from fairwarning.guest.agent.hook_output import KEPT_BYTES
from fairwarning.guest.agent.hook_processes import (
    EVENT_VARIABLE,
    GRACE_SECONDS,
    KILLED_SECONDS,
    HookProcesses,
)
from fairwarning.guest.events import date_text, to_json

_CHUNK_BYTES = 64 * 1024  # the capacity of a pipe
_VARIABLE_CHARACTERS = 30_000  # Windows allows 32,767 and Linux four times that; stdin has it all
_REASON_CHARACTERS = 300

T = TypeVar("T")


class HookWork(Protocol):
    """The work of a hook."""

    grace_seconds: float
    """Between `terminate` and `kill`."""
    killed_seconds: float
    """How long to wait for `run` to return after `kill`."""

    def run(self) -> str:
        """Do the work, in its own thread; return the failure or an empty string."""

    def output(self) -> str:
        """Return the output so far."""

    def terminate(self) -> None:
        """Ask the work to end."""

    def kill(self) -> None:
        """End the work by force."""


# --- Programs -------------------------------------------------------------------------------------


class _Command:
    """A program. It is done when it exits; remaining processes of its group are killed.

    The agent keeps both ends of the pipes open. A process that inherited a pipe and lives on cannot
    block the agent, which drains stdin and ends the output by itself.
    """

    grace_seconds = GRACE_SECONDS
    killed_seconds = KILLED_SECONDS

    def __init__(self, run: RunHook, machine: str, processes: HookProcesses) -> None:
        self._run = run
        self._processes = processes
        self._command = run.hook.command
        self._body = _body(run, machine)
        self._environment = {**os.environ, **environment(run, machine)}
        self._output = bytearray()
        self._starting = threading.Lock()
        self._group: system.ProcessGroup | None = None
        self._cancelled = False

    def run(self) -> str:
        with _stdin_pipe(self._body) as stdin, _output_pipe(self._output) as output:
            try:
                group = system.ProcessGroup(
                    self._command, stdin=stdin, output=output, environment=self._environment
                )
            except OSError as error:
                return f"cannot be started: {error.strerror or error}: {self._command[0]}"
            with self._starting:
                self._group, late = group, self._cancelled
            if late:
                group.kill()
            with self._processes.recorded(self._run, group.process_id):
                code = group.wait()
        if code < 0:
            return f"ended by signal {_signal_name(-code)}"
        return f"exit code {code}" if code else ""

    def output(self) -> str:
        return bytes(self._output[-KEPT_BYTES:]).decode("utf-8", "replace")

    def terminate(self) -> None:
        with self._starting:
            self._cancelled = True
            group = self._group
        if group is not None:
            group.terminate()

    def kill(self) -> None:
        if self._group is not None:
            self._group.kill()


@contextmanager
def _stdin_pipe(body: bytes) -> Iterator[int]:
    """Yield a descriptor from which the body can be read; the program need not read it."""
    read_end, write_end = os.pipe()
    try:
        start_thread("stdin of a hook", _write_body, write_end, body)
    except BaseException:
        os.close(write_end)
        os.close(read_end)
        raise
    try:
        yield read_end
    finally:
        while _retry_blocking(read_end, lambda: os.read(read_end, _CHUNK_BYTES)):
            pass  # drain, until the writing thread is done
        os.close(read_end)


def _write_body(write_end: int, body: bytes) -> None:
    with open(write_end, "wb", buffering=0) as file:
        while body:
            body = body[file.write(body) :]


@contextmanager
def _output_pipe(kept: bytearray) -> Iterator[int]:
    """Yield a descriptor for output; the end of the output is kept."""
    mark = os.urandom(16)
    read_end, write_end = os.pipe()
    ending = threading.Event()
    try:
        reader = start_thread("output of a hook", _read_output, read_end, kept, ending, mark)
    except BaseException:
        os.close(read_end)
        os.close(write_end)
        raise
    try:
        yield write_end
    finally:
        ending.set()
        _retry_blocking(write_end, lambda: os.write(write_end, mark))  # after the program's output
        reader.join()
        os.close(read_end)
        os.close(write_end)


def _read_output(read_end: int, kept: bytearray, ending: threading.Event, mark: bytes) -> None:
    while True:
        kept += os.read(read_end, _CHUNK_BYTES)
        if ending.is_set() and (position := kept.find(mark)) >= 0:
            del kept[position:]
            return
        if len(kept) > 2 * KEPT_BYTES:
            del kept[:-KEPT_BYTES]


def _retry_blocking(descriptor: int, step: Callable[[], T]) -> T:
    """Read or write, even if a process that shares the descriptor makes it non-blocking."""
    while True:
        system.make_blocking(descriptor)
        try:
            return step()
        except BlockingIOError:
            continue  # it was made non-blocking again in the meantime


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# --- Python functions -----------------------------------------------------------------------------


class _Call:
    """A Python function. It cannot be stopped: after its deadline it counts as failed."""

    grace_seconds = killed_seconds = 0.0

    def __init__(self, run: RunHook) -> None:
        self._run = run
        self._traceback = ""

    def run(self) -> str:
        run = self._run
        module, _, name = run.hook.call.partition(":")
        try:
            function = getattr(import_module(module), name)
            result = function(run.event, run.phase, run.deadline, run.cancelled)
        except BaseException:  # noqa: BLE001  (SystemExit, too, must end only the hook)
            self._traceback = traceback.format_exc()[-KEPT_BYTES:]
            return "raised an error"
        if isinstance(result, Coroutine):
            result.close()
            return "is an async function; use a synchronous one"
        return ""

    def output(self) -> str:
        return self._traceback

    def terminate(self) -> None:
        """Do nothing: the function knows its deadline."""

    def kill(self) -> None:
        """Do nothing: a thread cannot be killed."""


# --- Input of hooks -------------------------------------------------------------------------------


def create_work(
    run: RunHook, machine: str, deadline: float, processes: HookProcesses | None = None
) -> HookWork:
    """Return the work of a hook."""
    if run.hook.kind is HookKind.COMMAND:
        return _Command(run, machine, processes or HookProcesses(None))
    if run.hook.kind is HookKind.URL:
        from fairwarning.guest.agent.connections import HookRequest  # noqa: PLC0415  (takes 6 MiB)

        return HookRequest(run.hook.url, _body(run, machine), _headers(run), deadline)
    return _Call(run)


def describe(run: RunHook, machine: str) -> dict[str, Any]:
    """Return the event, its phase and the deadline as a JSON object."""
    return {
        **to_json(run.event),
        "Phase": str(run.phase),
        "Machine": machine,
        "Cancelled": run.cancelled,
        "Deadline": date_text(run.deadline),
        "Drill": run.drill,
    }


def _body(run: RunHook, machine: str) -> bytes:
    return json.dumps(describe(run, machine)).encode()


def _headers(run: RunHook) -> Mapping[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Fairwarning-Event": to_printable(run.event.id).encode("ascii", "replace").decode(),
    }
    if run.hook.authorization:
        headers["Authorization"] = run.hook.authorization
    return headers


def environment(run: RunHook, machine: str) -> Mapping[str, str]:
    """Return the same as environment variables. Long values are truncated; stdin has it all."""
    payload = describe(run, machine)
    names = ",".join(payload["Resources"])
    if len(names) > _VARIABLE_CHARACTERS:
        names = names[:_VARIABLE_CHARACTERS].rpartition(",")[0]
    values = {
        EVENT_VARIABLE.removeprefix("FAIRWARNING_"): payload["EventId"],
        "EVENT_TYPE": payload["EventType"],
        "EVENT_STATUS": payload["EventStatus"],
        "EVENT_SOURCE": payload["EventSource"],
        "NOT_BEFORE": payload["NotBefore"],
        "RESOURCES": names,
        "DESCRIPTION": payload["Description"],
        "DURATION_SECONDS": str(payload["DurationInSeconds"]),
        "PHASE": payload["Phase"],
        "CANCELLED": "1" if run.cancelled else "0",
        "MACHINE": machine,
        "DEADLINE": payload["Deadline"],
        "DRILL": "1" if run.drill else "0",
    }
    return {f"FAIRWARNING_{name}": _variable(value) for name, value in values.items()}


def _variable(text: str) -> str:
    """Make a text valid for a variable: replace characters that the encoding lacks by `?`."""
    encoding = sys.getfilesystemencoding()
    text = text[:_VARIABLE_CHARACTERS].replace("\0", "?")
    return text.encode(encoding, "replace").decode(encoding)


def to_printable(text: str) -> str:
    """Return one line without control characters, safe for a terminal or log."""
    characters = text[:_REASON_CHARACTERS]
    return "".join(char if char.isprintable() else " " for char in characters).strip()


def start_thread(name: str, work: Callable[..., None], *arguments: object) -> threading.Thread:
    """Start a daemon thread."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread
