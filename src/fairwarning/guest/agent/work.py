"""What a hook does: run a program, send a request, or call a Python function.

What runs it, and looks at the clock for it, is `hooks`.
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
from fairwarning.guest.session import HttpResponse, after

KEPT_BYTES = 64 * 1024  # of what a program says: the end of it
_CHUNK_BYTES = 64 * 1024  # what a pipe holds
_VARIABLE_CHARACTERS = 30_000  # Windows has 32,767 and Linux four times that; stdin has it all
_REASON_CHARACTERS = 300
CONNECT_SECONDS = 5.0
_SPARE_SECONDS = 1.0  # an answer is waited for until the deadline, which `_Running` keeps
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
GRACE_SECONDS = 2.0  # between asking a program to end and ending it ...
KILLED_SECONDS = 1.0  # a killed program is gone at once, unless the kernel itself holds it

T = TypeVar("T")


class HookWork(Protocol):
    """What a hook does."""

    grace_seconds: float
    """Between `end` and `kill`."""
    killed_seconds: float
    """How long `do` may take to return after `kill`; from then on nobody waits for it."""

    def do(self) -> str:
        """Do it, in a thread of its own; why it failed, or nothing."""

    def said(self) -> str:
        """What there was to read, so far."""

    def end(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""


# --- Programs -------------------------------------------------------------------------------------


class _Command:
    """A program. It is over when it exits; what it leaves in its group is killed.

    We keep both ends of its pipes. So nobody who inherited them and lives on can keep us waiting:
    what we do not need is read, what we wait for is written, by ourselves.
    """

    grace_seconds = GRACE_SECONDS
    killed_seconds = KILLED_SECONDS

    def __init__(self, run: RunHook, me: str) -> None:
        self._command = run.hook.command
        self._body = _body(run, me)
        self._environment = {**os.environ, **environment(run, me)}
        self._kept = bytearray()
        self._starting = threading.Lock()
        self._group: system.ProcessGroup | None = None
        self._unwanted = False

    def do(self) -> str:
        with _fed(self._body) as stdin, _heard(self._kept) as output:
            try:
                group = system.ProcessGroup(
                    self._command, stdin=stdin, output=output, environment=self._environment
                )
            except OSError as error:
                return f"cannot be started: {error.strerror or error}: {self._command[0]}"
            with self._starting:
                self._group, late = group, self._unwanted
            if late:
                group.kill()
            code = group.wait()
        if code < 0:
            return f"ended by signal {_signal_name(-code)}"
        return f"exit code {code}" if code else ""

    def said(self) -> str:
        return bytes(self._kept[-KEPT_BYTES:]).decode("utf-8", "replace")

    def end(self) -> None:
        with self._starting:
            self._unwanted = True
            group = self._group
        if group is not None:
            group.terminate()

    def kill(self) -> None:
        if self._group is not None:
            self._group.kill()


@contextmanager
def _fed(body: bytes) -> Iterator[int]:
    """A descriptor to read this from; whoever does not read it is not forced to."""
    reading, writing = os.pipe()
    try:
        thread("stdin of a hook", _write, writing, body)
    except BaseException:
        os.close(writing)
        os.close(reading)
        raise
    try:
        yield reading
    finally:
        while _wait_for(reading, lambda: os.read(reading, _CHUNK_BYTES)):
            pass  # until the writing thread is done
        os.close(reading)


def _write(writing: int, body: bytes) -> None:
    with open(writing, "wb", buffering=0) as file:
        while body:
            body = body[file.write(body) :]


@contextmanager
def _heard(kept: bytearray) -> Iterator[int]:
    """A descriptor to write to; the end of what was written is kept."""
    mark = secrets.token_bytes(16)
    reading, writing = os.pipe()
    ending = threading.Event()
    try:
        reader = thread("output of a hook", _read, reading, kept, ending, mark)
    except BaseException:
        os.close(reading)
        os.close(writing)
        raise
    try:
        yield writing
    finally:
        ending.set()
        _wait_for(writing, lambda: os.write(writing, mark))  # behind all that the program wrote
        reader.join()
        os.close(reading)
        os.close(writing)


def _read(reading: int, kept: bytearray, ending: threading.Event, mark: bytes) -> None:
    while True:
        kept += os.read(reading, _CHUNK_BYTES)
        if ending.is_set() and (place := kept.find(mark)) >= 0:
            del kept[place:]
            return
        if len(kept) > 2 * KEPT_BYTES:
            del kept[:-KEPT_BYTES]


def _wait_for(descriptor: int, step: Callable[[], T]) -> T:
    """Read or write, however those who share the descriptor want it to behave."""
    while True:
        system.make_blocking(descriptor)
        try:
            return step()
        except BlockingIOError:
            continue  # they changed it back this very moment


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# --- HTTP -----------------------------------------------------------------------------------------


class _Post:
    """A request: tried again while the trouble may pass. No proxy, and no redirect, is followed."""

    grace_seconds = killed_seconds = 0.0

    def __init__(self, run: RunHook, me: str, ends: float) -> None:
        self._url = run.hook.url
        self._body = _body(run, me)
        self._headers = {
            "Content-Type": "application/json",
            "Fairwarning-Event": clean(run.event.id).encode("ascii", "replace").decode(),
            "Connection": "close",
        }
        self._ends = ends
        self._trouble = ""
        self._unwanted = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    def do(self) -> str:
        pause = FIRST_PAUSE_SECONDS
        while True:
            wait = 0.0
            try:
                answer, phrase = self._post()
            except http.client.InvalidURL as error:
                return f"the URL cannot be used: {error}"
            except (OSError, http.client.HTTPException) as error:
                trouble = f"there was no answer: {str(error) or type(error).__name__}"
            except ValueError as error:
                return f"the URL cannot be used: {error}"
            else:
                if answer.status // 100 == 2:  # noqa: PLR2004  (all of these are success)
                    return ""
                trouble, wait = f"the answer was {answer.status} {phrase}", after(answer)
                if not _passes(answer.status):
                    return trouble
            if not self._unwanted.is_set():
                self._trouble = trouble
            if self._unwanted.wait(min(max(pause, wait), LONGEST_PAUSE_SECONDS)):
                return trouble
            pause *= 2

    def _post(self) -> tuple[HttpResponse, str]:
        parts = urlsplit(self._url)
        if not parts.hostname:
            raise http.client.InvalidURL("it names no host")
        self._connection = connection = _connection(parts.scheme, parts.hostname, parts.port)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, self._body, self._headers)
            left = max(0.0, self._ends - time.monotonic())
            connection.sock.settimeout(left + _SPARE_SECONDS)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return HttpResponse(response.status, headers, b""), response.reason
        finally:
            connection.close()

    def said(self) -> str:
        return self._trouble

    def end(self) -> None:
        self._unwanted.set()
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """It has ended, or is about to."""


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(
            host, port, timeout=CONNECT_SECONDS, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)


def _passes(status: int) -> bool:
    too_many = status == HTTPStatus.TOO_MANY_REQUESTS
    return too_many or status >= HTTPStatus.INTERNAL_SERVER_ERROR


# --- Python functions -----------------------------------------------------------------------------


class _Call:
    """A function. Nothing can end it: one that is late counts as failed, and is left alone."""

    grace_seconds = killed_seconds = 0.0

    def __init__(self, run: RunHook) -> None:
        self._run = run
        self._said = ""

    def do(self) -> str:
        run = self._run
        module, _, name = run.hook.call.partition(":")
        try:
            function = getattr(import_module(module), name)
            result = function(run.event, run.phase, run.ends, run.cancelled)
        except BaseException:  # noqa: BLE001  (also SystemExit: it ends the hook, not the agent)
            self._said = traceback.format_exc()[-KEPT_BYTES:]
            return "raised an error"
        if isinstance(result, Coroutine):
            result.close()
            return "did nothing: it is asynchronous, and has to be a plain function"
        return ""

    def said(self) -> str:
        return self._said

    def end(self) -> None:
        """It knows its deadline."""

    def kill(self) -> None:
        """There is no means to."""


# --- What hooks are told --------------------------------------------------------------------------


def work(run: RunHook, me: str, ends: float) -> HookWork:
    """What this hook does for this event."""
    match run.hook.kind:
        case HookKind.COMMAND:
            return _Command(run, me)
        case HookKind.URL:
            return _Post(run, me, ends)
        case HookKind.CALL:
            return _Call(run)


def told(run: RunHook, me: str) -> dict[str, Any]:
    """The event, and what is up with it, as JSON has it."""
    return {
        **to_json(run.event),
        "Phase": str(run.phase),
        "Machine": me,
        "Cancelled": run.cancelled,
        "Deadline": times.iso(int(run.ends.timestamp())),
    }


def _body(run: RunHook, me: str) -> bytes:
    return json.dumps(told(run, me)).encode()


def environment(run: RunHook, me: str) -> Mapping[str, str]:
    """The same as variables. What is too long for one is cut; stdin has all of it."""
    it = told(run, me)
    names = ",".join(it["Resources"])
    if len(names) > _VARIABLE_CHARACTERS:
        names = names[:_VARIABLE_CHARACTERS].rpartition(",")[0]
    values = {
        "EVENT_ID": it["EventId"],
        "EVENT_TYPE": it["EventType"],
        "EVENT_STATUS": it["EventStatus"],
        "EVENT_SOURCE": it["EventSource"],
        "NOT_BEFORE": it["NotBefore"],
        "RESOURCES": names,
        "DESCRIPTION": it["Description"],
        "DURATION_SECONDS": str(it["DurationInSeconds"]),
        "PHASE": it["Phase"],
        "CANCELLED": "1" if run.cancelled else "0",
        "MACHINE": me,
        "DEADLINE": it["Deadline"],
    }
    return {f"FAIRWARNING_{name}": _variable(value) for name, value in values.items()}


def _variable(text: str) -> str:
    """A text that a variable can hold; what the system's encoding does not have is a `?`."""
    encoding = sys.getfilesystemencoding()
    text = text[:_VARIABLE_CHARACTERS].replace("\0", "?")
    return text.encode(encoding, "replace").decode(encoding)


def clean(text: str) -> str:
    """One line that no terminal or log can be misled by."""
    shown = "".join(one if one.isprintable() else " " for one in text[:_REASON_CHARACTERS])
    return shown.strip()


def thread(name: str, work: Callable[..., None], *arguments: object) -> threading.Thread:
    """Begin with something, beside all else."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread
