"""The agent's hook on both machines of a PostgreSQL pair: a primary and a streaming standby.

    failover.py DATA PEER

DATA is the data folder of this server, PEER the connection string of the other server, for a user
that may call `pg_promote`. Before its machine goes down, the primary stops, which sends all
committed transactions to the standby; it is configured to start as a standby; and the other server
is promoted. A server is promoted only after the primary has stopped, so there are never two
primaries. If the other server refuses, this one becomes the primary again, and the event is not
approved. A standby has nothing to prepare.

The file DATA/handing-over exists from the first step until the other server is surely the primary,
or this one is again. So each step can be repeated, the hook may be killed anywhere, and the hook of
phase over, which runs again until it succeeds, finishes what was interrupted.
"""
# ruff: noqa: S603, S607  (these commands are the administrator's own)

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

DATA, PEER = Path(sys.argv[1]), sys.argv[2]
STANDBY, HANDING_OVER = DATA / "standby.signal", DATA / "handing-over"
ANSWER_SECONDS, PROMOTE_SECONDS, ROLLBACK_SECONDS = 10, 30, 20
REFUSED = 1  # psql's exit code for an error of SQL: nothing was done

IN_RECOVERY = "select pg_is_in_recovery()"
FOLLOWERS = "select count(*) from pg_stat_replication where state = 'streaming'"
PROMOTE = f"select pg_promote(true, {PROMOTE_SECONDS})"


def pg_ctl(*words: str) -> bool:
    """Run pg_ctl; return whether it succeeded."""
    log = ("-l", str(DATA / "server.log"))  # otherwise the server keeps the agent's pipe open
    return subprocess.run(["pg_ctl", "-w", "-D", DATA, *log, *words], check=False).returncode == 0


def ask(server: str, question: str, seconds: int = ANSWER_SECONDS) -> tuple[int, str]:
    """Return psql's exit code and the answer of a server; empty if there is none."""
    command = ["psql", "-XAtq", "-d", server, "-c", question]
    env = {**os.environ, "PGCONNECT_TIMEOUT": "5"}
    pipe = subprocess.PIPE
    try:
        done = subprocess.run(
            command, check=False, stdout=pipe, text=True, env=env, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return -1, ""
    return done.returncode, done.stdout.strip()


def peer_is_primary() -> bool | None:
    """Return whether the other server accepts writes; None if it does not answer."""
    return {"f": True, "t": False}.get(ask(PEER, IN_RECOVERY)[1])


def create(path: Path) -> None:
    """Create a file durably: after a power loss, this server must not start as a second primary."""
    path.touch()
    folder = os.open(DATA, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def step_down() -> None:
    """Stop the primary, and configure it to start as a standby."""
    if pg_ctl("status"):
        port = (DATA / "postmaster.pid").read_text().splitlines()[3]
        streaming = ask(f"host=127.0.0.1 port={port} user=postgres", FOLLOWERS)[1] not in {"", "0"}
        if not streaming or peer_is_primary() is not False:
            sys.exit("no standby is streaming; this server stays the primary")
        create(HANDING_OVER)
        if not pg_ctl("stop", "-m", "fast"):
            sys.exit("cannot stop this server; the standby is not promoted")
    create(STANDBY)


def promote_peer(ends: float) -> None:
    """Promote the other server; become the primary again if it refuses."""
    while not (is_primary := peer_is_primary()):
        if is_primary is False and ask(PEER, PROMOTE, 2 * PROMOTE_SECONDS)[0] == REFUSED:
            return_to_primary()
            sys.exit("the other server refuses to be promoted; this server is the primary again")
        if time.time() >= ends:  # a later run will know more
            sys.exit("it is not known whether the other server is the primary; this one is not")
        time.sleep(1)
    HANDING_OVER.unlink(missing_ok=True)


def return_to_primary() -> None:
    """Make this server the primary, as the other one is a standby."""
    if pg_ctl("status"):
        succeeded = not STANDBY.exists() or pg_ctl("promote")
    else:
        STANDBY.unlink(missing_ok=True)
        succeeded = pg_ctl("start")
    if not succeeded:
        sys.exit("neither server is the primary: look at server.log of both")
    HANDING_OVER.unlink(missing_ok=True)


def prepare() -> None:
    """Hand over, if this server is the primary."""
    if STANDBY.exists() and not HANDING_OVER.exists():
        return
    ends = os.environ["FAIRWARNING_DEADLINE"].replace("Z", "+00:00")
    deadline = datetime.fromisoformat(ends)  # older Pythons do not know the Z
    if not STANDBY.exists():
        step_down()
    promote_peer(deadline.timestamp() - ROLLBACK_SECONDS)


def recover() -> None:
    """Start this server, unless the system has already done so, and make sure of one primary."""
    if HANDING_OVER.exists() and not STANDBY.exists():  # the other server was not promoted yet
        return_to_primary()
    if not pg_ctl("status") and not pg_ctl("start"):
        sys.exit("cannot start this server: look at server.log")
    if HANDING_OVER.exists():
        promote_peer(time.time() + ANSWER_SECONDS)
    is_primary = peer_is_primary()
    if STANDBY.exists() != bool(is_primary):
        sys.exit("both servers are primaries" if is_primary else "the other server is no primary")


if os.environ["FAIRWARNING_PHASE"] == "scheduled":
    prepare()
else:
    recover()
