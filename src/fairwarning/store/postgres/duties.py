"""Duties: work that one process does for all, such as to deliver a webhook; and their notes.

A duty is held in the epoch in which it was claimed. Its holder remembers positions by number, and
another server may lack the last of them and use their numbers again: it has to claim the duty
again, and to begin with what is stored.
"""

from collections.abc import Mapping

from fairwarning.store.postgres.connections import Connection, ConnectionPool
from fairwarning.store.postgres.lease import ProcessLease
from fairwarning.store.postgres.statements import execute


class Duties:
    """The duties of this process."""

    def __init__(self, connections: ConnectionPool, lease: ProcessLease) -> None:
        self._connections = connections
        self._lease = lease
        self._epochs: dict[str, int] = {}  # in which each duty was claimed

    async def claim(self, duty: str) -> bool:
        async with self._connections.acquire() as connection:
            epoch = self._lease.epoch
            if not self._is_current(connection):
                return False
            process = self._lease.process
            claimed = bool(await execute(connection, "claim_duty", process=process, name=duty))
        if claimed:
            self._epochs[duty] = epoch
        return claimed

    async def has(self, duty: str) -> bool:
        async with self._connections.acquire() as connection:
            if not self._may_hold(duty, connection):
                return False
            process = self._lease.process
            return bool(await execute(connection, "has_duty", process=process, name=duty))

    async def save_notes(self, notes: Mapping[str, tuple[str, str]]) -> set[str]:
        async with self._connections.acquire() as connection:
            held = [
                (name, duty, value)
                for name, (duty, value) in notes.items()
                if self._may_hold(duty, connection)
            ]
            if not held:
                return set()
            names, duties, values = map(list, zip(*held, strict=True))
            process = self._lease.process
            saved = await execute(
                connection, "save_notes", process=process, names=names, duties=duties, values=values
            )
        return {name for (name,) in saved}

    def _may_hold(self, duty: str, connection: Connection) -> bool:
        """Whether this process has claimed the duty on the server of this connection."""
        return self._is_current(connection) and self._epochs.get(duty) == self._lease.epoch

    def _is_current(self, connection: Connection) -> bool:
        return self._lease.server in {"", connection.server} and not self._lease.retired
