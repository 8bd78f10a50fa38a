"""What a store does that no other process uses."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from fairwarning.store.store import Batch


class SingleProcessStore(ABC):
    """Its process has all duties."""

    shared = None

    @abstractmethod
    async def commit(self, batch: Batch) -> float | None:
        """See `Store`."""

    async def save_notes(self, notes: Mapping[str, tuple[str, str]]) -> set[str]:
        await self.commit(Batch(0.0, notes={name: value for name, (_, value) in notes.items()}))
        return set(notes)

    async def claim_duty(self, duty: str) -> bool:  # noqa: ARG002  (no other process exists)
        return True

    has_duty = claim_duty
