"""A small handler that is correct except for the flaw, or the habit, that its argument names.

`fairwarning certify` runs it as a program. It uses only the standard library.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

BASE = "http://169.254.169.254/metadata/"
NAME = "instance/compute/name?api-version=2021-02-01&format=text"
FLAW = sys.argv[1] if len(sys.argv) > 1 else ""
PREPARE_SECONDS = 0.0 if "at once" in FLAW else 6.0 if "slowly" in FLAW else 3.0
VERSION = FLAW.removeprefix("uses version ") if "version" in FLAW else "2020-07-01"
EVENTS = f"scheduledevents?api-version={VERSION}"
AGAIN_SECONDS = {"repeats approvals": 0.0, "repeats approvals now and then": 5.0}
DELAYS = {"polls every three seconds": 3.0, "polls without delay": 0.0}  # else one second


def ask(path: str, body: bytes | None = None) -> bytes:
    """Send one request."""
    omitted = FLAW == "omits the header" or (body and "without the header" in FLAW)
    headers = {} if omitted else {"Metadata": "true"}
    timeout = 2.0 if FLAW == "has a short timeout" else 10.0
    request = urllib.request.Request(BASE + path, body, headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return bytes(answer.read())


def ask_until_answered(path: str) -> bytes:
    """Send a request until it is answered."""
    while True:
        try:
            if answer := ask(path):
                return answer
        except urllib.error.HTTPError as error:
            if FLAW in {f"exits on {error.code}", "exits on any error"}:
                raise
        except (OSError, http.client.HTTPException):
            if FLAW in {"has a short timeout", "exits on any error"}:
                raise
        time.sleep(0.0 if FLAW == "retries without delay" else 1.0)


class Handler:
    def __init__(self) -> None:
        self.me = ask_until_answered(NAME).decode()
        if VERSION == "2017-03-01":
            self.me = f"_{self.me}"
        self.ready_at: dict[str, float] = {}  # when the preparations for an event end
        self.approved: dict[str, float] = {}  # when it approved an event
        self.record = Path(os.environ["STATE_DIRECTORY"], "record")
        self.recorded = self.record.read_text().split() if self.record.exists() else []
        self.incarnation = 0
        self.polled_at = time.monotonic()

    def poll(self) -> None:
        document = json.loads(ask_until_answered(EVENTS))
        now = time.monotonic()
        if FLAW == "takes a pause for a reboot" and now - self.polled_at > 2.5:
            sys.exit("the machine must have been rebooted")
        self.polled_at = now
        if FLAW == "expects incarnation to grow":
            if document["DocumentIncarnation"] < self.incarnation:
                return
            self.incarnation = document["DocumentIncarnation"]
        events = document["Events"]
        if FLAW == "handles only the first event":
            events = events[:1]
        elif FLAW == "handles only the last event":
            events = events[-1:]
        for event in events:
            self.handle(event, now)

    def handle(self, event: dict[str, Any], now: float) -> None:
        if FLAW == "always parses NotBefore":
            datetime.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S %Z")  # noqa: DTZ007
        event_id, started = event["EventId"], event["EventStatus"] == "Started"
        resources = event["Resources"]
        if FLAW == "approves events that have started" and started and self.me in resources:
            approve(event_id)
        if started and FLAW != "ignores EventStatus":
            return
        if not self.is_relevant(resources) or event["EventType"] in FLAW:
            return
        if FLAW == "records before it is done":
            if event_id in self.recorded:
                return
            with self.record.open("a") as record:
                record.write(f"{event_id}\n")
        ready_at = self.ready_at.setdefault(event_id, now + PREPARE_SECONDS)
        if now < ready_at or FLAW == "never approves":
            return
        seconds = AGAIN_SECONDS.get(FLAW, float("inf"))
        if event_id not in self.approved or now > self.approved[event_id] + seconds:
            self.approve(event_id, now)

    def approve(self, event_id: str, now: float) -> None:
        try:
            approve(event_id)
            self.approved[event_id] = now
        except OSError as error:  # retried after the next poll
            if FLAW == f"exits if an approval gets {getattr(error, 'code', 0)}":
                raise
            if FLAW == "forgets approvals that fail":
                self.approved[event_id] = now

    def is_relevant(self, resources: list[str]) -> bool:
        if "every event" in FLAW:
            return len(resources) == 1
        if "part of its name" in FLAW:
            return len(resources) == 1 and self.me in str(resources)
        return self.me in resources if "for all" in FLAW else resources == [self.me]


def approve(event_id: str) -> None:
    """Approve an event."""
    ask(EVENTS, json.dumps({"StartRequests": [{"EventId": event_id}]}).encode())


def main() -> None:
    """Poll every second."""
    if FLAW == "does nothing":
        time.sleep(1000)
    handler = Handler()
    while True:
        handler.poll()
        time.sleep(DELAYS.get(FLAW, 1.0))


main()
