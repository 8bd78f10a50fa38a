"""Patroni, etcd, HAProxy and PgBouncer, set up as in docs/high-availability.md, fail under load."""

import asyncio
import re
import signal
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster.cluster import ForkServer, History
from tests.cluster.patroni import FILES, PAGE, HighAvailability, missing_packages
from tests.cluster.test_failover import Traffic, check_run, under_load
from tests.docs.pages import blocks
from tests.fixtures.waiting import on_this_machine, wait_until_async

COMMANDS_PER_SECOND = 20
ROUNDS = 5  # of each of the four failovers
RESUMED_SECONDS = 15.0
ETCD_SECONDS = 15.0  # without etcd; longer than the lock of the primary

Fault = Callable[[HighAvailability], Awaitable[None]]


async def switch_over(setup: HighAvailability) -> None:
    """Let another host become the primary, as before maintenance."""
    primary = await asyncio.to_thread(setup.primary)
    await asyncio.to_thread(primary.request, "switchover", {"leader": primary.name})


async def kill_primary(setup: HighAvailability) -> None:
    """PostgreSQL crashes; Patroni on its host goes on."""
    host = await asyncio.to_thread(setup.primary)
    host.kill_postgres()
    await asyncio.to_thread(setup.primary, other_than=host)


async def lose_host(setup: HighAvailability) -> None:
    """The host of the primary is gone, and comes back after the failover."""
    host = await asyncio.to_thread(setup.primary)
    host.lose()
    await asyncio.to_thread(setup.primary, other_than=host)
    host.start()


async def pause_host(setup: HighAvailability) -> None:
    """The host of the primary hangs, and comes back after the failover, as if nothing was."""
    host = await asyncio.to_thread(setup.primary)
    host.pause()
    await asyncio.to_thread(setup.primary, other_than=host)
    host.resume()


async def restart_haproxy(setup: HighAvailability) -> None:
    """All connections break."""
    setup.haproxy.end(signal.SIGTERM)
    setup.haproxy.start()


async def restart_pgbouncer(setup: HighAvailability) -> None:
    """The same, one step before."""
    setup.pgbouncer.end(signal.SIGTERM)
    setup.pgbouncer.start()


async def lose_etcd(setup: HighAvailability) -> None:
    """Nobody can become the primary, so it stays."""
    for host in setup.hosts:
        host.etcd.end()
    await asyncio.sleep(ETCD_SECONDS)
    for host in setup.hosts:
        host.etcd.start()


FAILOVERS: tuple[Fault, ...] = (switch_over, kill_primary, lose_host, pause_host)
OTHERS: tuple[Fault, ...] = (restart_haproxy, restart_pgbouncer, lose_etcd)


async def inject(setup: HighAvailability, traffic: Traffic, fault: Fault) -> float:
    """Cause a fault, wait until all hosts run, and return the longest time without service."""
    began = time.time()
    await fault(setup)
    await asyncio.to_thread(setup.wait_until_whole)
    whole = time.time()
    await wait_until_async(lambda: traffic.acknowledged_since(whole), "service resumes")
    took = longest_gap(traffic.history, began)
    print(f"{fault.__name__}: {took:.1f} s without service, whole after {whole - began:.1f} s")
    return took


def longest_gap(history: History, since: float) -> float:
    """The longest time in which a process acknowledged nothing."""
    answers: dict[str, list[float]] = {}
    for submitted in history.commands:
        if submitted.outcome == "done" and submitted.answered > since:
            answers.setdefault(submitted.process, [since]).append(submitted.answered)
    return max(
        later - earlier for times in answers.values() for earlier, later in pairwise(sorted(times))
    )


async def run_faults(
    setup: HighAvailability, fork_server: ForkServer, folder: Path, faults: list[Fault]
) -> tuple[History, list[float]]:
    """Cause all faults under load."""
    async with under_load(setup.url, fork_server, folder, COMMANDS_PER_SECOND) as traffic:
        took = [await inject(setup, traffic, fault) for fault in faults]
    return traffic.history, took


def test_the_page_installs_every_file() -> None:
    """Where the program looks for it, as the first line of the file says."""
    marked = (block.text for block in blocks(PAGE) if block.mark.endswith(Path(__file__).name))
    commands = "".join(marked)
    for file in FILES.iterdir():
        assert re.search(rf"^.* {file.name} (> )?/etc/\S+$", commands, re.MULTILINE), file
        if match := re.match(r"[#;] (/etc/\S+) ", file.read_text()):
            assert f"{match[1]}\n" in commands


@pytest.mark.campaign
@pytest.mark.skipif(bool(missing_packages()), reason=missing_packages())
@pytest.mark.spec("X3", "X6", "E9")
def test_nothing_is_lost_and_service_resumes(tmp_path: Path) -> None:
    """IK2: 20 failovers, and faults of what is around the database; no process is restarted."""
    faults = [*(FAILOVERS * ROUNDS), *OTHERS]
    with HighAvailability() as setup, ForkServer() as fork_server:
        history, took = asyncio.run(run_faults(setup, fork_server, tmp_path, faults))
        check_run(setup.url, history, tmp_path)
    assert max(took) < on_this_machine(RESUMED_SECONDS), took
