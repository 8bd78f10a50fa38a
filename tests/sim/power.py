"""Which power state a machine has by what it did last, as far as the journal tells (IL14)."""

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType
from tests.sim.observed_state import ObservedState
from tests.sim.violations import must

_AFTER = {"start": "running", "stop": "stopped", "deallocate": "deallocated"}
"""By impact; of the others, the platform leaves the power state to the user."""


def power_after(observed: ObservedState, line: JournalLine, kind: str) -> None:
    """Note what an impact did that has ended; one that was given up may yet be done."""
    known = (line.entity[1], *line.fact.machines)
    observed.power.pop(known, None)
    if line.fact.type is FactType.IMPACT_CARRIED_OUT and kind in _AFTER:
        observed.power[known] = _AFTER[kind]


def il14(observed: ObservedState, line: JournalLine) -> None:
    """A report that came late overrules nothing that the machine has done since."""
    scope, power = observed.scopes.get(line.entity[1]), observed.power
    for name in line.fact.machines:
        if scope and name in scope.machines and (expected := power.get((scope.id, name))):
            shown = scope.machines[name].power
            must(shown == expected, "IL14", f"{name} is {shown} by a late report, not {expected}")
