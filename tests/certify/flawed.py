"""A small handler that is correct except for the flaw that its argument names.

`fairwarning certify` runs it as a program. It uses only the standard library.
"""

import contextlib
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
EVENTS = "scheduledevents?api-version=2020-07-01"
NAME = "instance/compute/name?api-version=2021-02-01&format=text"
PREPARE_SECONDS = 3.0
FLAW = sys.argv[1] if len(sys.argv) > 1 else ""


def ask(path: str, body: bytes | None = None) -> bytes:
    """Send one request."""
    headers = {} if FLAW == "omits the header" else {"Metadata": "true"}
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
            if FLAW == f"exits on {error.code}":
                raise
        except (OSError, http.client.HTTPException):
            if FLAW == "has a short timeout":
                raise
        time.sleep(0.0 if FLAW == "retries without delay" else 1.0)


class Handler:
    def __init__(self) -> None:
        self.me = ask_until_answered(NAME).decode()
        self.ready_at: dict[str, float] = {}  # when the preparations for an event end
        self.approved: set[str] = set()
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
        for event in events[:1] if FLAW == "handles only the first event" else events:
            self.handle(event, now)

    def handle(self, event: dict[str, Any], now: float) -> None:
        if FLAW == "always parses NotBefore":
            datetime.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S %Z")  # noqa: DTZ007
        if event["Resources"] != [self.me] or event["EventStatus"] != "Scheduled":
            return
        event_id = event["EventId"]
        if FLAW == "records before it is done":
            if event_id in self.recorded:
                return
            with self.record.open("a") as record:
                record.write(f"{event_id}\n")
        ready_at = self.ready_at.setdefault(event_id, now + PREPARE_SECONDS)
        if now < ready_at or FLAW == "never approves":
            return
        if event_id not in self.approved or FLAW == "repeats approvals":
            with contextlib.suppress(OSError):  # retried after the next poll
                ask(EVENTS, json.dumps({"StartRequests": [{"EventId": event_id}]}).encode())
                self.approved.add(event_id)


def main() -> None:
    """Poll every second."""
    if FLAW == "does nothing":
        time.sleep(1000)
    handler = Handler()
    while True:
        handler.poll()
        time.sleep(0.0 if FLAW == "polls without delay" else 1.0)


main()
