import pytest

from fairwarning.core.commands import Approve, Finish
from fairwarning.core.model import Impact, ImpactKind, Operation, OperationStatus
from fairwarning.service.documents import Published
from fairwarning.service.impacts import Impacts
from fairwarning.store import codec
from tests.fixtures.controlled_fleet import (
    ControlledDriver,
    ControlledFleet,
    ControlledStore,
    controlled_fleet,
)
from tests.fixtures.fleet import restart, standalone
from tests.fixtures.waiting import run_async

pytestmark = pytest.mark.spec("E9")

IMPACT = Impact(id="i", scope="s", machine="m", kind=ImpactKind.REBOOT, operation="o", deadline=1.0)


async def _operation(controlled_fleet: ControlledFleet) -> Operation:
    found = await controlled_fleet.fleet.read(Operation, "restart vm")
    assert found is not None
    return found


def test_an_impact_is_handed_over_once() -> None:
    """The same impact again, while it is under way, does not reach the driver."""
    driver, finished = ControlledDriver(), list[Finish]()
    impacts = Impacts(driver, finished.append)
    for _ in range(3):
        impacts.hand_over(IMPACT)
    assert driver.given == [IMPACT]
    driver.finish()
    impacts.hand_over(IMPACT)  # reported, but not settled yet
    assert driver.given == [IMPACT]
    impacts.forget(IMPACT.id)
    impacts.forget(IMPACT.id)
    impacts.hand_over(IMPACT)
    assert driver.given == [IMPACT, IMPACT]


@pytest.mark.parametrize("error", ["", "no such host", "x" * 5_000])
def test_a_report_becomes_a_command(error: str) -> None:
    """What the driver says comes back under the impact's id, cut to a bounded length."""
    driver, finished = ControlledDriver(), list[Finish]()
    Impacts(driver, finished.append).hand_over(IMPACT)
    driver.finish(error)
    assert finished == [Finish(scope="s", machine="m", impact="i", error=error[:1000])]


def test_a_driver_that_raises() -> None:
    """Whatever a driver raises is an impact that failed, and says why."""
    driver, finished = ControlledDriver(), list[Finish]()
    driver.error = OSError("hypervisor is not there")
    Impacts(driver, finished.append).hand_over(IMPACT)
    (report,) = finished
    assert "hypervisor is not there" in report.error


@run_async
async def test_an_operation_whose_driver_raises() -> None:
    """It ends Failed with the reason, the event is gone, and the fleet goes on."""
    async with controlled_fleet() as it:
        it.driver.error = RuntimeError("out of order")
        await it.rebooting()
        await it.fleet.settled()
        operation = await _operation(it)
        assert operation.status is OperationStatus.FAILED
        assert "out of order" in operation.error
        assert not (await it.scope()).events
        assert it.fleet.broken is None


@run_async
async def test_a_driver_that_is_done_at_once() -> None:
    """A report from within the call is as good as one later on."""
    async with controlled_fleet() as it:
        it.driver.on_impact = lambda _: it.driver.finish()
        await it.rebooting()
        await it.fleet.settled()
        assert (await _operation(it)).status is OperationStatus.SUCCEEDED


@run_async
async def test_a_driver_that_reports_twice() -> None:
    """The second report of an impact changes nothing, whatever it says."""
    async with controlled_fleet() as it:
        await it.rebooting()
        it.driver.finish()
        it.driver.finish("not at all")
        await it.fleet.settled()
        operation = await _operation(it)
        assert (operation.status, operation.done, operation.failed) == ("Succeeded", 1, 0)


@pytest.mark.parametrize("error", ["caf\udce9", "a\0b"])
@run_async
async def test_what_a_driver_says_can_be_stored(error: str) -> None:
    """The words of a program may be in no known encoding; the failure is kept all the same."""
    async with controlled_fleet() as it:
        await it.rebooting()
        it.driver.finish(error)
        await it.fleet.settled()
        operation = await _operation(it)
        assert operation.status is OperationStatus.FAILED
        assert codec.entity("Operation", codec.text(operation)) == operation


@run_async
async def test_unfinished_impacts_are_handed_over_after_a_restart() -> None:
    """A new process gives the driver what the old one had begun, under the same ids."""
    store = ControlledStore()
    async with controlled_fleet(store) as it:
        for name in ("vm", "vm2", "vm3"):
            await it.rebooting(name)
        begun = sorted(impact.id for impact in it.driver.given)
        it.driver.finish()
        await it.fleet.settled()
        over = it.driver.given[-1].id
    async with controlled_fleet(store) as it:
        assert [impact.id for impact in it.driver.given] == [i for i in begun if i != over]
        it.driver.finish()
        await it.fleet.settled()
        assert (await it.fleet.store.unfinished("", 10)) == it.driver.given[:1]


@run_async
async def test_started_is_durable_and_visible_before_the_impact() -> None:
    """When a driver is called, the event is Started in the store and in the document (IL5)."""
    seen: list[bytes] = []
    async with controlled_fleet() as it:
        published: list[Published] = []

        def look(_: Impact) -> None:
            seen.append(published[0].body("2017-08-01"))
            assert any("ImpactBegun" in str(line.fact.did) for line in it.store.commits[-1].lines)

        it.driver.on_impact = look
        await it.fleet.submit(standalone())
        published.append(await it.fleet.poll("vm"))  # what a machine that asks holds on to
        await it.fleet.submit(restart())
        (event,) = (await it.scope("vm")).events
        await it.fleet.submit(Approve(scope="vm", events=(event,)))
    assert b'"Started"' in seen[0]
