"""Deletes through Azure's SDK for Python, and the events that the machines see."""

from pathlib import Path

import pytest
from azure.core.exceptions import ResourceNotFoundError

from tests.real.sdk import (
    GROUP,
    create_set,
    instance_ids,
    machine,
    notice,
    notice_seconds,
    service_with_group,
    wait_for,
)


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
