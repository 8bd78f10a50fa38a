"""The fleet's clock (O5) and injected faults (M21)."""

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.section import ApiSection, Settings, parse
from fairwarning.core.errors import Refused
from fairwarning.service.clock import VirtualClock
from fairwarning.service.faults import FaultKind, FaultRule
from fairwarning.service.lookup import find_machine


class ClockAndFaultsApi(ApiSection):
    """The clock and fault injection."""

    def clock(self) -> responses.ClockInfo:
        """Return the fleet's time."""
        clock = self.fleet.clock
        return responses.ClockInfo(
            now=views.time(clock.now()),
            virtual=isinstance(clock, VirtualClock),
            rate=clock.rate,
            ahead_seconds=round(self.fleet.clock_monitor.difference_seconds, 1),
        )

    async def set_clock(self, settings: Settings) -> responses.ClockInfo:
        """Advance the virtual clock, or set its rate."""
        change = bodies.set_fields(parse(bodies.ClockChange, settings))
        if len(change) != 1:
            raise Refused("BadBody", "give either advance_seconds or rate")
        if "advance_seconds" in change:
            await self.fleet.advance(change["advance_seconds"])
        else:
            await self.fleet.run_clock(change["rate"])
        return self.clock()

    def faults(self) -> responses.FaultList:
        """List the active faults."""
        return responses.FaultList(
            faults=[
                responses.FaultInfo(
                    kind=fault.kind.value,
                    scope=fault.scope,
                    machine=fault.machine,
                    count=left,
                    seconds=fault.seconds,
                    delay_seconds=fault.delay_seconds,
                )
                for fault, left in self.fleet.faults.active()
            ]
        )

    async def put_fault(self, settings: Settings) -> None:
        """Inject a fault into the metadata endpoint."""
        fault = bodies.set_fields(parse(bodies.NewFault, settings))
        if name := fault.get("machine", ""):
            location = await find_machine(self.fleet, name)
            fault |= {"scope": location.scope, "machine": location.machine.name}
        elif name := fault.get("scope", ""):
            await self._scope(name)
        self.fleet.faults.put(FaultRule(**fault | {"kind": _fault_kind(fault["kind"])}))

    async def clear_faults(self) -> None:
        """Remove all faults."""
        self.fleet.faults.clear()


def _fault_kind(value: str) -> FaultKind:
    for kind in FaultKind:
        if value == kind.value:
            return kind
    raise Refused("BadFault", f"kind must be one of {', '.join(FaultKind)}")
