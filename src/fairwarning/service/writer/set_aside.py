"""The entities that are set aside, for everybody who shows them (IB1)."""

from collections.abc import Awaitable, Callable
from functools import cache

from fairwarning.core.commands import Command, Release
from fairwarning.core.errors import FairwarningError
from fairwarning.core.messages import ReportBug
from fairwarning.core.model import Operation, Ref, SetAside
from fairwarning.core.printable import printable
from fairwarning.core.set_aside import id_of
from fairwarning.service.metrics import Metric, gauge
from fairwarning.service.reader import load_readable
from fairwarning.service.writer.batch import CommandBatch
from fairwarning.store.store import Store

_REASON_CHARACTERS = 500
_SHOWN = 1000  # entities at most


@cache
def software() -> str:
    """The version that runs; finding it takes longer than most commands do."""
    from importlib.metadata import version  # noqa: PLC0415  (see above)

    return version("fairwarning")


def report_of(ref: Ref, command: Command, cause: BaseException) -> ReportBug:
    """The report of a bug in a decision on an entity."""
    text = f"{type(command).__name__}: {type(cause).__name__}: {cause}"
    return ReportBug(
        entity=id_of(ref),
        reason=printable(text, _REASON_CHARACTERS),
        software=software(),
        actor=command.actor,
    )


class SetAsideEntities:
    """Mirrors in memory what the store has."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entities: dict[str, SetAside] = {}

    def __len__(self) -> int:
        return len(self._entities)

    def get(self, ref: Ref) -> SetAside | None:
        """How this entity is set aside."""
        return self._entities.get(id_of(ref))

    def all(self) -> list[SetAside]:
        """All of them, the first one first."""
        return sorted(self._entities.values(), key=lambda entity: entity.since)

    def follow(self, work: CommandBatch) -> None:
        """Take over what a batch has changed."""
        for (kind, name), (_, after) in work.changes.items():
            if kind is SetAside:
                self._entities.pop(name, None)
                if isinstance(after, SetAside):
                    self._entities[name] = after

    async def load(self) -> None:
        """Read them from the store, which other processes may have written."""
        names = await self._store.list_ids(SetAside, "", _SHOWN)
        loaded = await load_readable(self._store.load, [(SetAside, name) for name in names])
        self._entities = {e.id: e for e in loaded.values() if isinstance(e, SetAside)}

    async def release_those_of_other_versions(
        self, submit: Callable[[Command], Awaitable[Operation | None]]
    ) -> None:
        """The software has changed since: try them again."""
        await self.load()
        for entity in self.all():
            if entity.software != software():
                try:
                    await submit(Release(entity=entity.id, actor="start"))
                except FairwarningError:
                    continue  # another process has released it, or the store is unavailable

    def metrics(self) -> list[Metric]:
        """How many there are."""
        text = "Entities that are set aside because of a bug."
        return [gauge("fairwarning_set_aside", text, len(self))]
