"""Planted bugs: each must be found through an invariant that it breaks.

A bug is planted in the store, the committer or the driver of every process that is forked
afterwards, or in the database function that commits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import psycopg

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Impact
from fairwarning.service.webhooks.cursors import Cursors
from fairwarning.service.webhooks.subscription import Subscription
from fairwarning.service.webhooks.webhooks import WebhookService
from fairwarning.service.writer.batch import CommandBatch, PendingCommand
from fairwarning.service.writer.committer import Committer
from fairwarning.store.postgres.batch_writer import BatchWriter
from fairwarning.store.postgres.duties import Duties
from fairwarning.store.postgres.lease import ProcessLease
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch
from tests.cluster.action_log import FileDriver

ONE_IN = 8  # commits that are affected


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: the invariants it breaks (any may be found first), and how to plant it."""

    breaks: str
    code: Callable[[], None] | None = None
    sql: Mapping[str, str] = field(default_factory=dict)  # texts in `write_batch`, replacements
    failover: bool = False  # whether only a failover finds it


def _result(owner: type, method: str, result: object) -> Callable[[], None]:
    """Let a coroutine method do nothing but return this."""

    async def planted(*_: object) -> object:
        return result

    return partial(setattr, owner, method, planted)


def _lose_impacts_that_were_taken_over() -> None:
    real = PostgresStore.unfinished_impacts

    async def unfinished_impacts(self: PostgresStore, after: str, limit: int) -> list[Impact]:
        if await real(self, after, limit):
            self._lease.impacts_unclear = False
            raise Unavailable("Planted", "the answer was lost")
        return []

    PostgresStore.unfinished_impacts = unfinished_impacts  # type: ignore[method-assign]


def _lose_commits() -> None:
    real, number = PostgresStore.commit, count(1)

    async def commit(self: PostgresStore, batch: Batch) -> float | None:
        by_client = any(line.actor.startswith("client") for line in batch.lines)
        return None if by_client and next(number) % ONE_IN == 0 else await real(self, batch)

    PostgresStore.commit = commit  # type: ignore[method-assign]


def _refuse_stored_commits() -> None:
    real, number = PostgresStore.commit, count(1)

    async def commit(self: PostgresStore, batch: Batch) -> float | None:
        due = await real(self, batch)
        if next(number) % ONE_IN == 0:
            raise Unavailable("Planted", "the batch was committed all the same")
        return due

    PostgresStore.commit = commit  # type: ignore[method-assign]


def _acknowledge_commands_that_are_left() -> None:
    real = Committer.decide

    async def decide(self: Committer, waiting: Sequence[PendingCommand]) -> CommandBatch:
        work = await real(self, waiting)
        work.left = 0
        return work

    Committer.decide = decide  # type: ignore[method-assign]


def _keep_old_subscriptions() -> None:
    real = WebhookService._add_delivery

    async def add_delivery(self: WebhookService, subscription: Subscription) -> None:
        known = self._deliveries.get(subscription.id)
        await real(self, known.subscription if known else subscription)

    async def check(self: Cursors, subscription: Subscription) -> None:
        return None

    WebhookService._add_delivery = add_delivery  # type: ignore[method-assign]
    Cursors.check = check  # type: ignore[method-assign]


PLANTS = {
    "skip the action log": Plant("IL5", partial(setattr, FileDriver, "_outcome", lambda *_: None)),
    "ignore orphaned impacts": Plant("IL6", _result(PostgresStore, "unfinished_impacts", [])),
    "lose impacts that were taken over": Plant("IL6", _lose_impacts_that_were_taken_over),
    "ignore the change feed": Plant("IK3 X2", _result(PostgresStore, "changes_since", [])),
    "acknowledge lost commits": Plant("E9 IL5 IL9 ID2", _lose_commits),
    "refuse stored commits": Plant("IL8", _refuse_stored_commits),
    "report lost commits as failed": Plant(
        "IL6 IL8", _result(BatchWriter, "_abandon", (True, None))
    ),
    "acknowledge commands that are left": Plant(
        "E9 IL9 IL5 ID2", _acknowledge_commands_that_are_left
    ),
    "trust memory after a failover": Plant(
        "E9", _result(ProcessLease, "adopt_server", None), failover=True
    ),
    "keep duties after a failover": Plant(
        "IK5", partial(setattr, Duties, "_may_hold", lambda *_: True), failover=True
    ),
    "keep old subscriptions": Plant("IK5", _keep_old_subscriptions),
    "resume webhooks only in one process": Plant("IK5", _result(Cursors, "resume", None)),
    "skip the version check": Plant("IK1", sql={"IF stale IS NOT NULL THEN": "IF false THEN"}),
    "end commits in any order": Plant(
        "IC7 IK1 IK3 IK5 X2",
        sql={
            "PERFORM pg_advisory_xact_lock_shared(1180789107, first.predecessor);": "",
            "IF (before.position,": "IF false AND (before.position,",
        },
    ),
}


def plant_sql(name: str, url: str) -> None:
    """Plant the bug in the database."""
    if not PLANTS[name].sql:
        return
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path TO fairwarning")
        row = connection.execute("SELECT pg_get_functiondef('write_batch'::regproc)").fetchone()
        assert row
        text = str(row[0])
        for part, replacement in PLANTS[name].sql.items():
            assert part in text, f"the function does not contain {part!r}"
            text = text.replace(part, replacement)
        connection.execute(text.encode())
