"""Batches to the JSON that the database takes, and its rows to values."""

from collections.abc import Iterable, Sequence

import msgspec

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import Entity, Machine, Ref, Scope
from fairwarning.store import codec
from fairwarning.store.codec import KINDS
from fairwarning.store.differences import Differences, differences
from fairwarning.store.store import Batch, JournalEntry, MachineLocation

NO_VERSION = -1  # of an entity that is not there

_MASK = "\1"
_encode = msgspec.json.Encoder().encode


class PostgresRows:
    """A batch as the function `commit_batch` takes it."""

    def __init__(self, batch: Batch) -> None:
        self.written: list[tuple[Ref, Entity | None]] = []  # in the order of their positions
        self.moves: list[Differences] = []
        self._entities: list[dict[str, object]] = []
        for ref, (before, after) in batch.changes.items():
            if before is not after:
                self._put_entity(ref, before, after)
        self._batch = batch

    def _put_entity(self, ref: Ref, before: Entity | None, after: Entity | None) -> None:
        self.written.append((ref, after))
        move = differences(ref, before, after) if ref[0] is Scope else None
        if move:
            self.moves.append(move)
        self._entities.append(
            {
                **_version(ref, before),
                "version": NO_VERSION if after is None else after.version,
                "due": None if after is None else cascade.due(after),
                "moves": move is not None,
                "body": None if after is None else codec.text(after),
            }
        )

    def text(self, name: str) -> str:
        """All of it, under a name of its own. Raises UnicodeEncodeError for half a character."""
        batch = self._batch
        document = {
            "batch": name,
            "entities": self._entities,
            "read": [_version(ref, entity) for ref, entity in batch.read.items()],
            "machines": _machines(self.moves),
            "lines": [_line(line) for line in batch.lines],
            "impacts": [{"id": one.id, "body": codec.text(one)} for one in batch.impacts],
            "settled": batch.settled,
            "notes": batch.notes,
        }
        return _encode(document).decode()


def _version(ref: Ref, entity: Entity | None) -> dict[str, object]:
    was = NO_VERSION if entity is None else entity.version
    return {"kind": ref[0].__name__, "id": ref[1], "was": was}


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
    """PostgreSQL keeps every character but one; a text that has it is kept as JSON."""
    if "\0" in text or text.startswith(_MASK):
        return _MASK + _encode(text).decode()
    return text


def _bare(text: str) -> str:
    return msgspec.json.decode(text[1:], type=str) if text.startswith(_MASK) else text


def _machines(moves: Iterable[Differences]) -> dict[str, list[dict[str, object]]]:
    rows: dict[str, list[dict[str, object]]] = {
        "gone": [], "freed": [], "changed": [], "fresh": [],
    }  # fmt: skip
    for move in moves:
        rows["gone"] += [{"scope": move.scope, "name": one.name} for one in move.gone]
        rows["fresh"] += [_machine(move.scope, one) for one in move.fresh]
        for before, after in move.changed:
            rows["changed"].append(_machine(move.scope, after))
            if before.address != after.address:
                rows["freed"].append({"scope": move.scope, "name": before.name})
    return rows


def _machine(scope: str, machine: Machine) -> dict[str, object]:
    return {
        "scope": scope,
        "name": machine.name,
        "address": machine.address,
        "body": codec.text(machine),
    }


def entity(kind: str, body: str, machines: Sequence[str] | None, known: Entity | None) -> Entity:
    """The entity again, whole; without rows of machines, with those that are known."""
    found = codec.entity(kind, body)
    if not isinstance(found, Scope):
        return found
    if machines is None and isinstance(known, Scope):
        return codec.whole(found, known.machines)
    return codec.whole(found, codec.machines(machines or ()))


def place(number: int, scope: str, body: str) -> MachineLocation:
    """A machine where it is."""
    return MachineLocation(number, scope, codec.machine(body))


def entry(number: int, at: float, actor: str, kind: str, name: str, *fact: str) -> JournalEntry:
    """A line of the journal again."""
    line = JournalLine(at, _bare(actor), (KINDS[kind], name), codec.fact(*map(_bare, fact)))
    return JournalEntry(number, line)
