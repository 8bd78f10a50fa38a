"""Planted bugs: each must be found, by an invariant that it breaks.

A bug is in the store or the driver of every process that is forked after it was planted, or in the
function of the database that commits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import psycopg

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Impact
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch, ScopeChange
from tests.cluster.acts import FileDriver

ONE_IN = 8  # commits that a bug strikes


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: the invariants it breaks (any may show first), and how it is planted."""

    breaks: str
    code: Callable[[], None] | None = None
    sql: tuple[str, str] | None = None  # in `commit_batch`: what is replaced, and by what


def _act_without_looking() -> None:
    FileDriver._outcome = lambda self, impact: None  # type: ignore[method-assign]


def _leave_the_dead() -> None:
    async def unfinished(self: PostgresStore, after: str, limit: int) -> list[Impact]:
        return []

    PostgresStore.unfinished_impacts = unfinished  # type: ignore[method-assign]


def _stay_behind() -> None:
    async def changed(self: PostgresStore, after: int, limit: int) -> list[ScopeChange]:
        return []

    PostgresStore.changes_since = changed  # type: ignore[method-assign]


def _lose_commits() -> None:
    real, number = PostgresStore.commit, count(1)

    async def commit(self: PostgresStore, batch: Batch) -> float | None:
        asked = any(line.actor.startswith("client") for line in batch.lines)
        return None if asked and next(number) % ONE_IN == 0 else await real(self, batch)

    PostgresStore.commit = commit  # type: ignore[method-assign]


def _deny_commits() -> None:
    real, number = PostgresStore.commit, count(1)

    async def commit(self: PostgresStore, batch: Batch) -> float | None:
        due = await real(self, batch)
        if next(number) % ONE_IN == 0:
            raise Unavailable("Planted", "it was committed all the same")
        return due

    PostgresStore.commit = commit  # type: ignore[method-assign]


PLANTS = {
    "act without looking": Plant("IL5", _act_without_looking),
    "leave what the dead had begun": Plant("IL6", _leave_the_dead),
    "stay behind": Plant("IK3 X2", _stay_behind),
    "acknowledge what is not durable": Plant("E9 IL5 IL9 ID2", _lose_commits),
    "refuse what took effect": Plant("IL8", _deny_commits),
    "decide on what is old": Plant("IK1", sql=("IF stale IS NOT NULL THEN", "IF false THEN")),
}


def plant_code(name: str) -> None:
    """From now on, processes have this bug."""
    if code := PLANTS[name].code:
        code()


def plant_sql(name: str, url: str) -> None:
    """From now on, this database has it."""
    if replaced := PLANTS[name].sql:
        with psycopg.connect(url) as connection:
            connection.execute("SET search_path TO fairwarning")
            found = connection.execute(
                "SELECT pg_get_functiondef('commit_batch'::regproc)"
            ).fetchone()
            assert found
            assert replaced[0] in found[0], f"the plant does not fit: {replaced[0]!r}"
            connection.execute(found[0].replace(*replaced).encode())
