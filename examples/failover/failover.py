"""The agent's hook on both machines of a PostgreSQL pair: a primary and a streaming standby.

    failover.py DATA PEER -- COMMAND...

DATA is the data folder of this server, PEER the connection string of the other server, and COMMAND
runs `pg_ctl promote` there. Before its machine goes down, the primary stops, which sends all
committed transactions to the standby; it is configured to start as a standby; and the other server
is promoted. A server is promoted only after the primary has stopped, so there are never two
primaries. Each step can be repeated. A standby has nothing to prepare.
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
    """Run pg_ctl; return whether it succeeded."""
    log = ("-l", str(DATA / "server.log"))  # otherwise the server keeps the agent's pipe open
    return subprocess.run(["pg_ctl", "-w", "-D", DATA, *log, *words], check=False).returncode == 0


def ask(server: str, question: str) -> str:
    """Return the answer of a server; empty if there is none."""
    command = ["psql", "-XAtq", "-d", server, "-c", question]
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()


def step_down() -> None:
    """Stop the primary, and configure it to start as a standby."""
    if pg_ctl("status"):
        port = (DATA / "postmaster.pid").read_text().splitlines()[3]
        if ask(f"host=127.0.0.1 port={port} user=postgres", FOLLOWERS) in {"", "0"}:
            sys.exit("no standby is streaming; this server stays the primary")
        if not pg_ctl("stop", "-m", "fast"):
            sys.exit("cannot stop this server; the standby is not promoted")
    STANDBY.touch()


def peer_is_primary() -> bool:
    """Return whether the other server accepts writes."""
    return ask(PEER, "select pg_is_in_recovery()") == "f"


if os.environ["FAIRWARNING_PHASE"] == "scheduled":
    if not STANDBY.exists():
        step_down()
    if not peer_is_primary():
        subprocess.run(PROMOTE, check=False)
        sys.exit(not peer_is_primary())
elif not pg_ctl("status"):
    sys.exit(not pg_ctl("start"))  # as a standby, unless the system has already started it
