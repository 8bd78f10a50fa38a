"""Batches as JSON for the database function, and rows as values."""

from collections.abc import Iterable, Sequence

import msgspec

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import KINDS, Entity, Machine, Ref, Scope
from fairwarning.store import codec
from fairwarning.store.differences import Differences, differences
from fairwarning.store.store import Batch, JournalEntry

NO_VERSION = -1  # of an entity that does not exist

Values = dict[str, str | int | None]

_MASK = "\1"
_encode = msgspec.json.Encoder().encode


class PostgresRows:
    """A batch as the database function `write_batch` takes it."""

    def __init__(self, batch: Batch) -> None:
        self.written: list[tuple[Ref, Entity | None]] = []  # in order of position
        self.diffs: list[Differences] = []
        self._keys: list[dict[str, object]] = []  # apart from the long bodies
        self._updates: list[dict[str, object]] = []
        self._inserts: list[dict[str, object]] = []
        for ref, (before, after) in batch.changes.items():
            if before is not after:
                self._put_entity(ref, before, after)
        self._batch = batch

    def _put_entity(self, ref: Ref, before: Entity | None, after: Entity | None) -> None:
        self.written.append((ref, after))
        diff = differences(ref, before, after) if ref[0] is Scope else None
        if diff:
            self.diffs.append(diff)
        self._keys.append(_version(ref, before))
        (self._inserts if before is None else self._updates).append(
            {
                "n": len(self.written),
                "kind": ref[0].__name__,
                "id": ref[1],
                "version": NO_VERSION if after is None else after.version,
                "due": None if after is None else cascade.due(after),
                "moves": diff is not None,
                "ended_at": codec.ended_at(after),
                "has_events": codec.has_events(after),
                "body": None if after is None else codec.encode(after),
            }
        )

    def encode(self) -> Values:
        """Return the arguments of `write_batch`; those without content are None.

        Raises UnicodeEncodeError for a lone surrogate.
        """
        batch = self._batch
        return {
            "keys": _json(self._keys),
            "read_keys": _json([_version(ref, entity) for ref, entity in batch.read.items()]),
            "updates": _json(self._updates),
            "update_count": len(self._updates),
            "inserts": _json(self._inserts),
            "insert_count": len(self._inserts),
            "machines": _json(self.diffs and _machines(self.diffs)),
            "lines": _json([_line(line) for line in batch.lines]),
            "line_count": len(batch.lines),
            "impacts": _json(
                [{"id": impact.id, "body": codec.encode(impact)} for impact in batch.impacts]
            ),
            "settled": _json(batch.settled),
            "notes": _json(batch.notes),
        }


def _json(content: object) -> str | None:
    return _encode(content).decode() if content else None


def _version(ref: Ref, entity: Entity | None) -> dict[str, object]:
    expected = NO_VERSION if entity is None else entity.version
    return {"kind": ref[0].__name__, "id": ref[1], "was": expected}


def _line(line: JournalLine) -> dict[str, object]:
    fact = line.fact
    return {
        "at": line.at,
        "actor": _masked(line.actor),
        "kind": line.entity[0].__name__,
        "id": line.entity[1],
        "type": fact.type.value,
        "event": fact.event,
        "machines": codec.names(fact.machines),
        "operation": fact.operation,
        "detail": _masked(fact.detail),
        "announcement": codec.announcement(fact.announcement),
    }


def _masked(text: str) -> str:
    """Encode as JSON a text that contains NUL, the only character PostgreSQL cannot store."""
    if "\0" in text or text.startswith(_MASK):
        return _MASK + _encode(text).decode()
    return text


def _bare(text: str) -> str:
    return msgspec.json.decode(text[1:], type=str) if text.startswith(_MASK) else text


def _machines(diffs: Iterable[Differences]) -> dict[str, list[dict[str, object]]]:
    rows: dict[str, list[dict[str, object]]] = {
        "removed": [], "freed": [], "changed": [], "added": [],
    }  # fmt: skip
    for diff in diffs:
        rows["removed"] += [{"scope": diff.scope, "name": machine.name} for machine in diff.removed]
        rows["added"] += [_machine(diff.scope, machine) for machine in diff.added]
        for before, after in diff.changed:
            rows["changed"].append(_machine(diff.scope, after))
            if before.address != after.address:
                rows["freed"].append({"scope": diff.scope, "name": before.name})
    return rows


def _machine(scope: str, machine: Machine) -> dict[str, object]:
    return {
        "scope": scope,
        "name": machine.name,
        "address": machine.address,
        "body": codec.encode(machine),
    }


def build_entity(
    kind: str, body: str, machines: Sequence[str] | None, cached: Entity | None
) -> Entity:
    """Return the complete entity; without machine rows, with the machines of the cached one."""
    entity = codec.decode_entity(kind, body)
    if not isinstance(entity, Scope):
        return entity
    if machines is None and isinstance(cached, Scope):
        return codec.with_machines(entity, cached.machines)
    return codec.with_machines(entity, codec.decode_machines(machines or ()))


def entry(number: int, at: float, actor: str, kind: str, name: str, *fact: str) -> JournalEntry:
    """A line of the journal again."""
    line = JournalLine(at, _bare(actor), (KINDS[kind], name), codec.fact(*map(_bare, fact)))
    return JournalEntry(number, line)
