"""Lists of the whole fleet, beneath the operator API (O14)."""

import pytest

from fairwarning.core.commands import CreateScope, CreateSet, Delete, OperateInstances, Restart
from fairwarning.core.model import Machine, ScaleSet, ScopeKind
from fairwarning.service.fleet import Fleet
from fairwarning.service.listing import operations
from fairwarning.service.listing.index import FleetIndex
from fairwarning.service.listing.operations import EVERYWHERE, newest_operations, on_set
from fairwarning.store.store import JournalEntry
from tests.fixtures.fleet import FleetHarness, standalone

pytestmark = pytest.mark.spec("O14")


def test_pages_of_operations_skip_and_repeat_nothing() -> None:
    """Also if lines of other operations are between those of an operation."""
    with FleetHarness() as harness:
        harness.do(CreateSet(set="web", capacity=3, update_domains=1))
        harness.poll("web/0")
        for name, action, instances in (
            ("restart", Restart, (0, 1, 2)),
            ("delete", Delete, (0,)),  # the restart of the others is announced again
            ("delete another", Delete, (1,)),
        ):
            harness.do(
                OperateInstances(set="web", operation=name, action=action, instances=instances)
            )
        scale_set = harness.scale_set("web")
        assert isinstance(scale_set, ScaleSet)
        for place in (on_set(scale_set), EVERYWHERE):
            for limit in (1, 2, 100):
                names: list[str] = []
                before = None
                while True:
                    page, before = harness.run(
                        newest_operations(harness.fleet, "", before, limit, place)
                    )
                    names += [operation.id for operation in page]
                    if before is None:
                        break
                assert names == ["delete another", "delete", "restart"]


@pytest.mark.parametrize("dropped", [False, True])
def test_the_list_of_a_set_looks_once_for_each_operation(
    monkeypatch: pytest.MonkeyPatch, *, dropped: bool
) -> None:
    """However many of its machines an operation names; also if its first lines were dropped."""
    looked: list[str] = []

    async def look(fleet: Fleet, operation: str, accepted_at: float) -> list[JournalEntry]:
        looked.append(operation)
        return [] if dropped else await lines_near(fleet, operation, accepted_at)

    lines_near = operations._lines_near_acceptance
    monkeypatch.setattr(operations, "_lines_near_acceptance", look)
    with FleetHarness() as harness:
        harness.do(CreateSet(set="web", capacity=3, update_domains=1))
        for name in ("one", "two"):
            harness.do(
                OperateInstances(set="web", operation=name, action=Restart, instances=(0, 1, 2))
            )
            harness.advance(600)
        scale_set = harness.scale_set("web")
        assert scale_set
        listed, _ = harness.run(newest_operations(harness.fleet, "", None, 9, on_set(scale_set)))
    assert [operation.id for operation in listed] == looked == ["two", "one"]


def test_a_name_that_changes_its_kind_is_in_one_group() -> None:
    """A machine was deleted, and its name is that of an availability set now."""
    with FleetHarness() as harness:
        for name in ("web", "vm"):
            harness.do(standalone(name))
        index = FleetIndex(harness.fleet)
        harness.run(index.refresh())
        harness.operate(Delete, "web", "web")
        harness.advance(60)
        machines = (Machine(name="web_0"), Machine(name="web_1"))
        harness.do(CreateScope(scope="web", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
        harness.run(index.refresh())
        groups = {
            group.key: (list(group.scopes), group.machines)
            for group in index.groups.by_key.values()
        }
        assert groups == {"standalone": (["vm"], 1), "scope web": (["web"], 2)}
