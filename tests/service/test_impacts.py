import pytest

from fairwarning.core.commands import Approve, Command
from fairwarning.core.model import Impact, ImpactKind, OperationStatus
from fairwarning.service.clock import VirtualClock
from fairwarning.service.documents import PublishedScope
from fairwarning.service.writer.impacts import ImpactDispatcher
from tests.fixtures.controlled_fleet import (
    ControlledDriver,
    ControlledFleet,
    controlled_fleet,
    on_a_controlled_fleet,
)
from tests.fixtures.fleet import restart, standalone

pytestmark = pytest.mark.spec("E9")

IMPACT = Impact(id="i", scope="s", machine="m", kind=ImpactKind.REBOOT, operation="o", deadline=1.0)


def test_an_impact_is_dispatched_once() -> None:
    """An impact that is under way is not passed to the driver again."""
    driver, finished = ControlledDriver(), list[Command]()
    impacts = ImpactDispatcher(driver, VirtualClock(), finished.append)
    for _ in range(3):
        impacts.dispatch(IMPACT)
    assert driver.impacts == [IMPACT]
    driver.finish()
    impacts.dispatch(IMPACT)  # reported, but not settled yet
    assert driver.impacts == [IMPACT]
    impacts.forget(IMPACT.id)
    impacts.forget(IMPACT.id)
    impacts.dispatch(IMPACT)
    assert driver.impacts == [IMPACT, IMPACT]


@on_a_controlled_fleet
async def test_an_operation_whose_driver_raises(harness: ControlledFleet) -> None:
    """The operation fails with the reason, the event is removed, and the fleet continues."""
    harness.driver.error = RuntimeError("out of order")
    await harness.rebooting()
    await harness.fleet.settled()
    operation = await harness.operation()
    assert operation.status is OperationStatus.FAILED
    assert "out of order" in operation.error
    assert not (await harness.scope()).events
    assert harness.fleet.broken is None


@on_a_controlled_fleet
async def test_a_driver_that_reports_immediately(harness: ControlledFleet) -> None:
    """A report from within the call has the same effect as a later one."""
    harness.driver.on_impact = lambda _: harness.driver.finish()
    await harness.rebooting()
    await harness.fleet.settled()
    assert (await harness.operation()).status is OperationStatus.SUCCEEDED


async def test_started_is_durable_and_visible_before_the_impact() -> None:
    """When a driver is called, the event is Started in the store and in the document (IL5)."""
    documents: list[bytes] = []
    async with controlled_fleet() as harness:
        published: list[PublishedScope] = []

        def look(_: Impact) -> None:
            documents.append(published[0].body("2017-08-01"))
            assert any(
                "ImpactBegun" in str(line.fact.type) for line in harness.store.commits[-1].lines
            )

        harness.driver.on_impact = look
        await harness.fleet.submit(standalone())
        published.append(await harness.fleet.poll("vm"))  # as a polling machine holds it
        await harness.fleet.submit(restart())
        (event,) = (await harness.scope("vm")).events
        await harness.fleet.submit(Approve(scope="vm", events=(event,)))
    assert b'"Started"' in documents[0]
