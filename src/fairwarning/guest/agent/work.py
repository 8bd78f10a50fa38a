"""The work of a hook: run a program, send an HTTP request, or call a Python function.

`hooks` runs it and enforces its deadline.
"""

import http.client
import json
import os
import secrets
import signal
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from importlib import import_module
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from fairwarning.core import times
from fairwarning.guest.agent import system
from fairwarning.guest.agent.config import HookKind
from fairwarning.guest.agent.plan import RunHook
from fairwarning.guest.events import to_json
from fairwarning.guest.session import HttpResponse, retry_after

KEPT_BYTES = 64 * 1024  # of a program's output, from its end
_CHUNK_BYTES = 64 * 1024  # the capacity of a pipe
_VARIABLE_CHARACTERS = 30_000  # Windows allows 32,767 and Linux four times that; stdin has it all
_REASON_CHARACTERS = 300
CONNECT_SECONDS = 5.0
_SPARE_SECONDS = 1.0  # added to the socket timeout, since `_Running` enforces the deadline
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
GRACE_SECONDS = 2.0  # between terminating and killing a program
KILLED_SECONDS = 1.0  # a killed program exits at once, unless it is blocked in the kernel

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

    def __init__(self, run: RunHook, machine: str) -> None:
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
    mark = secrets.token_bytes(16)
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


# --- HTTP -----------------------------------------------------------------------------------------


class _Post:
    """An HTTP request, retried after transient failures. Proxies and redirects are ignored."""

    grace_seconds = killed_seconds = 0.0

    def __init__(self, run: RunHook, machine: str, deadline: float) -> None:
        self._url = run.hook.url
        self._body = _body(run, machine)
        self._headers = {
            "Content-Type": "application/json",
            "Fairwarning-Event": to_printable(run.event.id).encode("ascii", "replace").decode(),
            "Connection": "close",
        }
        self._deadline = deadline
        self._last_error = ""
        self._cancelled = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    def run(self) -> str:
        pause = FIRST_PAUSE_SECONDS
        while True:
            wait = 0.0
            try:
                response, phrase = self._post()
            except http.client.InvalidURL as error:
                return f"the URL is invalid: {error}"
            except (OSError, http.client.HTTPException) as error:
                error_message = f"there was no response: {str(error) or type(error).__name__}"
            except ValueError as error:
                return f"the URL is invalid: {error}"
            else:
                if response.status // 100 == 2:  # noqa: PLR2004  (all 2xx are success)
                    return ""
                error_message = f"the response was {response.status} {phrase}"
                wait = retry_after(response)
                if not _is_transient(response.status):
                    return error_message
            if not self._cancelled.is_set():
                self._last_error = error_message
            if self._cancelled.wait(min(max(pause, wait), LONGEST_PAUSE_SECONDS)):
                return error_message
            pause *= 2

    def _post(self) -> tuple[HttpResponse, str]:
        parts = urlsplit(self._url)
        if not parts.hostname:
            raise http.client.InvalidURL("it has no host")
        self._connection = connection = _connection(parts.scheme, parts.hostname, parts.port)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, self._body, self._headers)
            left = max(0.0, self._deadline - time.monotonic())
            connection.sock.settimeout(left + _SPARE_SECONDS)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return HttpResponse(response.status, headers, b""), response.reason
        finally:
            connection.close()

    def output(self) -> str:
        return self._last_error

    def terminate(self) -> None:
        self._cancelled.set()
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Do nothing: `terminate` has closed the connection."""


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(
            host, port, timeout=CONNECT_SECONDS, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)


def _is_transient(status: int) -> bool:
    too_many = status == HTTPStatus.TOO_MANY_REQUESTS
    return too_many or status >= HTTPStatus.INTERNAL_SERVER_ERROR


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


def create_work(run: RunHook, machine: str, deadline: float) -> HookWork:
    """Return the work of a hook."""
    match run.hook.kind:
        case HookKind.COMMAND:
            return _Command(run, machine)
        case HookKind.URL:
            return _Post(run, machine, deadline)
        case HookKind.CALL:
            return _Call(run)


def describe(run: RunHook, machine: str) -> dict[str, Any]:
    """Return the event, its phase and the deadline as a JSON object."""
    return {
        **to_json(run.event),
        "Phase": str(run.phase),
        "Machine": machine,
        "Cancelled": run.cancelled,
        "Deadline": times.iso(int(run.deadline.timestamp())),
    }


def _body(run: RunHook, machine: str) -> bytes:
    return json.dumps(describe(run, machine)).encode()


def environment(run: RunHook, machine: str) -> Mapping[str, str]:
    """Return the same as environment variables. Long values are truncated; stdin has it all."""
    payload = describe(run, machine)
    names = ",".join(payload["Resources"])
    if len(names) > _VARIABLE_CHARACTERS:
        names = names[:_VARIABLE_CHARACTERS].rpartition(",")[0]
    values = {
        "EVENT_ID": payload["EventId"],
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
