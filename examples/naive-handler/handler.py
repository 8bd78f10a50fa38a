"""A naive handler, as a first attempt often looks. It has eight faults: do not copy it.

    fairwarning certify -- python3 handler.py

finds the faults, which are marked below. NAIVE_SECONDS is the time between two polls.
"""

import json
import os
import socket
import sys
import time
import urllib.request

URL = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

# FAULT 1: polls once a minute. An eviction has only 30 seconds of notice.
EVERY_SECONDS = float(os.environ.get("NAIVE_SECONDS", "60"))


def ask(body: bytes | None = None) -> bytes:
    """Send a poll or an approval; return the answer."""
    request = urllib.request.Request(URL, body, {"Metadata": "true"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  (it is http)
            return bytes(answer.read())
    except OSError as error:
        print(f"no answer: {error}", flush=True)
        return b'{"Events": []}'


def events() -> list[dict[str, object]]:
    """Poll for events."""
    # FAULT 2: an answer may be empty or cut. Reading it then raises, and the handler exits.
    scheduled: list[dict[str, object]] = json.loads(ask())["Events"]
    # FAULT 3: ignores two types of events, so they wait until NotBefore, and nothing is saved.
    return [event for event in scheduled if event["EventType"] not in {"Freeze", "Terminate"}]


def approve(event: dict[str, object]) -> None:
    """Approve an event."""
    print(f"approving {event['EventType']} of {event['Resources']}", flush=True)
    # FAULT 4: does not repeat an approval that failed, so the event waits until NotBefore.
    ask(json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())


def main() -> None:
    """Poll in a loop."""
    # FAULT 5: ignores the events that exist at the start. After a reboot in the middle of an
    # event, the handler never handles that event.
    known = {event["EventId"]: event for event in events()}
    while True:
        time.sleep(EVERY_SECONDS)
        current = {event["EventId"]: event for event in events()}
        for event_id, event in current.items():
            if event_id in known or event["EventStatus"] == "Started":
                continue
            if event["EventSource"] == "User":
                # FAULT 6: approves every event of a user immediately, even if it is for another
                # machine or other machines of the event are not ready.
                approve(event)
            # FAULT 7: events have the resource names of machines. In a scale set the host name
            # differs, so this is never true.
            elif socket.gethostname() in event["Resources"]:  # type: ignore[operator]
                approve(event)
        for event_id, event in known.items():
            if event_id not in current and event["EventStatus"] == "Scheduled":
                # FAULT 8: an event that disappears may have been cancelled.
                print(f"{event['EventType']} has started: exiting before the impact", flush=True)
                sys.exit()
        known = current


if __name__ == "__main__":
    main()
