"""The fleet's clock (O5) and injected faults (M21)."""

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.endpoints import endpoint
from fairwarning.console.api.section import ApiSection
from fairwarning.core.errors import Refused
from fairwarning.service.clock import VirtualClock
from fairwarning.service.faults import FaultKind, FaultRule


class ClockAndFaultsApi(ApiSection):
    """The clock and fault injection."""

    @endpoint("GET", "/api/clock")
    def clock(self) -> responses.ClockInfo:
        """Get the fleet's time."""
        clock = self.fleet.clock
        return responses.ClockInfo(
            now=views.time(clock.now()),
            virtual=isinstance(clock, VirtualClock),
            rate=clock.rate,
            ahead_seconds=round(self.fleet.clock_monitor.difference_seconds, 1),
        )

    @endpoint("POST", "/api/clock")
    async def set_clock(self, body: bodies.ClockChange) -> responses.ClockInfo:
        """Advance the virtual clock, or set its rate."""
        change = bodies.set_fields(body)
        if len(change) != 1:
            raise Refused("BadBody", "give either advance_seconds or rate")
        if "advance_seconds" in change:
            await self.fleet.advance(change["advance_seconds"])
        else:
            await self.fleet.run_clock(change["rate"])
        return self.clock()

    @endpoint("GET", "/api/faults")
    def faults(self) -> responses.FaultList:
        """List the active faults."""
        return responses.FaultList(
            faults=[
                views.copied(responses.FaultInfo, fault, count=left)
                for fault, left in self.fleet.faults.active()
            ]
        )

    @endpoint("POST", "/api/faults", status=204)
    async def put_fault(self, body: bodies.NewFault) -> None:
        """Inject a fault into the metadata endpoint."""
        fault = bodies.set_fields(body)
        if name := fault.get("machine", ""):
            location = await self._find_machine(name)
            fault |= {"scope": location.scope, "machine": location.machine.name}
        elif name := fault.get("scope", ""):
            await self._scope(name)
        self.fleet.faults.put(FaultRule(**fault | {"kind": _fault_kind(fault["kind"])}))

    @endpoint("DELETE", "/api/faults", status=204)
    async def clear_faults(self) -> None:
        """Clear all faults."""
        self.fleet.faults.clear()


def _fault_kind(value: str) -> FaultKind:
    for kind in FaultKind:
        if value == kind.value:
            return kind
    raise Refused("BadFault", f"kind must be one of {', '.join(FaultKind)}")
