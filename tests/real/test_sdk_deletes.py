"""Azure's SDK for Python deletes, and the machines' documents say what comes of it."""

from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.compute import ComputeManagementClient

from tests.real.sdk import (
    GROUP,
    SdkService,
    cloud,
    ended,
    machine,
    make_set,
    notice,
    notice_seconds,
    scale_set,
    some,
)

# --- Deletes that are announced -------------------------------------------------------------------


@pytest.mark.spec("T4", "T5", "C1", "C2")
def test_an_approved_delete_ends(tmp_path: Path) -> None:
    """Deleted instances are told, and go when they approve; the poller ends when they are gone."""
    with cloud(tmp_path / "data") as (it, client):
        make_set(it, client, 3, timeout="PT10M")
        sets = client.virtual_machine_scale_sets
        deleting = sets.begin_delete_instances(GROUP, "web", some(1))
        assert it.seen("web_0") == {"web_1": "Terminate Scheduled"}
        assert notice_seconds(it, "web_0", "web_1") == 600
        it.advance(599)
        assert it.seen("web_0") == {"web_1": "Terminate Scheduled"}
        assert not deleting.done()
        it.approve_for("web_1")
        assert it.seen("web_0") == {"web_1": "Terminate Started"}
        it.advance(30)
        assert ended(deleting) == [None]
        assert deleting.status() == "Succeeded"
        assert it.seen("web_0") == {}
        assert it.names() == ["web_0", "web_2"]
        left = client.virtual_machine_scale_set_vms.list(GROUP, "web")
        assert [one.instance_id for one in left] == ["0", "2"]
        now = sets.get(GROUP, "web").sku
        assert now is not None
        assert now.capacity == 2


@pytest.mark.spec("T3", "T5", "C2")
def test_new_notice_reaches_who_is_brought_to_it(tmp_path: Path) -> None:
    """A changed timeout is for instances that were updated to it, and for no event that exists."""
    with cloud(tmp_path / "data") as (it, client):
        make_set(it, client, 4)
        sets, instances = client.virtual_machine_scale_sets, client.virtual_machine_scale_set_vms
        deleting = sets.begin_delete_instances(GROUP, "web", some(1))
        sets.begin_create_or_update(GROUP, "web", scale_set(3, "PT15M"), polling=False)
        ended(sets.begin_update_instances(GROUP, "web", some(2)))
        listed = {one.instance_id: one for one in instances.list(GROUP, "web")}
        assert {n: one.latest_model_applied for n, one in listed.items()} == {
            "0": False, "1": False, "2": True, "3": False,
        }  # fmt: skip
        rest = sets.begin_delete_instances(GROUP, "web", some(2, 3))
        assert [notice_seconds(it, "web_0", f"web_{n}") for n in (1, 2, 3)] == [300, 900, 300]
        it.advance(330)
        ended(deleting)
        assert it.names() == ["web_0", "web_2"]
        it.advance(600)
        ended(rest)
        assert it.names() == ["web_0"]


@pytest.mark.spec("T3", "T4", "C2")
def test_automatic_sets_and_spot_sets(tmp_path: Path) -> None:
    """An Automatic set has the new notice at once. Spot instances have none of their deletes."""
    with cloud(tmp_path / "data") as (it, client):
        sets = client.virtual_machine_scale_sets
        for timeout in ("PT5M", "PT12M"):
            make_set(it, client, 2, timeout=timeout, mode="Automatic")
        spot = scale_set(2, priority="Spot")
        ended(sets.begin_create_or_update(GROUP, "spot", spot))
        assert it.seen("spot_0") == {}
        plain = sets.begin_delete_instances(GROUP, "spot", some(1))
        assert it.seen("spot_0") == {}
        sets.begin_delete_instances(GROUP, "web", some(1), polling=False)
        assert notice_seconds(it, "web_0", "web_1") == 720
        it.advance(30)
        ended(plain)
        assert "spot_1" not in it.names()


