"""A webhook that is removed, created again and tested through any process, and its receiver.

Each creation has a number, which is in its URL, its secret and the actor of its journal line.
"""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg

from fairwarning.core.decision import FactType
from fairwarning.core.model import Ref, Resource
from fairwarning.service.webhooks.changes import is_reported
from fairwarning.service.webhooks.subscription import resource_id
from fairwarning.store.store import JournalEntry
from tests.cluster.cluster import Cluster, NoAnswer, WorkerProcess
from tests.cluster.committed_state import CommittedState
from tests.fixtures.receiver import (
    ReceivedRequest,
    Receiver,
    ReceiverResponse,
    line_number,
    verified,
)
from tests.fixtures.waiting import on_this_machine
from tests.sim.violations import must
from tests.webhooks.webhook_fleet import REPORTED

NAME = "hook"
REF: Ref = (Resource, resource_id(NAME))
FAILING = 0.03  # the part of the messages that are answered with 500
LEAST_SETTLING_SECONDS = 20.0
ACTOR = "creation-"
LAST_LINES = """
SELECT
    (SELECT actor FROM fairwarning.journal WHERE kind = 'Resource' AND id = %(id)s
    ORDER BY number DESC LIMIT 1),
    coalesce((SELECT max(number) FROM fairwarning.journal WHERE type = ANY (%(types)s)), 0),
    coalesce((SELECT max(number) FROM fairwarning.journal WHERE kind = 'Resource'), 0)
"""


def secret(creation: int) -> str:
    """Return the secret of a subscription."""
    return f"secret-of-subscription-{creation}"


class WebhookReceiver(Receiver):
    """Receives the messages of all subscriptions; fails a few, and answers 410 while it is gone."""

    def __init__(self, random: Random) -> None:
        super().__init__(self._receive)
        self.gone = False
        self.failing = FAILING
        self.arrived: defaultdict[int, list[int]] = defaultdict(list)  # lines, by creation
        self.accepted: defaultdict[int, list[int]] = defaultdict(list)
        self.forged: list[int] = []
        self._random = random

    def _receive(self, request: ReceivedRequest) -> ReceiverResponse:
        creation = int(request.path[1:])
        if not verified(request, secret(creation)):
            self.forged.append(creation)
        status = 410 if self.gone else 500 if self._random.random() < self.failing else 200
        if line := line_number(request):  # else it is a test message
            self.arrived[creation].append(line)
            if status == 200:
                self.accepted[creation].append(line)
        return ReceiverResponse(status)


@dataclass(slots=True)
class WebhookLoad:
    """A client that changes the webhook through any process."""

    cluster: Cluster
    random: Random
    receiver: WebhookReceiver
    creations: int = 0
    acknowledged: list[int] = field(default_factory=list)

    async def client(self, stop: asyncio.Event) -> None:
        """Send one request after another until told to stop."""
        await self.create()
        while not stop.is_set():
            draw = self.random.random()
            if draw < 0.5:
                await self._request(hook="remove")
                await self.create()
            elif draw < 0.7:
                self.receiver.gone = not self.receiver.gone
            else:
                await self._request(hook="test")
            await asyncio.sleep(self.random.uniform(0.0, 0.4))

    async def create(self) -> None:
        """Create the subscription with the next number; it may exist already."""
        self.creations += 1
        number = self.creations
        url = f"http://127.0.0.1:{self.receiver.port}/{number}"
        answer = await self._request(
            hook="create", url=url, secret=secret(number), actor=f"{ACTOR}{number}"
        )
        if answer is not None and "refused" not in answer:
            self.acknowledged.append(number)

    async def _request(
        self, process: WorkerProcess | None = None, **request: object
    ) -> dict[str, Any] | None:
        process = process or self.random.choice(self.cluster.processes)
        try:
            return await process.request(name=NAME, **request)
        except NoAnswer:
            return None

    async def wait_until_delivered(self, url: str, seconds: float) -> None:
        """IK5: once the receiver is back, and tested by any process, all messages arrive."""
        self.receiver.gone, self.receiver.failing = False, 0.0
        process = self.random.choice(self.cluster.processes)
        seconds = max(seconds, LEAST_SETTLING_SECONDS)
        began = time.monotonic()
        with psycopg.connect(url, autocommit=True) as connection:
            while True:
                await self._request(process, hook="test")
                creation, last = await asyncio.to_thread(_newest, connection)
                if creation is None:
                    await self.create()
                elif last == 0 or last in self.receiver.accepted[creation]:
                    return
                in_time = time.monotonic() - began < on_this_machine(seconds)
                must(in_time, "IK5", f"line {last} does not arrive")
                await asyncio.sleep(0.1)


def _newest(connection: psycopg.Connection[tuple[Any, ...]]) -> tuple[int | None, int]:
    """Return the number of the subscription, and the last line it has to deliver; 0 for none."""
    types = [kind.value for kind in REPORTED]
    row = connection.execute(LAST_LINES, {"id": REF[1], "types": types}).fetchone()
    assert row
    actor, last, created = row
    if actor is None or not actor.startswith(ACTOR):
        return None, 0
    return int(actor.removeprefix(ACTOR)), last if last > created else 0


def check_webhooks(committed: CommittedState, load: WebhookLoad) -> None:
    """IK5: messages arrive in order and without gaps, at the receiver of their time only."""
    receiver, periods = load.receiver, _periods(committed)
    must(not receiver.forged, "IK5", f"messages of {receiver.forged} have another signature")
    for number in load.acknowledged:
        must(number in periods, "E9", f"the acknowledged subscription {number} is lost")
    for number, arrived in receiver.arrived.items():
        must(number in periods, "IK5", f"{number} got messages and was never created")
        after, before = periods[number]
        expected = [
            line
            for line in range(after + 1, before)
            if is_reported(JournalEntry(line, committed.lines[line - 1]))
        ]
        first = list(dict.fromkeys(arrived))  # a message may be repeated
        in_order = first == expected[: len(first)]
        got = f"got {first} of {expected}"
        must(in_order, "IK5", f"subscription {number}, of lines {after} to {before}, {got}")


def _periods(committed: CommittedState) -> dict[int, tuple[int, int]]:
    """Return for each subscription the lines of its creation and of its removal."""
    periods: dict[int, tuple[int, int]] = {}
    newest = 0
    for number, line in enumerate(committed.lines, 1):
        if line.entity != REF:
            continue
        if line.fact.type is FactType.RESOURCE_WRITTEN:
            newest = int(line.actor.removeprefix(ACTOR))
            periods[newest] = number, len(committed.lines) + 1
        elif line.fact.type is FactType.RESOURCE_REMOVED:
            periods[newest] = periods[newest][0], number
    return periods
