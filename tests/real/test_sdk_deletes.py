"""Deletes through Azure's SDK for Python, and the events that the machines see."""

from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.compute import ComputeManagementClient

from tests.real.sdk import (
    GROUP,
    SdkService,
    create_set,
    instance_ids,
    machine,
    notice,
    notice_seconds,
    scale_set,
    service_with_group,
    wait_for,
)

# --- Deletes with notice --------------------------------------------------------------------------


@pytest.mark.spec("T4", "T5", "C1", "C2")
def test_an_approved_delete_ends(tmp_path: Path) -> None:
    """Deleted instances see an event and go when approved; then the poller ends."""
    with service_with_group(tmp_path / "data") as (service, client):
        create_set(service, client, 3, timeout="PT10M")
        sets = client.virtual_machine_scale_sets
        deleting = sets.begin_delete_instances(GROUP, "web", instance_ids(1))
        assert service.event_states("web_0") == {"web_1": "Terminate Scheduled"}
        assert notice_seconds(service, "web_0", "web_1") == 600
        service.advance(599)
        assert service.event_states("web_0") == {"web_1": "Terminate Scheduled"}
        assert not deleting.done()
        service.approve_for("web_1")
        assert service.event_states("web_0") == {"web_1": "Terminate Started"}
        service.advance(30)
        assert wait_for(deleting) == [None]
        assert deleting.status() == "Succeeded"
        assert service.event_states("web_0") == {}
        assert service.names() == ["web_0", "web_2"]
        left = client.virtual_machine_scale_set_vms.list(GROUP, "web")
        assert [instance.instance_id for instance in left] == ["0", "2"]
        sku = sets.get(GROUP, "web").sku
        assert sku is not None
        assert sku.capacity == 2


@pytest.mark.spec("T3", "T5", "C2")
def test_a_new_notice_needs_an_upgrade(tmp_path: Path) -> None:
    """A changed timeout applies to upgraded instances, and to no existing event."""
    with service_with_group(tmp_path / "data") as (service, client):
        create_set(service, client, 4)
        sets, instances = client.virtual_machine_scale_sets, client.virtual_machine_scale_set_vms
        deleting = sets.begin_delete_instances(GROUP, "web", instance_ids(1))
        sets.begin_create_or_update(GROUP, "web", scale_set(3, "PT15M"), polling=False)
        wait_for(sets.begin_update_instances(GROUP, "web", instance_ids(2)))
        listed = instances.list(GROUP, "web")
        assert {item.instance_id: item.latest_model_applied for item in listed} == {
            "0": False, "1": False, "2": True, "3": False,
        }  # fmt: skip
        rest = sets.begin_delete_instances(GROUP, "web", instance_ids(2, 3))
        assert [notice_seconds(service, "web_0", f"web_{n}") for n in (1, 2, 3)] == [300, 900, 300]
        service.advance(330)
        wait_for(deleting)
        assert service.names() == ["web_0", "web_2"]
        service.advance(600)
        wait_for(rest)
        assert service.names() == ["web_0"]


@pytest.mark.spec("T3", "T4", "C2")
def test_automatic_sets_and_spot_sets(tmp_path: Path) -> None:
    """An Automatic set has the new notice at once; Spot instances get no notice of deletes."""
    with service_with_group(tmp_path / "data") as (service, client):
        sets = client.virtual_machine_scale_sets
        for timeout in ("PT5M", "PT12M"):
            create_set(service, client, 2, timeout=timeout, mode="Automatic")
        spot = scale_set(2, priority="Spot")
        wait_for(sets.begin_create_or_update(GROUP, "spot", spot))
        assert service.event_states("spot_0") == {}
        plain = sets.begin_delete_instances(GROUP, "spot", instance_ids(1))
        assert service.event_states("spot_0") == {}
        sets.begin_delete_instances(GROUP, "web", instance_ids(1), polling=False)
        assert notice_seconds(service, "web_0", "web_1") == 720
        service.advance(30)
        wait_for(plain)
        assert "spot_1" not in service.names()


