"""What a client does, step by step, as generators.

They yield what is to be sent or how long to pause, and are given the answer. So both clients do
the very same, and tests need no network.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TypeVar

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.guest import session
from fairwarning.guest.events import Document
from fairwarning.guest.session import HttpRequest, HttpResponse, PollState

PATIENCE_SECONDS = 70.0  # Azure restarts its endpoint for as long as that
_FOREVER = float("inf")
_LONGEST_PAUSE_SECONDS = 15.0
_GRACE_SECONDS = 2.0  # for an answer that is on its way when the time is up

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """There was no answer, or half of one."""

    why: str


Step = HttpRequest | Wait
Reply = HttpResponse | ConnectionLost | None
Script = Generator[Step, Reply, T]
"""Yields steps, is sent a reply for each (None after a pause), and returns what it came to."""


class Conversation:
    """All that a client does with one endpoint."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        version: str = session.VERSION,
        every: float = session.EVERY_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._now = now
        self._session = PollState(version=version, every=every)
        self._version = version
        self._patience = patience
        self._every = every
        self.read_at = float("-inf")
        """When a document was last read, by the clock of `now`."""
        self._name = ""
        self._given: Document | None = None  # what the caller knows

    def document(self) -> Script[Document]:
        """The document as it is now; `Unavailable` once patience has ended."""
        ends = self._now() + self._patience
        known = yield from self._ask(max(ends, self._now() + self._every), hold=False)
        while not known:
            if self._now() >= ends:
                raise self._session.unreachable()
            known = yield from self._ask(ends, hold=False)
        assert self._session.document is not None
        self._given = self._session.document
        return self._given

    def anew(self, known: Document | None = None) -> None:
        """Let the next `wait` return at once, unless this is what is planned."""
        self._given = known

    def wait(self, timeout: float | None) -> Script[Document]:
        """The document once it is another than last time, or as it is when the timeout passes.

        Trouble with the endpoint does not end it: what was known stays known (IG5).
        """
        ends = _FOREVER if timeout is None else self._now() + timeout
        while True:
            yield from self._ask(ends, hold=True)
            document = self._session.document
            if document is not None and document != self._given:
                self._given = document
                return document
            if self._now() >= ends:
                if document is None:
                    raise self._session.unreachable()
                return document

    def _ask(self, ends: float, *, hold: bool) -> Script[bool]:
        """Ask once, as soon as we may; whether we know the document now."""
        pause = self._session.pause(self._now())
        left = max(0.0, ends - self._now())
        if pause > 0:
            yield Wait(min(pause, left))
            if pause > left:
                return False
        left = max(0.0, ends - self._now())
        ask = self._session.ask(self._now(), left if hold else 0.0)
        if hold:
            ask = replace(ask, seconds=min(ask.seconds, left + _GRACE_SECONDS))
        reply = yield ask
        if isinstance(reply, HttpResponse):
            known = self._session.learned(ask, reply, self._now())
            self.read_at = self._now() if known else self.read_at
            return known
        assert isinstance(reply, ConnectionLost)
        self._session.failed(reply.why, self._now())
        return False

    def own_name(self) -> Script[str]:
        """The machine's own name, asked for once."""
        if not self._name:
            answer = yield from self._persist(session.own_name(), _is_name)
            self._name = answer.body.decode().strip()
        return self._name

    def approve(self, events: Iterable[str]) -> Script[None]:
        """Approve these; that they were approved before is no trouble."""
        ids = list(events)
        if ids:
            yield from self._persist(session.approval(ids, self._version))

    def _persist(
        self, ask: HttpRequest, good: Callable[[HttpResponse], bool] = lambda _: True
    ) -> Script[HttpResponse]:
        """The answer to what must be answered; trouble is borne with patience."""
        ends, pause = self._now() + self._patience, 1.0
        while True:
            reply = yield ask
            if isinstance(reply, HttpResponse):
                if reply.status == HTTPStatus.OK and good(reply):
                    return reply
                trouble = f"the answer was {reply.status} {session.said(reply)}".strip()
                if reply.status != HTTPStatus.OK and not session.passes(reply):
                    raise Refused("Refused", f"the endpoint refused; {trouble}")
                pause = max(pause, session.after(reply))
            else:
                assert isinstance(reply, ConnectionLost)
                trouble = f"there was no answer ({reply.why})"
            if self._now() + pause > ends:
                raise Unavailable("NoAnswer", f"the endpoint does not do it; last time {trouble}")
            yield Wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _is_name(answer: HttpResponse) -> bool:
    """Whether this can be the name of a machine."""
    name = answer.body.decode("utf-8", "replace").strip()
    return bool(name) and name.isprintable() and "\ufffd" not in name
