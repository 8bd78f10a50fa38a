"""Fuzz the guest side: `python -m tests.guest.fuzz CASES [FIRST_SEED]`.

A case is a response, which both clients read from a socket; the agent gets the document. A
client reads many, one after the other. The promises:

- no exception but Fairwarning's own, in a client or the agent;
- both clients read the same;
- a response that is proper delivers every well-formed event and names every malformed one, whatever
  was read before it; a malformed event that was known is not over;
- an error about one event drops nothing that was decided about others;
- a request is one request, whatever the endpoint has sent before.
"""

import asyncio
import logging
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from fairwarning import AsyncScheduledEvents, Document, FairwarningError, ScheduledEvents
from fairwarning.guest import aio, http_message, transport
from fairwarning.guest.agent.actions import Action, RunHook, SendApproval
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.agent.notices import EventNotice
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.agent.reporter import EventReporter
from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.events import Phase, to_json
from fairwarning.guest.session import HttpRequest
from tests.guest.fuzz_responses import SentDocument, damaged, document, proper
from tests.guest.notices import ALL, ME

STEPS = 20  # responses that a client reads
REQUEST = re.compile(
    rb"GET /metadata/[!-~]+ HTTP/1\.1\r\n(?:[!-9;-~]+: [ -~\x80-\xff]*\r\n)+\r\n", re.DOTALL
)
PROCESSED_MESSAGES = 10_000
MESSAGE_CHARACTERS = 2_000  # of an error, which is logged


class FuzzFailure(AssertionError):
    """A promise was broken; the text has the seed and the response."""


class Poison(Exception):
    """An error about one event, which must not reach others (IB1)."""


class Server:
    """The other end of a client's connections."""

    def __init__(self) -> None:
        self._end: socket.socket | None = None
        self.response = b""
        self.stays_open = True

    def connect(self, *_: object) -> socket.socket:
        """Return a client's end of a new connection."""
        self.close()
        self._end, client = socket.socketpair()
        self._end.setblocking(False)
        client.setblocking(False)
        return client

    def serialize(self, address: EndpointAddress, request: HttpRequest) -> bytes:
        """Return a request as bytes, and answer it already."""
        assert self._end is not None
        self._end.sendall(self.response)
        if not self.stays_open:
            self._end.shutdown(socket.SHUT_WR)
        return http_message.serialize(address, request)

    def requests(self) -> bytes:
        """Return what the client has sent on the current connection."""
        try:
            return self._end.recv(1 << 16) if self._end else b""
        except OSError:
            return b""

    def close(self) -> None:
        if self._end is not None:
            self._end.close()
            self._end = None


class Deciding(Agent):
    """An agent without threads, whose hooks and approvals succeed. Notices of one event fail."""

    def __init__(self, reader: ScheduledEvents) -> None:
        super().__init__(AgentConfig(hooks=ALL))
        self._reader = reader
        self._plan = AgentPlan(self._config, ME)
        self._reporter = EventReporter(self._config, ME, self._notify)
        self.poisoned = ""

    def _notify(self, notice: EventNotice) -> None:
        if notice.event.id == self.poisoned:
            raise Poison

    def _report_error(self, event: str, error: Exception) -> None:
        if not isinstance(error, Poison):
            raise error

    def _perform_action(self, action: Action) -> None:
        if isinstance(action, RunHook):
            self._hook_ended(action.event.id, action.phase, action.hook.name, "")
        elif isinstance(action, SendApproval):
            event, result = action.event.id, ApprovalResult.ACCEPTED
            self._messages.put(lambda now: self._plan.approved(event, now, result))

    def decide(self, document: Document) -> None:
        """Decide about a document, until all hooks have ended and all approvals are answered."""
        self.poisoned = next((event.id for event in document.events), self.poisoned)
        self._messages.put(lambda now: self._plan.read(document, now))
        self._messages.put(self._plan.due)
        for _ in range(PROCESSED_MESSAGES):
            if self._messages.empty():
                break
            if message := self._messages.get():
                self._act(message)
        assert self._messages.empty()
        for state in self._plan.known.values():
            assert not state.is_running(*Phase), f"a hook of {state.event.id} never ran"
        self._check(document)

    def _check(self, document: Document) -> None:
        now = self._reader.now()
        for event in document.events:
            to_json(event)
            event.seconds_left(now)
        # A damaged document may list an event with and without this machine: the last entry counts.
        for event in {event.id.upper(): event for event in document.events}.values():
            if event.concerns(ME):
                state = self._plan.known.get(event.id.upper())
                assert state is not None, f"the plan does not know {event.id}"
                assert not state.over, f"{event.id} is over for the plan"


