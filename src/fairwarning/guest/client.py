"""The client for programs without asyncio."""

import http.client
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypeVar

from fairwarning.guest import session
from fairwarning.guest.conversation import (
    PATIENCE_SECONDS,
    ConnectionLost,
    Conversation,
    Reply,
    Script,
    Step,
    Wait,
)
from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.endpoint import endpoint as endpoint_of
from fairwarning.guest.events import Document, Event
from fairwarning.guest.session import HttpRequest, HttpResponse
from fairwarning.guest.watch import Change, changes

CONNECT_SECONDS = 5.0

T = TypeVar("T")


class ScheduledEvents:
    """What is going to happen to this machine, and the means to approve it.

    Use one for each thread. `for change in ScheduledEvents().watch(): ...` is all a handler needs.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        version: str = session.VERSION,
        every: float = session.EVERY_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Ask at `endpoint` (else FAIRWARNING_ENDPOINT, else where Azure has it).

        `every`: seconds between requests at least. `patience`: how long trouble is borne.
        """
        self._wire = _Wire(endpoint_of(endpoint))
        self._talk = Conversation(time.monotonic, version=version, every=every, patience=patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; it is made again when it is needed."""
        self._wire.close()

    @property
    def read_at(self) -> float:
        """When the endpoint last told us of a document, by `time.monotonic`."""
        return self._talk.read_at

    def events(self) -> tuple[Event, ...]:
        """All that is planned now, for this machine and for those it shares a fate with."""
        return self.document().events

    def document(self) -> Document:
        """The same, with its incarnation. Raises `Unavailable` once patience has ended."""
        return self._run(self._talk.document())

    def wait(self, timeout: float | None = None) -> Document:
        """Return when the document is another than last time, or the timeout has passed.

        Trouble with the endpoint does not end it: what was known stays known.
        """
        return self._run(self._talk.wait(timeout))

    def watch(self) -> Iterator[Change]:
        """What happens to events, one by one, for ever; first of all what is planned already."""
        known: Document | None = None
        while True:
            self._talk.anew(known)
            document = self.wait()
            yield from changes(known or Document(), document)
            known = document

    def me(self) -> str:
        """The name of this machine as events have it; its host name is another (G3)."""
        return self._run(self._talk.own_name())

    def approve(self, *events: Event | str) -> None:
        """Let these begin now, for all machines they name. Approving twice does no harm."""
        ids = [event.id if isinstance(event, Event) else event for event in events]
        self._run(self._talk.approve(ids))

    def _run(self, script: Script[T]) -> T:
        reply: Reply = None
        while True:
            try:
                step = script.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            reply = self._do(step)

    def _do(self, step: Step) -> Reply:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        try:
            return self._wire.send(step)
        except (OSError, ValueError, http.client.HTTPException) as error:
            return ConnectionLost(str(error) or type(error).__name__)


class _Wire:
    """One connection, kept as long as it lasts. `http.client` knows nothing of proxies."""

    def __init__(self, where: EndpointAddress) -> None:
        self._where = where
        self._connection: http.client.HTTPConnection | None = None

    def send(self, ask: HttpRequest) -> HttpResponse:
        """Send a request and read its answer whole."""
        if self._connection is not None:
            try:
                return self._exchange(self._connection, ask)
            except TimeoutError:
                self.close()
                raise
            except (OSError, http.client.HTTPException):
                self.close()  # it was closed while nothing was asked: once more, on a new one
        self._connection = _connection(self._where)
        try:
            return self._exchange(self._connection, ask)
        except BaseException:
            self.close()
            raise

    def _exchange(self, connection: http.client.HTTPConnection, ask: HttpRequest) -> HttpResponse:
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(ask.seconds)
        path = self._where.base + ask.path
        connection.request(ask.method, path, ask.body or None, dict(ask.headers))
        response = connection.getresponse()
        body = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            self.close()
        return HttpResponse(response.status, headers, body)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connection(where: EndpointAddress) -> http.client.HTTPConnection:
    if where.socket:
        return _UnixConnection(where.socket)
    return http.client.HTTPConnection(where.host, where.port, timeout=CONNECT_SECONDS)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        family = getattr(socket, "AF_UNIX", None)
        if family is None:
            raise OSError("this system has no Unix sockets")
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
