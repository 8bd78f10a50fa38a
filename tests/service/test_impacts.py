import pytest

from fairwarning.core.commands import Approve, ReportImpact
from fairwarning.core.model import Impact, ImpactKind, Operation, OperationStatus
from fairwarning.service.documents import PublishedScope
from fairwarning.service.impacts import ImpactDispatcher
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
    found = await controlled_fleet.fleet.reader.read(Operation, "restart vm")
    assert found is not None
    return found


def test_an_impact_is_handed_over_once() -> None:
    """The same impact again, while it is under way, does not reach the driver."""
    driver, finished = ControlledDriver(), list[ReportImpact]()
    impacts = ImpactDispatcher(driver, finished.append)
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
    driver, finished = ControlledDriver(), list[ReportImpact]()
    ImpactDispatcher(driver, finished.append).hand_over(IMPACT)
    driver.finish(error)
    assert finished == [ReportImpact(scope="s", machine="m", impact="i", error=error[:1000])]


def test_a_driver_that_raises() -> None:
    """Whatever a driver raises is an impact that failed, and says why."""
    driver, finished = ControlledDriver(), list[ReportImpact]()
    driver.error = OSError("hypervisor is not there")
    ImpactDispatcher(driver, finished.append).hand_over(IMPACT)
    (report,) = finished
    assert "hypervisor is not there" in report.error


@run_async
async def test_an_operation_whose_driver_raises() -> None:
    """It ends Failed with the reason, the event is gone, and the fleet goes on."""
    async with controlled_fleet() as harness:
        harness.driver.error = RuntimeError("out of order")
        await harness.rebooting()
        await harness.fleet.settled()
        operation = await _operation(harness)
        assert operation.status is OperationStatus.FAILED
        assert "out of order" in operation.error
        assert not (await harness.scope()).events
        assert harness.fleet.broken is None


@run_async
async def test_a_driver_that_is_done_at_once() -> None:
    """A report from within the call is as good as one later on."""
    async with controlled_fleet() as harness:
        harness.driver.on_impact = lambda _: harness.driver.finish()
        await harness.rebooting()
        await harness.fleet.settled()
        assert (await _operation(harness)).status is OperationStatus.SUCCEEDED


@run_async
async def test_a_driver_that_reports_twice() -> None:
    """The second report of an impact changes nothing, whatever it says."""
    async with controlled_fleet() as harness:
        await harness.rebooting()
        harness.driver.finish()
        harness.driver.finish("not at all")
        await harness.fleet.settled()
        operation = await _operation(harness)
        assert (operation.status, operation.done, operation.failed) == ("Succeeded", 1, 0)


@pytest.mark.parametrize("error", ["caf\udce9", "a\0b"])
@run_async
async def test_what_a_driver_says_can_be_stored(error: str) -> None:
    """The words of a program may be in no known encoding; the failure is kept all the same."""
    async with controlled_fleet() as harness:
        await harness.rebooting()
        harness.driver.finish(error)
        await harness.fleet.settled()
        operation = await _operation(harness)
        assert operation.status is OperationStatus.FAILED
        assert codec.decode_entity("Operation", codec.encode(operation)) == operation


@run_async
async def test_unfinished_impacts_are_handed_over_after_a_restart() -> None:
    """A new process gives the driver what the old one had begun, under the same ids."""
    store = ControlledStore()
    async with controlled_fleet(store) as harness:
        for name in ("vm", "vm2", "vm3"):
            await harness.rebooting(name)
        begun = sorted(impact.id for impact in harness.driver.given)
        harness.driver.finish()
        await harness.fleet.settled()
        over = harness.driver.given[-1].id
    async with controlled_fleet(store) as harness:
        assert [impact.id for impact in harness.driver.given] == [i for i in begun if i != over]
        harness.driver.finish()
        await harness.fleet.settled()
        assert (await harness.fleet.store.unfinished_impacts("", 10)) == harness.driver.given[:1]


@run_async
async def test_started_is_durable_and_visible_before_the_impact() -> None:
    """When a driver is called, the event is Started in the store and in the document (IL5)."""
    seen: list[bytes] = []
    async with controlled_fleet() as harness:
        published: list[PublishedScope] = []

        def look(_: Impact) -> None:
            seen.append(published[0].body("2017-08-01"))
            assert any(
                "ImpactBegun" in str(line.fact.type) for line in harness.store.commits[-1].lines
            )

        harness.driver.on_impact = look
        await harness.fleet.submit(standalone())
        published.append(await harness.fleet.poll("vm"))  # what a machine that asks holds on to
        await harness.fleet.submit(restart())
        (event,) = (await harness.scope("vm")).events
        await harness.fleet.submit(Approve(scope="vm", events=(event,)))
    assert b'"Started"' in seen[0]
