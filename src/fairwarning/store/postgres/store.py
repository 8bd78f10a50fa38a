"""The store for many processes: one PostgreSQL, row locks a scope, and a feed of what changes.

Every process is equal. Each is on record with a lease that it renews; what a process holds whose
lease has run out (timers, impacts, duties) is anybody's. See `beats` for how they hear of each
other.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, cast

import psycopg

from fairwarning.core.errors import Conflict, Unavailable
from fairwarning.core.model import Entity, Impact, Ref
from fairwarning.store import codec, scripts
from fairwarning.store.codec import KINDS
from fairwarning.store.differences import address_taken, arriving, stale_version
from fairwarning.store.postgres import rows, schema
from fairwarning.store.postgres.connections import Connection, ConnectionPool, limited, translated
from fairwarning.store.postgres.entity_cache import EntityCache
from fairwarning.store.postgres.rows import PostgresRows
from fairwarning.store.scripts import Migration
from fairwarning.store.store import Batch, Heartbeat, JournalEntry, MachineLocation, ScopeChange

LEASE_SECONDS = 3.0
CONNECTIONS = 5  # beside the one that listens
CACHED_ENTITIES = 4096

_BEATS_A_LEASE = 3
_LOOKS_AT_THE_CLOCK = 5
_UNCLEAR_SECONDS = 1.0  # for which a lost commit is looked for
_STALE = "FW001"
_LAST_NUMBER = 2**63 - 1
_SQL = scripts.queries(__package__)

Row = tuple[Any, ...]


class PostgresStore:
    """Keeps a fleet in a database that other processes use as well."""

    def __init__(
        self,
        url: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        cached: int = CACHED_ENTITIES,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        self.shared = self
        self.process = ""
        self._connections = ConnectionPool(url, CONNECTIONS)
        self._lease = lease_seconds
        self._migrations = schema.migrations() if migrations is None else migrations
        self._known = EntityCache(cached)
        self._retired = False
        self._unsure = False  # whether impacts of ours may be there that we do not know of

    async def open(self) -> None:
        self.process = str(uuid.uuid4())
        self._connections.open()
        try:
            await self._migrate()
            await self._run("join", lease=self._lease)
            await self._run("sweep")
        except BaseException:
            await self._connections.close()
            raise

    async def _migrate(self) -> None:
        connection = await self._connections.connect()
        try:
            await schema.migrate(connection, self._migrations)  # however long that takes
        except psycopg.Error as error:
            raise translated(error) from error
        finally:
            await connection.close()

    async def close(self) -> None:
        with suppress(Unavailable):
            await self._run("leave")
        await self._connections.close()
        self._known.clear()

    async def _run(self, query: str, **values: object) -> list[Row]:
        async with self._connections.one() as connection:
            return await self._ask(connection, query, **values)

    async def _ask(self, connection: Connection, query: str, **values: object) -> list[Row]:
        cursor = await connection.execute(_SQL[query], {"process": self.process, **values})
        return await cursor.fetchall() if cursor.description else []

    # --- Processes ---

    async def heartbeats(self) -> AsyncIterator[Heartbeat]:
        """News of the database: at once when somebody commits, and at every renewal of the lease.

        Ends with `Unavailable` when the connection is lost; whoever follows begins again.
        """
        connection = None
        try:
            connection = await self._connections.connect()
            with limited(connection, self._lease):
                await connection.execute("LISTEN fairwarning")
            await self._connections.back()
            while True:
                yield await self._renew(connection)
                renewal = monotonic() + self._lease / _BEATS_A_LEASE
                while await _heard(connection, renewal - monotonic()):
                    yield await self._news(connection)
        except psycopg.Error as error:
            self._connections.gone()
            raise translated(error) from error
        except Unavailable:
            self._connections.gone()
            raise
        finally:
            if connection is not None:
                await connection.close()

    async def _renew(self, connection: Connection) -> Heartbeat:
        with limited(connection, self._lease):
            if self._retired:
                return await self._news(connection)
            await self._ask(connection, "join", lease=self._lease)
            ((loose,),) = await self._ask(connection, "loose")
            return await self._news(connection, loose=loose or self._unsure)

    async def _news(self, connection: Connection, *, loose: bool = False) -> Heartbeat:
        asked = monotonic()
        with limited(connection, self._lease):
            ((position, line, due),) = await self._ask(connection, "news")
        return Heartbeat(asked, position, line, due, loose)

    async def retire(self) -> None:
        """Hold nothing any more, and take nothing up: others carry on (IS4)."""
        self._retired = True
        with suppress(Unavailable):
            await self._run("leave")

    async def time(self) -> float:
        """What the database's clock says, which all processes go by."""
        answers = []
        for _ in range(_LOOKS_AT_THE_CLOCK):
            asked = monotonic()
            ((told,),) = await self._run("time")
            answers.append((monotonic() - asked, told - asked))
        took, ahead = min(answers)  # the quickest answer is the least in doubt
        return float(ahead + took / 2 + monotonic())

    async def claim_duty(self, duty: str) -> bool:
        return bool(await self._run("take_duty", name=duty)) if not self._retired else False

    # --- Writing ---

    async def commit(self, batch: Batch) -> float | None:
        try:
            written, name = PostgresRows(batch), str(uuid.uuid4())
            text = written.text(name)
        except UnicodeEncodeError as error:
            raise Conflict("BadText", "a text holds half a character; send it whole") from error
        try:
            ((base, due),) = await self._commit(written, name, text)
        except Unavailable:
            self._unsure = True
            raise
        if base != _NOWHERE:
            for position, (ref, entity) in enumerate(written.written, base + 1):
                if entity is None:
                    self._known.drop(ref)
                else:
                    self._known.keep(ref, position, entity)
        return cast("float | None", due)

    async def _commit(self, written: PostgresRows, name: str, text: str) -> list[Row]:
        async with self._connections.one() as connection:
            try:
                return await self._ask(connection, "commit", batch=text)
            except psycopg.errors.UniqueViolation as error:
                raise await self._taken(written) from error
            except psycopg.DatabaseError as error:
                if error.sqlstate == _STALE:
                    kind, _, entity = str(error.diag.message_primary).partition(" ")
                    self._known.drop((KINDS[kind], entity))
                    raise stale_version((KINDS[kind], entity)) from error
                if not connection.closed:
                    raise
                lost = translated(error)
        if await self._is_there(name):
            return [(_NOWHERE, (await self._run("next_due"))[0][0])]
        raise lost

    async def _is_there(self, name: str) -> bool:
        """Whether a batch was committed whose connection was lost in the middle of it.

        Raises `Unavailable` where that cannot be found out: then nobody was told that it was.
        """
        tries = monotonic() + _UNCLEAR_SECONDS
        while True:
            try:
                found = await self._run("last_batch")
            except Unavailable as error:
                if monotonic() > tries:
                    text = "the database was lost while it took this; it may have been done"
                    raise Unavailable("StoreUnclear", f"{text}, so look first") from error
                await asyncio.sleep(0.05)
            else:
                return found == [(name,)]

    async def _taken(self, written: PostgresRows) -> Conflict:
        claims = [(scope, one) for scope, one in arriving(written.moves) if one.address]
        for scope, machine in claims:
            for place in await self.find_machines(address=machine.address):
                if (place.scope, place.machine.name) != (scope, machine.name):
                    return address_taken(machine.address)
        return address_taken(claims[-1][1].address)  # by a machine of the same batch

    async def add_note_if_absent(self, name: str, value: str) -> str:
        await self._run("keep_first", name=name, value=value)
        return str((await self._run("note", name=name))[0][0])

    # --- Entities ---

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        wanted = list(refs)
        known = [self._known.get(ref) for ref in wanted]
        found = await self._run(
            "load",
            kinds=[kind.__name__ for kind, _ in wanted],
            ids=[name for _, name in wanted],
            known=[one[0] if one else _NOWHERE for one in known],
        )
        loaded: dict[Ref, Entity | None] = dict.fromkeys(wanted)
        for at, position, body, machines in found:
            ref, one = wanted[at - 1], known[at - 1]
            if one is not None and one[0] == position:
                entity = one[1]
            else:
                entity = rows.entity(ref[0].__name__, body, machines, one and one[1])
            loaded[ref] = entity
            self._known.keep(ref, position, entity)
        return loaded

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        found = await self._run("take_due", now=now, limit=limit)
        return [(KINDS[kind], name) for _, _, kind, name in sorted(found)]

    async def next_due(self) -> float | None:
        return cast("float | None", (await self._run("next_due"))[0][0])

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        found = await self._run("names", kind=kind.__name__, after=after, limit=limit)
        return [name for (name,) in found]

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        return [name for (name,) in await self._run("busy", after=after, limit=limit)]

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        found = await self._run("take_impacts", after=after, limit=limit)
        self._unsure = self._unsure and bool(found)
        return [codec.impact(body) for _, body in sorted(found)]

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        found = await self._run("changed", after=after, limit=limit)
        return [ScopeChange(position, scope) for position, scope in found]

    async def get_note(self, name: str) -> str | None:
        found = await self._run("note", name=name)
        return str(found[0][0]) if found else None

    # --- Machines ---

    async def find_machines(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[MachineLocation]:
        if name:
            found = await self._run("machines_named", name=name)
        elif address:
            found = await self._run("machines_at", address=address)
        elif scope:
            found = await self._run("machines_of", scope=scope)
        else:
            found = await self._run("machine_numbered", number=number)
        return [rows.place(*row) for row in found]

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        return [rows.place(*row) for row in await self._run("places", after=after, limit=limit)]

    # --- The journal ---

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        if entity is not None:
            found = await self._run(
                "lines_of_entity", kind=entity[0].__name__, id=entity[1],
                after=after, event=event, limit=limit,
            )  # fmt: skip
        elif event:
            found = await self._run("lines_of_event", event=event, after=after, limit=limit)
        else:
            found = await self._run("lines", after=after, limit=limit)
        return [rows.entry(*row) for row in found]

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        found = await self._run(
            "lines_of_operation", operation=operation, after=after, before=before, limit=limit
        )
        return [rows.entry(*row) for row in found]

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        past = _LAST_NUMBER if before is None else before
        if entity is None:
            found = await self._run("latest", before=past, limit=limit)
        else:
            found = await self._run(
                "latest_of_entity", kind=entity[0].__name__, id=entity[1], before=past, limit=limit
            )
        return [rows.entry(*row) for row in found]

    async def drop_old_lines(self, before: float) -> int:
        return int((await self._run("forget", before=before))[0][0])


_NOWHERE = -1  # no position


async def _heard(connection: Connection, seconds: float) -> bool:
    """Whether somebody committed, before the time was up."""
    if seconds <= 0:
        return False
    heard = False
    async for _ in connection.notifies(timeout=seconds, stop_after=1):
        heard = True
    return heard
