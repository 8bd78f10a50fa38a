"""The store for many processes: one PostgreSQL database, row locks per scope, and a change feed."""

from collections.abc import Iterable, Mapping, Sequence

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
from fairwarning.store.postgres.statements import execute, run
from fairwarning.store.scripts import Migration
from fairwarning.store.sql_reads import Row, SqlReads
from fairwarning.store.store import Batch, MachineLocation

LEASE_SECONDS = 3.0
CONNECTIONS = 3  # of the first lane, in addition to the listening one
READ_CONNECTIONS = 2  # of the reads lane
CACHED_ENTITIES = 4096

_NO_POSITION = -1


class PostgresStore(SqlReads):
    """Keeps a fleet in a database that other processes use as well."""

    _entry = staticmethod(rows.entry)

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
                await self._lease.adopt_server(connection)
            self._lease.enter_epoch(self._lease.epoch)
        except psycopg.Error as error:
            raise translate_error(error) from error
        finally:
            await connection.close()

    async def close(self) -> None:
        await self._lease.end()
        await self._connections.close()
        self._lease.cache.clear()

    async def _rows(self, query: str, **values: object) -> list[Row]:
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
            for location in (await self.locate_machines([machine.address])).values():
                if (location.scope, location.machine.name) != (scope, machine.name):
                    return AddressTaken(machine.address)
        return AddressTaken(claims[-1][1].address)  # by a machine of the same batch

    async def save_notes(self, notes: Mapping[str, tuple[str, str]]) -> set[str]:
        return await self._duties.save_notes(notes)

    async def add_note_if_absent(self, name: str, value: str) -> str:
        await self._rows("add_note_if_absent", name=name, value=value)
        return str((await self._rows("get_note", name=name))[0][0])

    async def record_polls(self, polls: Mapping[str, float]) -> None:
        await self._rows("record_polls", scopes=list(polls), times=list(polls.values()))

    async def recorded_polls(self, scopes: Iterable[str]) -> dict[str, float]:
        return dict(await self._rows("recorded_polls", scopes=list(scopes)))

    async def claim_duty(self, duty: str) -> bool:
        return await self._duties.claim(duty)

    async def has_duty(self, duty: str) -> bool:
        return await self._duties.has(duty)

    # --- Entities ---

    async def locate_machines(self, keys: Sequence[int | str]) -> dict[int | str, MachineLocation]:
        numbers = [key for key in keys if isinstance(key, int)]
        addresses = [key for key in keys if isinstance(key, str)]
        found: dict[int | str, MachineLocation] = {}
        for place in await self._machines("machines_at", numbers=numbers, addresses=addresses):
            found |= {place.number: place, place.machine.address: place}
        return {key: found[key] for key in keys if key and key in found}

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
        result = await self._rows("claim_due_entities", now=now, limit=limit)
        return [(KINDS[kind], name) for _, _, kind, name in sorted(result)]

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        await self._writer.abandon_unclear()  # else its impacts may appear behind our back
        self._lease.impacts_unclear = True  # a claim takes effect without its answer, too
        result = await self._rows("claim_impacts", after=after, limit=limit)
        self._lease.impacts_unclear = bool(result)  # there may be more
        return [codec.decode_impact(body) for _, body in sorted(result)]

    # --- Retention ---

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
        return int((await self._rows("drop_tombstones", until=until))[0][0])

    async def drop_notes(self, notes: Mapping[str, str]) -> None:
        for name, value in notes.items():
            await self._rows("drop_note", name=name, value=value)
