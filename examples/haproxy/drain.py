"""The agent's hook: takes this machine out of HAProxy, waits for its requests, and puts it back.

    drain.py ADMIN-ADDRESS[,ADMIN-ADDRESS...] BACKEND

The server has the name of the machine. HAProxy forgets the state when it is restarted; then its
health check takes the machine out as soon as it is down. Each step can be repeated.
"""

from __future__ import annotations

import csv
import os
import socket
import sys
import time

ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.1

ADDRESSES, BACKEND = sys.argv[1].split(","), sys.argv[2]
SERVER = os.environ["FAIRWARNING_MACHINE"]


def ask(address: str, command: str) -> str:
    """Send a command to HAProxy; return its answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), ANSWER_SECONDS) as connection:
        connection.sendall(command.encode() + b"\n")
        with connection.makefile(encoding="utf-8") as answer:
            return answer.read().strip()


def set_state(address: str, state: str) -> None:
    """Change the state of this machine's server."""
    answer = ask(address, f"set server {BACKEND}/{SERVER} state {state}")
    if answer:  # an error, such as an unknown server
        sys.exit(f"{address}: {answer}")


def servers(address: str) -> dict[str, dict[str, str]]:
    """Return the state of all servers of the backend, by name."""
    lines = ask(address, "show stat").removeprefix("# ").splitlines()
    rows = [row for row in csv.DictReader(lines) if row["pxname"] == BACKEND]
    return {row["svname"]: row for row in rows if row["svname"] != "BACKEND"}


def check_others(address: str) -> None:
    """Put this machine back, and exit, if no other server can take its requests."""
    others = [row["status"] for name, row in servers(address).items() if name != SERVER]
    if not any(status.startswith("UP") or status == "no check" for status in others):
        set_state(address, "ready")
        sys.exit(f"{address}: no other server of {BACKEND} is up; {SERVER} stays")


def drain(address: str) -> None:
    """Send no more requests to this machine, and wait for those in progress."""
    check_others(address)
    set_state(address, "drain")
    check_others(address)  # the last two may have begun at the same moment
    while int(servers(address)[SERVER]["scur"]):  # the agent ends this hook after its timeout
        time.sleep(LOOK_SECONDS)


for each in ADDRESSES:
    try:
        if os.environ["FAIRWARNING_PHASE"] == "scheduled":
            drain(each)
        else:
            set_state(each, "ready")
    except OSError as error:
        sys.exit(f"{each}: {error}")
