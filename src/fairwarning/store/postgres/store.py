"""The store for many processes: one PostgreSQL database, row locks per scope, and a change feed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import psycopg

from fairwarning.core.errors import AddressTaken, Conflict, Unavailable
from fairwarning.core.model import KINDS, Entity, Impact, Ref
from fairwarning.store import codec
from fairwarning.store.differences import machines_after
from fairwarning.store.postgres import rows, schema
from fairwarning.store.postgres.batch_writer import AddressInUseError, BatchWriter
from fairwarning.store.postgres.connections import ConnectionPool, time_limit, translate_error
from fairwarning.store.postgres.duties import Duties
from fairwarning.store.postgres.lease import ProcessLease
from fairwarning.store.postgres.rows import PostgresRows
from fairwarning.store.postgres.statements import Row, execute, run
from fairwarning.store.scripts import Migration
from fairwarning.store.store import (
    LAST_CHARACTER,
    Batch,
    JournalEntry,
    MachineLocation,
    ScopeChange,
)

LEASE_SECONDS = 3.0
CONNECTIONS = 3  # of the first lane, in addition to the listening one
READ_CONNECTIONS = 2  # of the reads lane
CACHED_ENTITIES = 4096

_LAST_NUMBER = 2**63 - 1
_NO_POSITION = -1


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
        self._connections = ConnectionPool(url, CONNECTIONS, READ_CONNECTIONS)
        self._writer = BatchWriter(self._connections)
        self._lease = ProcessLease(self._connections, self._writer, lease_seconds, cached)
        self._duties = Duties(self._connections, self._lease)
        self._migrations = schema.migrations() if migrations is None else migrations

    @property
    def shared(self) -> ProcessLease:
        return self._lease

    async def open(self) -> None:
        self._lease.start()
        self._connections.open()
        try:
            await self._migrate()
            await self._lease.begin()
        except BaseException:
            await self._connections.close()
            raise

    async def _migrate(self) -> None:
        connection = await self._connections.connect()
        try:
            await schema.migrate(connection, self._migrations, self._connections.connect)
            with time_limit(connection):
                await self._lease.adopt_first_server(connection)
        except psycopg.Error as error:
            raise translate_error(error) from error
        finally:
            await connection.close()

    async def close(self) -> None:
        await self._lease.end()
        await self._connections.close()
        self._lease.cache.clear()

    async def _run(self, query: str, **values: object) -> list[Row]:
        return await run(self._connections, query, process=self._lease.process, **values)

    # --- Writing ---

    async def commit(self, batch: Batch) -> float | None:
        try:
            batch_rows = PostgresRows(batch)
            base, due = await self._writer.commit(batch_rows)
        except UnicodeEncodeError as error:
            raise Conflict("BadText", "string contains an unpaired surrogate") from error
        except AddressInUseError as error:
            raise await self._address_conflict(batch_rows) from error
        except Conflict:
            for ref in (*batch.changes, *batch.read):
                self._lease.cache.drop(ref)
            raise
        except Unavailable:
            self._lease.impacts_unclear = True
            raise
        if base is not None and self._writer.server == self._lease.server:
            self._remember(base, batch_rows)
        return due

    def _remember(self, base: int, batch_rows: PostgresRows) -> None:
        for position, (ref, entity) in enumerate(batch_rows.written, base + 1):
            self._lease.position = max(self._lease.position, position)
            if entity is None:
                self._lease.cache.drop(ref)
            else:
                self._lease.cache.put(ref, position, entity)

    async def _address_conflict(self, batch_rows: PostgresRows) -> Conflict:
        claims = [
            (scope, machine)
            for scope, machine in machines_after(batch_rows.diffs)
            if machine.address
        ]
        for scope, machine in claims:
            for location in await self.find_machines(address=machine.address):
                if (location.scope, location.machine.name) != (scope, machine.name):
                    return AddressTaken(machine.address)
        return AddressTaken(claims[-1][1].address)  # by a machine of the same batch

    async def save_notes(self, notes: Mapping[str, tuple[str, str]]) -> set[str]:
        return await self._duties.save_notes(notes)

    async def add_note_if_absent(self, name: str, value: str) -> str:
        await self._run("add_note_if_absent", name=name, value=value)
        return str((await self._run("get_note", name=name))[0][0])

    async def record_polls(self, polls: Mapping[str, float]) -> None:
        await self._run("record_polls", scopes=list(polls), times=list(polls.values()))

    async def recorded_polls(self, scopes: Iterable[str]) -> dict[str, float]:
        return dict(await self._run("recorded_polls", scopes=list(scopes)))

    async def claim_duty(self, duty: str) -> bool:
        return await self._duties.claim(duty)

    async def has_duty(self, duty: str) -> bool:
        return await self._duties.has(duty)

    # --- Entities ---

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        requested = list(refs)
        async with self._connections.acquire() as connection:
            # Only now: the connection and the cache are of the same epoch.
            cache = self._lease.cache
            cached = [cache.get(ref) for ref in requested]
            result = await execute(
                connection,
                "load_entities",
                kinds=[kind.__name__ for kind, _ in requested],
                ids=[name for _, name in requested],
                known=[hit[0] if hit else _NO_POSITION for hit in cached],
            )
        loaded: dict[Ref, Entity | None] = dict.fromkeys(requested)
        for at, position, body, machines in result:
            ref, hit = requested[at - 1], cached[at - 1]
            if hit is not None and hit[0] == position:
                entity = hit[1]
            else:
                entity = rows.build_entity(ref[0].__name__, body, machines, hit and hit[1])
            loaded[ref] = entity
            cache.put(ref, position, entity)
        return loaded

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        result = await self._run("claim_due_entities", now=now, limit=limit)
        return [(KINDS[kind], name) for _, _, kind, name in sorted(result)]

    async def next_due(self) -> float | None:
        return cast("float | None", (await self._run("next_due"))[0][0])

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        result = await self._run("list_ids", kind=kind.__name__, after=after, limit=limit)
        return [name for (name,) in result]

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        return [name for (name,) in await self._run("scopes_with_events", after=after, limit=limit)]

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        await self._writer.abandon_unclear()  # else its impacts may appear behind our back
        result = await self._run("claim_impacts", after=after, limit=limit)
        self._lease.impacts_unclear = self._lease.impacts_unclear and bool(result)
        return [codec.decode_impact(body) for _, body in sorted(result)]

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        result = await self._run("changes_since", after=after, limit=limit)
        return [ScopeChange(position, scope) for position, scope in result]

    async def position(self) -> int:
        return int((await self._run("position"))[0][0])

    async def get_note(self, name: str) -> str | None:
        result = await self._run("get_note", name=name)
        return str(result[0][0]) if result else None

    async def list_notes(self, prefix: str, after: str, limit: int) -> dict[str, str]:
        first, until = max(prefix, after), prefix + LAST_CHARACTER
        return dict(await self._run("list_notes", after=first, until=until, limit=limit))

    # --- Machines ---

    async def find_machines(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[MachineLocation]:
        if name:
            result = await self._run("machines_by_name", name=name)
        elif address:
            result = await self._run("machines_by_address", address=address)
        elif scope:
            result = await self._run("machines_by_scope", scope=scope)
        else:
            result = await self._run("machine_by_number", number=number)
        return [rows.machine_location(*row) for row in result]

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        result = await self._run("list_machines", after=after, limit=limit)
        return [rows.machine_location(*row) for row in result]

    # --- The journal ---

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        if entity is not None:
            result = await self._run(
                "lines_of_entity", kind=entity[0].__name__, id=entity[1],
                after=after, event=event, limit=limit,
            )  # fmt: skip
        elif event:
            result = await self._run("lines_of_event", event=event, after=after, limit=limit)
        else:
            result = await self._run("lines", after=after, limit=limit)
        return [rows.entry(*row) for row in result]

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        result = await self._run(
            "lines_of_operation", operation=operation, after=after, before=before, limit=limit
        )
        return [rows.entry(*row) for row in result]

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        upper = _LAST_NUMBER if before is None else before
        if entity is None:
            result = await self._run("latest", before=upper, limit=limit)
        else:
            result = await self._run(
                "latest_of_entity", kind=entity[0].__name__, id=entity[1], before=upper, limit=limit
            )
        return [rows.entry(*row) for row in result]

    # --- Retention ---

    async def ended_entities(self, before: float, limit: int) -> list[Ref]:
        result = await self._run("ended_entities", before=before, limit=limit)
        return [(KINDS[kind], name) for kind, name in result]

    async def drop_old_lines(self, before: float) -> int:
        async with self._connections.acquire() as connection:
            try:
                result = await execute(connection, "drop_oldest_partition", before=before)
            except psycopg.errors.LockNotAvailable as error:
                text = (
                    f"old journal lines stay until it is not in use ({error.diag.message_primary})"
                )
                raise Unavailable("JournalInUse", text) from error
        return int(result[0][0])

    async def drop_tombstones(self, until: int) -> int:
        return int((await self._run("drop_tombstones", until=until))[0][0])

    async def drop_notes(self, notes: Mapping[str, str]) -> None:
        for name, value in notes.items():
            await self._run("drop_note", name=name, value=value)
