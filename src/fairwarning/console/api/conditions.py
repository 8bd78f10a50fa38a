"""The conditions a fleet lives under: its time (O5), and faults on demand (M21)."""

from fairwarning.console.api import bodies, responses, views
from fairwarning.console.api.part import ApiSection, Settings, read
from fairwarning.core.errors import Refused
from fairwarning.service.clock import VirtualClock
from fairwarning.service.faults import FaultKind, FaultRule
from fairwarning.service.lookup import find_machine


class ClockAndFaultsApi(ApiSection):
    """Time and faults."""

    def clock(self) -> responses.ClockInfo:
        """What time it is."""
        clock = self.fleet.clock
        rate = clock.rate if isinstance(clock, VirtualClock) else 1.0
        virtual = isinstance(clock, VirtualClock)
        return responses.ClockInfo(now=views.time(clock.now()), virtual=virtual, rate=rate)

    async def set_clock(self, settings: Settings) -> responses.ClockInfo:
        """Let virtual time pass, or run."""
        given = bodies.given(read(bodies.ClockChange, settings))
        if len(given) != 1:
            raise Refused("BadBody", "say either advance or rate")
        if "advance" in given:
            await self.fleet.advance(given["advance"])
        else:
            await self.fleet.run_clock(given["rate"])
        return self.clock()

    def faults(self) -> responses.FaultList:
        """The faults in force."""
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
        """From now on, answer with this fault."""
        given = bodies.given(read(bodies.NewFault, settings))
        if name := given.get("machine", ""):
            place = await find_machine(self.fleet, name)
            given |= {"scope": place.scope, "machine": place.machine.name}
        elif name := given.get("scope", ""):
            await self._scope(name)
        self.fleet.faults.put(FaultRule(**given | {"kind": _kind(given["kind"])}))

    async def clear_faults(self) -> None:
        """All is well again."""
        self.fleet.faults.clear()


def _kind(value: str) -> FaultKind:
    for kind in FaultKind:
        if value == kind.value:
            return kind
    raise Refused("BadFault", f"kind must be one of {', '.join(FaultKind)}")
