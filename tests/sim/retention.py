"""Retention in the simulation: the invariants, and what can be looked up afterwards."""

from collections.abc import Iterable

from fairwarning.core.model import Operation, Ref
from fairwarning.service.reader import FleetReader
from tests.sim.observed_state import KEEP_SECONDS, ObservedState
from tests.sim.violations import must


def ir1_operation(observed: ObservedState, name: str, at: float) -> None:
    """An operation is dropped only when its end is old. Its id can then be used again."""
    has_ended = observed.operations.get(name) == "ended"
    must(has_ended, "IR1", f"operation {name} is dropped in progress")
    age = at - observed.ended_at.pop(name)
    must(age > KEEP_SECONDS, "IR1", f"operation {name} is dropped {age:.1f} s after its end")
    del observed.operations[name]
    observed.accepted.discard(name)
    if name in observed.requests:
        observed.forgotten.append(observed.requests.pop(name))
    observed.failed_operations.pop(name, None)


def ir1_rollout(observed: ObservedState, name: str, at: float) -> None:
    """A rollout is dropped only when its end is old, after its operations and lanes."""
    ended_at = observed.rollouts.pop(name).ended_at
    must(ended_at is not None, "IR1", f"rollout {name} is dropped in progress")
    age = at - (ended_at or 0.0)
    must(age > KEEP_SECONDS, "IR1", f"rollout {name} is dropped {age:.1f} s after its end")
    left = [part for part in (*observed.operations, *observed.lanes) if part.startswith(f"{name}/")]
    must(not left, "IR1", f"rollout {name} is dropped before {left}")
    observed.machines_done.pop(name, None)
    observed.steps.pop(name, None)
    observed.paused.discard(name)


async def check_look_ups(
    observed: ObservedState, reader: FleetReader, dropped: Iterable[str]
) -> None:
    """Operations can be looked up until they are dropped, and not afterwards (IC1)."""
    kept: list[Ref] = [(Operation, name) for name in observed.operations]
    for (_, name), operation in (await reader.read_all(kept)).items():
        must(operation is not None, "IC1", f"operation {name} cannot be looked up")
    for name in dropped:
        operation = await reader.read(Operation, name)
        gone = operation is None or name in observed.operations
        must(gone, "IR1", f"operation {name} was dropped and can still be looked up")