@pytest.mark.spec("T4", "T5", "C1", "C2")
def test_deleting_an_instance_a_machine_a_set(tmp_path: Path) -> None:
    """Each gives notice where it is enabled; deleting a missing machine is no error."""
    with service_with_group(tmp_path / "data") as (service, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        create_set(service, client, 3)
        with_notice = machine(scheduled_events_profile=notice("PT6M"))
        wait_for(machines.begin_create_or_update(GROUP, "notified", with_notice))
        wait_for(machines.begin_create_or_update(GROUP, "unnotified", machine()))
        assert service.event_states("notified") == service.event_states("unnotified") == {}

        deleting = [
            client.virtual_machine_scale_set_vms.begin_delete(GROUP, "web", "2"),
            machines.begin_delete(GROUP, "notified"),
            machines.begin_delete(GROUP, "unnotified"),
            machines.begin_delete(GROUP, "nobody"),
        ]
        assert service.event_states("web_0") == {"web_2": "Terminate Scheduled"}
        assert service.event_states("notified") == {"notified": "Terminate Scheduled"}
        assert notice_seconds(service, "notified", "notified") == 360
        assert service.event_states("unnotified") == {}
        service.approve_for("web_0")
        service.approve_for("notified")
        service.advance(30)
        wait_for(*deleting)
        assert service.names() == ["web_0", "web_1"]
        with pytest.raises(ResourceNotFoundError):
            machines.get(GROUP, "notified")

        deleting_set = sets.begin_delete(GROUP, "web")
        assert service.event_states("web_0") == dict.fromkeys(
            ("web_0", "web_1"), "Terminate Scheduled"
        )
        assert sets.get(GROUP, "web").provisioning_state == "Deleting"
        service.approve_for("web_1")
        service.advance(30)
        wait_for(deleting_set)
        assert service.names() == []
        assert service.get("web_0").status == 404
        with pytest.raises(ResourceNotFoundError):
            sets.get(GROUP, "web")


# --- The queue of deletes -------------------------------------------------------------------------


def create_queue(service: SdkService, client: ComputeManagementClient) -> Any:  # noqa: ANN401  (operations)
    """Create a scale set with the instances VM_1 and VM_2, and VM_0, which only polls."""
    sets = client.virtual_machine_scale_sets
    wait_for(sets.begin_create_or_update(GROUP, "VM", scale_set(3)))
    assert service.event_states("VM_0") == {}
    return sets


SCHEDULED = dict.fromkeys(("VM_1", "VM_2"), "Terminate Scheduled")
STARTED = dict.fromkeys(("VM_1", "VM_2"), "Terminate Started")


@pytest.mark.spec("T6", "T5", "C2")
def test_an_earlier_delete_holds_a_later_one(tmp_path: Path) -> None:
    """While VM_1 is pending, an approved VM_2 stays; after VM_1's approval both go."""
    with service_with_group(tmp_path / "data") as (service, client):
        sets = create_queue(service, client)
        deleting = [sets.begin_delete_instances(GROUP, "VM", instance_ids(1))]
        service.advance(10)
        deleting.append(sets.begin_delete_instances(GROUP, "VM", instance_ids(2)))
        assert [notice_seconds(service, "VM_0", name) for name in SCHEDULED] == [290, 300]
        service.approve_for("VM_2", "VM_2")
        service.advance(280)
        assert service.event_states("VM_0") == SCHEDULED
        assert not any(poller.done() for poller in deleting)
        assert service.names() == ["VM_0", "VM_1", "VM_2"]
        service.approve_for("VM_1", "VM_1")
        assert service.event_states("VM_0") == STARTED
        service.advance(30)
        wait_for(*deleting)
        assert service.names() == ["VM_0"]


@pytest.mark.spec("T6", "T5", "C2")
def test_deletes_of_one_time_need_every_approval(tmp_path: Path) -> None:
    """With the same NotBefore, both are deleted after the second approval."""
    with service_with_group(tmp_path / "data") as (service, client):
        deleting = create_queue(service, client).begin_delete_instances(
            GROUP, "VM", instance_ids(1, 2)
        )
        assert [notice_seconds(service, "VM_0", name) for name in SCHEDULED] == [300, 300]
        service.approve_for("VM_1", "VM_1")
        service.advance(120)
        assert service.event_states("VM_0") == SCHEDULED
        assert service.names() == ["VM_0", "VM_1", "VM_2"]
        service.approve_for("VM_1", "VM_2")  # any machine of the scope may approve
        assert service.event_states("VM_0") == STARTED
        service.advance(30)
        wait_for(deleting)
        assert service.names() == ["VM_0"]


@pytest.mark.spec("T6", "T5", "C2")
def test_deletes_without_approval(tmp_path: Path) -> None:
    """They all happen at NotBefore, and not earlier."""
    with service_with_group(tmp_path / "data") as (service, client):
        deleting = create_queue(service, client).begin_delete_instances(
            GROUP, "VM", instance_ids(1, 2)
        )
        service.advance(299)
        assert service.event_states("VM_0") == SCHEDULED
        assert service.names() == ["VM_0", "VM_1", "VM_2"]
        service.advance(1)
        assert service.event_states("VM_0") == STARTED
        service.advance(30)
        wait_for(deleting)
        assert service.names() == ["VM_0"]
