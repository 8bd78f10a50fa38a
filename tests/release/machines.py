"""The machines of the soak: they poll, approve most events, and check what they see."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any

from tests.fixtures.endpoint import POLL_TARGET, approval
from tests.fixtures.http import fetch

APPROVED = 0.7  # of the events; the others wait for their NotBefore
_HEADERS = {"Metadata": "true"}


@dataclass
class SeenEvent:
    """What the machines know of an event."""

    scope: str
    to_approve: bool
    not_before: datetime | None = None
    approved: bool = False


class Machines:
    """The programs inside all machines. A machine that does not exist any more is left out."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._incarnations: dict[str, int] = {}  # by machine
        self.events: dict[str, SeenEvent] = {}
        self.polls = 0
        self.approvals = 0

    def poll_all(self, machines: Iterable[dict[str, Any]], now: datetime) -> None:
        """Poll once as each machine of a listing, and approve some of its events."""
        for machine in machines:
            self._poll(machine, now)

    def _poll(self, machine: dict[str, Any], now: datetime) -> None:
        name, url = machine["name"], f"{machine['url']}{POLL_TARGET}"
        response = fetch(url, headers=_HEADERS)
        assert response.status == 200, (name, response)
        self.polls += 1
        document = response.json
        incarnation = document["DocumentIncarnation"]
        assert incarnation >= self._incarnations.get(name, 0), f"{name}: an older document"
        self._incarnations[name] = incarnation
        for event in document["Events"]:
            self._handle(name, machine["scope"], url, event, now)

    def _handle(
        self, name: str, scope: str, url: str, event: dict[str, Any], now: datetime
    ) -> None:
        id_ = event["EventId"]
        if id_ not in self.events:
            self.events[id_] = SeenEvent(scope, self._random.random() < APPROVED)
        seen = self.events[id_]
        assert seen.scope == scope, f"{name}: {id_} of {seen.scope} is visible in {scope}"
        if event["EventStatus"] == "Started":
            early = seen.not_before is not None and now < seen.not_before
            assert seen.approved or not early, f"{id_} started before {seen.not_before}"
            return
        not_before = parsedate_to_datetime(event["NotBefore"]).replace(tzinfo=UTC)
        assert seen.not_before is None or not_before >= seen.not_before, f"{id_}: shorter notice"
        seen.not_before = not_before
        if seen.to_approve and not seen.approved and name in event["Resources"]:
            response = fetch(url, "POST", headers=_HEADERS, body=approval(id_))
            assert response.status == 200, (name, response)
            seen.approved = True
            self.approvals += 1
