"""The agent's hook on a host of a Patroni cluster: a leader hands over before its host goes down.

    switchover.py URL

URL is the REST API of Patroni on this host. Patroni chooses the new leader, and in synchronous mode
only one that has every commit; if it cannot, the old one stays, and the event is not approved. A
replica has nothing to prepare. Each step can be repeated.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

URL = sys.argv[1].rstrip("/")
ANSWER_SECONDS, SWITCHOVER_SECONDS = 5.0, 60.0
LOOK_SECONDS = 0.5
LEADERS = {"leader", "standby_leader"}


def ask(path: str, content: object = None, seconds: float = ANSWER_SECONDS) -> Any:  # noqa: ANN401
    """Send a request to Patroni; return its JSON, or its text."""
    body = None if content is None else json.dumps(content).encode()
    with urllib.request.urlopen(f"{URL}/{path}", body, timeout=seconds) as answer:  # noqa: S310
        text = answer.read().decode()
    try:
        return json.loads(text)
    except ValueError:
        return text


def leader() -> str:
    """Return the name of the leader that runs; empty if there is none."""
    members = ask("cluster")["members"]
    names = [member["name"] for member in members if member["role"] in LEADERS]
    return names[0] if names else ""


def is_leader() -> bool:
    """Return whether this member is the leader: the status is 200 or 503."""
    try:
        ask("leader")
    except urllib.error.HTTPError:
        return False
    return True


def hand_over() -> None:
    """Make another member the leader, if this one is."""
    if not is_leader():
        return
    me = leader()
    print(ask("switchover", {"leader": me}, SWITCHOVER_SECONDS))
    while is_leader() or leader() in {"", me}:  # the agent ends this hook after its timeout
        time.sleep(LOOK_SECONDS)


def main() -> None:
    """Hand over before an event; after it, fail until this member runs and there is a leader."""
    if os.environ["FAIRWARNING_PHASE"] == "scheduled":
        hand_over()
    elif (state := ask("patroni")["state"]) != "running" or not leader():
        sys.exit(f"this member is {state}, and the leader {leader() or 'not known'}")


try:
    main()
except urllib.error.HTTPError as error:
    sys.exit(f"Patroni refuses: {error.read().decode(errors='replace')}")
except (OSError, ValueError, KeyError) as error:
    sys.exit(f"Patroni at {URL} does not answer: {error}")