class Guest:
    """Both clients of an endpoint, and a plan, over some responses."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._servers = Server(), Server()
        self._clients = (
            ScheduledEvents("http://fuzz", name=ME, every=0, patience=0),
            AsyncScheduledEvents("http://fuzz", name=ME, every=0, patience=0),
        )
        self._now = 0.0
        for client in self._clients:
            setattr(client._conversation, "_now", lambda: self._now)  # noqa: B010  (as above)
        self._agent = Deciding(self._clients[0])
        self.known = Document()

    @contextmanager
    def connected(self, receive_bytes: int) -> Iterator[None]:
        """Let the clients connect to the servers, and receive so many bytes at a time."""
        server, other = self._servers

        async def connect(_: object) -> socket.socket:
            return other.connect()

        with (
            patch.multiple(
                transport,
                _connect=server.connect,
                serialize=server.serialize,
                RECEIVE_BYTES=receive_bytes,
            ),
            patch.multiple(aio, serialize=other.serialize, RECEIVE_BYTES=receive_bytes),
            patch.object(aio.AsyncHttpTransport, "_connect", connect),
        ):
            yield

    def read(self, response: bytes, *, stays_open: bool, seconds: float) -> Document | None:
        """Let both clients read a response; return the document, or None after their own error."""
        self._now += seconds
        server, other = self._servers
        server.response = other.response = response
        server.stays_open = other.stays_open = stays_open
        plain, asynchronous = self._clients
        first = self._try(plain.document)
        second = self._try(lambda: self._loop.run_until_complete(asynchronous.document()))
        assert first == second, f"the clients differ: {first} and {second}"
        for server in self._servers:
            assert REQUEST.fullmatch(request := server.requests()), request
        if first is not None:
            self._agent.decide(first)
            self.known = first
        return first

    def _try(self, read: Any) -> Document | None:  # noqa: ANN401  (a client's method)
        message = ""
        try:
            result: Document = read()
        except FairwarningError as error:
            message = str(error)
        assert len(message) < MESSAGE_CHARACTERS
        return None if message else result

    def close(self) -> None:
        for part in (*self._clients, *self._servers):
            part.close()


def check_proper(sent: SentDocument, before: Document, read: Document | None) -> None:
    """Raise `AssertionError` if a proper response was not read completely."""
    assert read is not None, "a proper response was not read"
    skipped = {name.upper() for name in sent.skipped}
    hidden = [  # a damaged document may have listed one twice
        event
        for event in before.events
        if event.id not in sent.events and not skipped.isdisjoint({event.id.upper(), ""})
    ]
    ids = [*sent.events, *(event.id for event in hidden)]
    assert sorted(event.id for event in read.events) == sorted(ids)
    assert sorted(event.id for event in read.skipped) == sorted(sent.skipped)
    for event in read.events:
        if event.id not in sent.events:
            assert event in hidden
            continue
        raw = sent.events[event.id]
        assert list(event.resources) == raw["Resources"]
        assert str(event.type).lower() == raw["EventType"].lower()
        assert event.started == (raw["EventStatus"].lower() == "started")


def run_seed(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    """Read some responses; raise `FuzzFailure`."""
    random, guest, response = Random(seed), Guest(loop), b""
    size = random.choice((100, 1_000, *[1 << 16] * 4))
    try:
        with guest.connected(size):
            for _ in range(STEPS):
                before = guest.known
                sent = document(random, tuple(event.id for event in before.events)[:6])
                seconds = random.choice((301.0, 301.0, 90_000.0))
                if random.random() < 0.5:
                    response, stays_open = proper(random, sent)
                    read = guest.read(response, stays_open=stays_open, seconds=seconds)
                    check_proper(sent, before, read)
                else:
                    response = damaged(random, sent)
                    guest.read(response, stays_open=False, seconds=seconds)
    except Exception as error:
        raise FuzzFailure(f"seed {seed}: {type(error).__name__}: {error}\n{response!r}") from error
    finally:
        guest.close()


@contextmanager
def fuzzing() -> Iterator[asyncio.AbstractEventLoop]:
    """Silence logs, and yield an event loop."""
    loop, log = asyncio.new_event_loop(), logging.getLogger("fairwarning")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield loop
    finally:
        log.setLevel(level)
        loop.close()


def fuzz(cases: int, first_seed: int = 0) -> None:
    """Run as many cases; raise `FuzzFailure`."""
    with fuzzing() as loop:
        for seed in range(first_seed, first_seed + -(-cases // STEPS)):
            run_seed(seed, loop)


def main(cases: int, first_seed: int = 0) -> None:
    """Run the campaign, and print what was done."""
    began = time.monotonic()
    fuzz(cases, first_seed)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{cases} responses without a violation, in {seconds:.0f} s\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
