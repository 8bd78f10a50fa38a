"""The agent's hook on both machines of a PostgreSQL pair: a primary and a streaming standby.

    failover.py DATA PEER -- COMMAND...

DATA is this server's folder, PEER says how to connect to the other one, and COMMAND runs
`pg_ctl promote` over there. Before its machine goes down, a primary stops, which sends the standby
all that was committed; it is a standby for whoever starts it next; and the other is promoted. Only
one who has stopped lets another take over, so there are never two primaries. Each step may be
repeated. A standby has nothing to prepare.
"""
# ruff: noqa: S603, S607  (these commands are the administrator's own)

import os
import subprocess
import sys
from pathlib import Path

DATA, PEER, PROMOTE = Path(sys.argv[1]), sys.argv[2], sys.argv[4:]
STANDBY = DATA / "standby.signal"
FOLLOWERS = "select count(*) from pg_stat_replication where state = 'streaming'"


def pg_ctl(*words: str) -> bool:
    """Whether it did it."""
    log = ("-l", str(DATA / "server.log"))  # or the server would write into the agent's pipe
    return subprocess.run(["pg_ctl", "-w", "-D", DATA, *log, *words], check=False).returncode == 0


def ask(server: str, question: str) -> str:
    """What a server answers; nothing, if it does not."""
    command = ["psql", "-XAtq", "-d", server, "-c", question]
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()


def step_down() -> None:
    """From primary to a standby that is down."""
    if pg_ctl("status"):
        port = (DATA / "postmaster.pid").read_text().splitlines()[3]
        if ask(f"host=127.0.0.1 port={port} user=postgres", FOLLOWERS) in {"", "0"}:
            sys.exit("no standby follows, so this server stays the primary")
        if not pg_ctl("stop", "-m", "fast"):
            sys.exit("this server does not stop, so nobody is promoted")
    STANDBY.touch()


def peer_is_primary() -> bool:
    """Whether the other one takes writes."""
    return ask(PEER, "select pg_is_in_recovery()") == "f"


if os.environ["FAIRWARNING_PHASE"] == "scheduled":
    if not STANDBY.exists():
        step_down()
    if not peer_is_primary():
        subprocess.run(PROMOTE, check=False)
        sys.exit(not peer_is_primary())
elif not pg_ctl("status"):
    sys.exit(not pg_ctl("start"))  # a standby from now on, unless the system has started it already