@pytest.mark.spec("T4", "T5", "C1", "C2")
def test_deleting_an_instance_a_machine_a_set(tmp_path: Path) -> None:
    """Each tells its machines first, where they were promised notice; a missing one is no error."""
    with cloud(tmp_path / "data") as (it, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        make_set(it, client, 3)
        told = machine(scheduled_events_profile=notice("PT6M"))
        ended(machines.begin_create_or_update(GROUP, "told", told))
        ended(machines.begin_create_or_update(GROUP, "untold", machine()))
        assert it.seen("told") == it.seen("untold") == {}

        leaving = [
            client.virtual_machine_scale_set_vms.begin_delete(GROUP, "web", "2"),
            machines.begin_delete(GROUP, "told"),
            machines.begin_delete(GROUP, "untold"),
            machines.begin_delete(GROUP, "nobody"),
        ]
        assert it.seen("web_0") == {"web_2": "Terminate Scheduled"}
        assert it.seen("told") == {"told": "Terminate Scheduled"}
        assert notice_seconds(it, "told", "told") == 360
        assert it.seen("untold") == {}
        it.approve_for("web_0")
        it.approve_for("told")
        it.advance(30)
        ended(*leaving)
        assert it.names() == ["web_0", "web_1"]
        with pytest.raises(ResourceNotFoundError):
            machines.get(GROUP, "told")

        whole = sets.begin_delete(GROUP, "web")
        assert it.seen("web_0") == dict.fromkeys(("web_0", "web_1"), "Terminate Scheduled")
        assert sets.get(GROUP, "web").provisioning_state == "Deleting"
        it.approve_for("web_1")
        it.advance(30)
        ended(whole)
        assert it.names() == []
        assert it.get("web_0").status == 404
        with pytest.raises(ResourceNotFoundError):
            sets.get(GROUP, "web")


# --- The queue of deletes -------------------------------------------------------------------------


def make_queue(it: SdkService, client: ComputeManagementClient) -> Any:  # noqa: ANN401  (operations)
    """A scale set with the instances VM_1 and VM_2, and one that watches."""
    sets = client.virtual_machine_scale_sets
    ended(sets.begin_create_or_update(GROUP, "VM", scale_set(3)))
    assert it.seen("VM_0") == {}
    return sets


PENDING = dict.fromkeys(("VM_1", "VM_2"), "Terminate Scheduled")
BEGUN = dict.fromkeys(("VM_1", "VM_2"), "Terminate Started")


@pytest.mark.spec("T6", "T5", "C2")
def test_an_earlier_delete_holds_a_later_one(tmp_path: Path) -> None:
    """VM_2 approved and VM_1 pending: nothing is deleted. VM_1 approved: both are."""
    with cloud(tmp_path / "data") as (it, client):
        sets = make_queue(it, client)
        deleting = [sets.begin_delete_instances(GROUP, "VM", some(1))]
        it.advance(10)
        deleting.append(sets.begin_delete_instances(GROUP, "VM", some(2)))
        assert [notice_seconds(it, "VM_0", name) for name in PENDING] == [290, 300]
        it.approve_for("VM_2", "VM_2")
        it.advance(280)
        assert it.seen("VM_0") == PENDING
        assert not any(one.done() for one in deleting)
        assert it.names() == ["VM_0", "VM_1", "VM_2"]
        it.approve_for("VM_1", "VM_1")
        assert it.seen("VM_0") == BEGUN
        it.advance(30)
        ended(*deleting)
        assert it.names() == ["VM_0"]


@pytest.mark.spec("T6", "T5", "C2")
def test_deletes_of_one_time_need_every_approval(tmp_path: Path) -> None:
    """With one NotBefore, one approval deletes nothing; the other deletes both."""
    with cloud(tmp_path / "data") as (it, client):
        deleting = make_queue(it, client).begin_delete_instances(GROUP, "VM", some(1, 2))
        assert [notice_seconds(it, "VM_0", name) for name in PENDING] == [300, 300]
        it.approve_for("VM_1", "VM_1")
        it.advance(120)
        assert it.seen("VM_0") == PENDING
        assert it.names() == ["VM_0", "VM_1", "VM_2"]
        it.approve_for("VM_1", "VM_2")  # anybody of the scope may
        assert it.seen("VM_0") == BEGUN
        it.advance(30)
        ended(deleting)
        assert it.names() == ["VM_0"]


@pytest.mark.spec("T6", "T5", "C2")
def test_deletes_that_nobody_approves(tmp_path: Path) -> None:
    """They happen at NotBefore, all of them, and not before."""
    with cloud(tmp_path / "data") as (it, client):
        deleting = make_queue(it, client).begin_delete_instances(GROUP, "VM", some(1, 2))
        it.advance(299)
        assert it.seen("VM_0") == PENDING
        assert it.names() == ["VM_0", "VM_1", "VM_2"]
        it.advance(1)
        assert it.seen("VM_0") == BEGUN
        it.advance(30)
        ended(deleting)
        assert it.names() == ["VM_0"]
