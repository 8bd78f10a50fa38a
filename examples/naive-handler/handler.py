"""A handler as one writes it on the first afternoon. It works, on a good day. Do not copy it.

    fairwarning certify -- python3 handler.py

finds its six faults, which are marked below. NAIVE_SECONDS is how often it asks.
"""

import json
import os
import socket
import sys
import time
import urllib.request

URL = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

# FAULT 1: once a minute. An eviction is announced 30 seconds before.
EVERY_SECONDS = float(os.environ.get("NAIVE_SECONDS", "60"))


def ask(body: bytes | None = None) -> bytes:
    """The document, or the answer to an approval."""
    request = urllib.request.Request(URL, body, {"Metadata": "true"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  (it is http)
            return bytes(answer.read())
    except OSError as error:
        print(f"no answer: {error}", flush=True)
        return b'{"Events": []}'


def events() -> list[dict[str, object]]:
    """What is planned."""
    # FAULT 2: an answer may be empty. This raises, nobody catches it, and the handler is gone.
    found: list[dict[str, object]] = json.loads(ask())["Events"]
    # A freeze is only a pause: nothing to prepare.
    return [event for event in found if event["EventType"] not in {"Freeze", "Terminate"}]


def approve(event: dict[str, object]) -> None:
    """Let it begin."""
    print(f"approving {event['EventType']} of {event['Resources']}", flush=True)
    ask(json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())


def main() -> None:
    """Look, sleep, look again."""
    # FAULT 3: what is there at the start is taken for old. After a reboot in the middle of an
    # event, that event is never seen to.
    known = {event["EventId"]: event for event in events()}
    while True:
        time.sleep(EVERY_SECONDS)
        present = {event["EventId"]: event for event in events()}
        for name, event in present.items():
            if name in known or event["EventStatus"] == "Started":
                continue
            if event["EventSource"] == "User":
                # FAULT 4: we asked for it ourselves, so at once; whichever machine it is about,
                # and whether the others that it names are ready or not.
                approve(event)
            # FAULT 5: events name machines by their resource names. In a scale set the host
            # name is another, so this is never true.
            elif socket.gethostname() in event["Resources"]:  # type: ignore[operator]
                approve(event)
        for name, event in known.items():
            if name not in present and event["EventStatus"] == "Scheduled":
                # FAULT 6: an event that is gone may have been cancelled.
                print(f"{event['EventType']} has begun: ending before we are ended", flush=True)
                sys.exit()
        known = present


if __name__ == "__main__":
    main()
