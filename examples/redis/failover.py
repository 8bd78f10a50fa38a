"""The agent's hook on a host with Redis and Sentinel: a master hands over before it goes down.

    failover.py REDIS SENTINEL NAME

The addresses are HOST:PORT, NAME is Sentinel's name of the master. A failover by Sentinel alone may
lose writes that the master has acknowledged and not yet sent. So writes pause until the replicas
have everything; Sentinel fails over; and the old master is made a replica before the pause ends, so
it never accepts a write again. A client sees a pause, then READONLY, and asks Sentinel for the new
master. If anything fails, or the hook is killed, the pause ends and the old master goes on.
"""
# ruff: noqa: S603  (redis-cli is the administrator's own)

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable

REDIS, SENTINEL, NAME = sys.argv[1:]
ANSWER_SECONDS = 5.0
WAIT_SECONDS = 25.0  # more than Sentinel's failover-timeout: then it has given up
PAUSE_SECONDS = 60  # more than the two steps of the pause take
LOOK_SECONDS = 0.1


def ask(server: str, *command: str) -> list[str]:
    """Return the lines of an answer; exit if there is none, or it is an error."""
    host, _, port = server.rpartition(":")
    words = ["redis-cli", "-e", "-h", host, "-p", port, *command]
    pipe = subprocess.PIPE
    done = subprocess.run(
        words, check=False, stdout=pipe, stderr=subprocess.STDOUT, text=True, timeout=ANSWER_SECONDS
    )
    if done.returncode:
        raise OSError(f"{server}, {' '.join(command)}: {done.stdout.strip()}")
    return done.stdout.split()


def master(sentinel: str = SENTINEL) -> str:
    """Return the address of the master, by a Sentinel."""
    return ":".join(ask(sentinel, "sentinel", "get-master-addr-by-name", NAME))


def replication(server: str) -> tuple[str, list[str]]:
    """Return how much a master has written, and how much of it each connected replica has."""
    info = "\n".join(ask(server, "info", "replication"))
    (own,) = re.findall(r"master_repl_offset:(\d+)", info)
    return own, re.findall(r"state=online,offset=(\d+)", info)


def replicas_have_all() -> bool:
    """Return whether every replica that is connected has everything."""
    own, offsets = replication(REDIS)
    return bool(offsets) and set(offsets) == {own}


def is_master_everywhere(server: str, replicas: int) -> bool:
    """Return whether so many replicas follow a master, and every Sentinel that answers knows it."""
    others = " ".join(ask(SENTINEL, "sentinel", "sentinels", NAME))
    for host, port in re.findall(r"\bip (\S+) port (\d+)", others):
        try:
            if master(f"{host}:{port}") != server:
                return False
        except (OSError, subprocess.TimeoutExpired):
            continue  # it learns of the new master when it is back
    return len(replication(server)[1]) >= replicas


def wait_until(condition: Callable[[], bool], problem: str) -> None:
    """Wait until a condition holds."""
    ends = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > ends:
            raise OSError(problem)
        time.sleep(LOOK_SECONDS)


def hand_over() -> None:
    """Let a replica become the master.

    This host's Sentinel leads the failover, so it has to tell all others before the host goes down.
    """
    old, replicas = master(), len(replication(REDIS)[1])
    ask(SENTINEL, "sentinel", "ckquorum", NAME)
    ask(REDIS, "client", "pause", str(PAUSE_SECONDS * 1000), "write")
    try:
        wait_until(replicas_have_all, f"a replica of {REDIS} is behind; it stays the master")
        ask(SENTINEL, "sentinel", "failover", NAME)
        wait_until(lambda: master() != old, f"{REDIS} was not replaced; it stays the master")
        new = master()
        ask(REDIS, "replicaof", *new.rsplit(":", 1))
    finally:
        ask(REDIS, "client", "unpause")
    wait_until(lambda: is_master_everywhere(new, replicas), f"not all follow {new}, the new master")


def main() -> None:
    """Hand over before an event; after it, fail until this server follows the master."""
    role = ask(REDIS, "role")
    if os.environ["FAIRWARNING_PHASE"] == "scheduled":
        if role[0] == "master":
            hand_over()
    elif role[0] != "slave" or role[3] != "connected":
        raise OSError(f"{REDIS} is not a connected replica: {' '.join(role[:4])}")


try:
    main()
except (OSError, ValueError, subprocess.TimeoutExpired) as error:
    sys.exit(str(error))
