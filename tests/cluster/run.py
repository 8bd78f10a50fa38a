"""One seed: a cluster, clients and faults; then a quiet phase, and the checks."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import psycopg

from fairwarning.core.commands import Approve
from fairwarning.store.postgres.store import PostgresStore
from tests.cluster import commit_recorder
from tests.cluster.action_log import read_actions
from tests.cluster.checks import check_all, check_tables
from tests.cluster.cluster import Cluster, ForkServer
from tests.cluster.committed_state import CommittedState
from tests.cluster.faults import LEASE_SECONDS, draw_faults, inject
from tests.cluster.load import Load
from tests.cluster.plants import plant_sql
from tests.cluster.webhook_load import WebhookLoad, WebhookReceiver, check_webhooks
from tests.cluster.worker import WorkerSettings
from tests.fixtures.waiting import on_this_machine
from tests.sim.violations import Violation, must

CLIENTS = 8
FAULT_SECONDS = 2.0
STALENESS = 1.25  # of a lease; shorter than a pause
SETTLING_SECONDS = 20.0
TRANSACTION_ROWS = 6  # so few that most batches are split


async def prepare(url: str, *bugs: str) -> None:
    """Create the tables, with these bugs, and record every commit."""
    store = PostgresStore(url)
    await store.open()
    await store.close()
    for bug in bugs:
        plant_sql(bug, url)
    commit_recorder.install(url)


async def run(
    seed: int,
    url: str,
    fork_server: ForkServer,
    folder: Path,
    settling_seconds: float = SETTLING_SECONDS,
) -> str:
    """Run one seed on a prepared database, and return its figures.

    Raises `Violation` with a command to repeat it.
    """
    began = time.monotonic()
    try:
        figures = await _run(seed, url, fork_server, folder, settling_seconds)
    except BaseException as error:
        error.add_note(f"repeat: .venv/bin/python -m tests.cluster {seed}")
        raise
    return f"seed {seed}: {figures}, {time.monotonic() - began:.1f} s"


async def _run(
    seed: int, url: str, fork_server: ForkServer, folder: Path, settling_seconds: float
) -> str:
    lease = on_this_machine(LEASE_SECONDS)
    staleness = STALENESS * lease
    settings = WorkerSettings("", url, str(folder), lease, staleness, TRANSACTION_ROWS)
    unsettled: Violation | None = None
    with WebhookReceiver(Random(f"receiver {seed}")) as receiver:
        async with Cluster(fork_server, settings) as cluster:
            load = Load(cluster, Random(seed))
            webhooks = WebhookLoad(cluster, Random(f"webhooks {seed}"), receiver)
            await load.create_fleet()
            await run_with_faults(load, webhooks, url, Random(f"faults {seed}"), lease)
            try:
                await wait_until_quiet(load, url, settling_seconds)
                await webhooks.wait_until_delivered(url, settling_seconds)
            except Violation as violation:
                unsettled = violation  # another violation may be its cause
    committed = CommittedState()
    batches, tables = commit_recorder.read(url)
    for batch in batches:
        committed.add(batch)
    actions = read_actions(settings.action_log)
    check_all(committed, load.history, actions, staleness_seconds=staleness)
    check_tables(committed, tables)
    check_webhooks(committed, webhooks)
    if unsettled:
        raise unsettled
    committed.check_settled()
    lost = sum(submitted.outcome == "lost" for submitted in load.history.commands)
    repeated = sum(action.word == "begun" for action in actions) - len(committed.began)
    return (
        f"{len(cluster.all_processes)} processes, "
        f"{len(load.history.commands)} commands ({lost} without an answer), "
        f"{len(load.history.reads)} documents ({load.history.unavailable} unavailable), "
        f"{committed.commits} batches, "
        f"{len(committed.began)} impacts ({repeated} handed over again), "
        f"{sum(map(len, receiver.arrived.values()))} messages of "
        f"{len(receiver.arrived)} subscriptions, "
        f"started at most {committed.latest_start:.1f} s late"
    )


async def run_with_faults(
    load: Load, webhooks: WebhookLoad, url: str, random: Random, lease: float
) -> None:
    """Run clients while faults are injected."""
    stop = asyncio.Event()
    faults = draw_faults(random, len(load.cluster.processes), FAULT_SECONDS, lease)
    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(load.client(stop))
        group.create_task(webhooks.client(stop))
        minimum = asyncio.create_task(asyncio.sleep(FAULT_SECONDS))
        await inject(load.cluster, url, faults)
        await minimum
        stop.set()


async def wait_until_quiet(load: Load, url: str, seconds: float) -> None:
    """Without faults everything finishes, all processes agree, and none stopped writing."""

    async def approve(scopes: list[str]) -> None:
        for scope in scopes:
            await load.poll(scope)
            if events := load.scheduled(scope):
                await load.submit(Approve(scope=scope, events=tuple(events)))

    await settle(url, seconds, approve)
    await wait_until_consistent(load, seconds)
    for process in load.cluster.all_processes:
        log = process.log_tail()
        must("Traceback" not in log and "CRITICAL" not in log, "IS4", f"{process.name}: {log}")


async def settle(
    url: str, seconds: float, approve: Callable[[list[str]], Awaitable[None]] | None = None
) -> None:
    """IL6: wait until everything has finished; approve scheduled events if a function is given."""
    began = time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:
        while unfinished := await asyncio.to_thread(commit_recorder.unfinished, connection):
            in_time = time.monotonic() - began < on_this_machine(seconds)
            must(in_time, "IL6", f"unfinished: {unfinished}")
            if approve:
                await approve([name for kind, name in unfinished if kind == "Scope"])
            await asyncio.sleep(0.05)


async def wait_until_consistent(load: Load, seconds: float) -> None:
    """X2: in the end, all processes show the same."""

    async def differ() -> bool:
        for scope in load.scopes:
            answers = [await process.request(poll=scope) for process in load.cluster.processes]
            if any({**answer, "n": 0} != {**answers[0], "n": 0} for answer in answers):
                return True
        return False

    began = time.monotonic()
    while await differ():
        in_time = time.monotonic() - began < on_this_machine(seconds)
        must(in_time, "X2", "processes keep showing different documents")
        await asyncio.sleep(0.02)
