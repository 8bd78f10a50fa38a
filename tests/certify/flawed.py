"""A small handler that is right in all ways but the one that its argument names.

It is run as a program of its own, by `fairwarning certify`, with nothing but the standard library.
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
    """One request."""
    headers = {} if FLAW == "forgets the header" else {"Metadata": "true"}
    timeout = 2.0 if FLAW == "is impatient" else 10.0
    request = urllib.request.Request(BASE + path, body, headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return bytes(answer.read())


def insist(path: str) -> bytes:
    """The answer, however often it takes to get one."""
    while True:
        try:
            if answer := ask(path):
                return answer
        except urllib.error.HTTPError as error:
            if FLAW == f"dies of {error.code}":
                raise
        except (OSError, http.client.HTTPException):
            if FLAW == "is impatient":
                raise
        time.sleep(0.0 if FLAW == "retries at once" else 1.0)


class Handler:
    def __init__(self) -> None:
        self.me = insist(NAME).decode()
        self.ready_at: dict[str, float] = {}  # when what has to be done will have been
        self.approved: set[str] = set()
        self.notes = Path(os.environ["STATE_DIRECTORY"], "notes")
        self.noted = self.notes.read_text().split() if self.notes.exists() else []
        self.number = 0
        self.looked_at = time.monotonic()

    def look(self) -> None:
        document = json.loads(insist(EVENTS))
        now = time.monotonic()
        if FLAW == "takes a pause for the end" and now - self.looked_at > 2.5:
            sys.exit("the machine must have been rebooted")
        self.looked_at = now
        if FLAW == "expects numbers to grow":
            if document["DocumentIncarnation"] < self.number:
                return
            self.number = document["DocumentIncarnation"]
        events = document["Events"]
        for event in events[:1] if FLAW == "reads the first only" else events:
            self.see_to(event, now)

    def see_to(self, event: dict[str, Any], now: float) -> None:
        if FLAW == "always reads NotBefore":
            datetime.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S %Z")  # noqa: DTZ007
        if event["Resources"] != [self.me] or event["EventStatus"] != "Scheduled":
            return
        name = event["EventId"]
        if FLAW == "notes what is not done":
            if name in self.noted:
                return
            with self.notes.open("a") as notes:
                notes.write(f"{name}\n")
        ready_at = self.ready_at.setdefault(name, now + PREPARE_SECONDS)
        if now < ready_at or FLAW == "never approves":
            return
        if name not in self.approved or FLAW == "approves over and over":
            with contextlib.suppress(OSError):  # else at the next look
                ask(EVENTS, json.dumps({"StartRequests": [{"EventId": name}]}).encode())
                self.approved.add(name)


def main() -> None:
    """Look, every second."""
    if FLAW == "does nothing":
        time.sleep(1000)
    handler = Handler()
    while True:
        handler.look()
        time.sleep(0.0 if FLAW == "hammers" else 1.0)


main()
