"""Azure's SDK for Python: writing, reading and listing resources."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.core.polling import LROPoller
from azure.mgmt.compute import models as m

from tests.fixtures.waiting import LIMIT_SECONDS
from tests.real.sdk import (
    GROUP,
    LOCATION,
    SdkService,
    code_of,
    instance_ids,
    machine,
    notice,
    scale_set,
    service_with_group,
    wait_for,
)


@pytest.mark.spec("T1", "C1", "C2")
def test_notice_is_stored_and_limited(tmp_path: Path) -> None:
    """A set stores its notice: 5 minutes by default, 15 at most."""
    with service_with_group(tmp_path / "data") as (_, client):
        sets = client.virtual_machine_scale_sets

        def stored_notice() -> tuple[bool, str]:
            model = sets.get(GROUP, "web").virtual_machine_profile
            profile = model.scheduled_events_profile.terminate_notification_profile
            return profile.enable, profile.not_before_timeout

        (created,) = wait_for(sets.begin_create_or_update(GROUP, "web", scale_set(2, "PT10M")))
        assert (created.name, created.provisioning_state) == ("web", "Succeeded")
        assert created.sku.capacity == 2
        assert stored_notice() == (True, "PT10M")

        for timeout in ("PT20M", "PT4M59S", "ten"):
            with pytest.raises(HttpResponseError) as error:
                sets.begin_create_or_update(GROUP, "web", scale_set(2, timeout))
            assert (error.value.status_code, code_of(error.value)) == (400, "InvalidParameter")
            assert "PT5M to PT15M" in error.value.message
            assert timeout in error.value.message
        assert stored_notice() == (True, "PT10M")

        change = m.VirtualMachineScaleSetUpdate(
            properties=m.VirtualMachineScaleSetUpdateProperties(
                virtual_machine_profile=m.VirtualMachineScaleSetUpdateVMProfile(
                    scheduled_events_profile=notice("PT15M")
                )
            )
        )
        wait_for(sets.begin_update(GROUP, "web", change))
        assert stored_notice() == (True, "PT15M")
        plain = scale_set(0, None)
        assert plain.properties is not None
        assert plain.properties.virtual_machine_profile is not None
        plain.properties.virtual_machine_profile.scheduled_events_profile = notice(None)
        (created,) = wait_for(sets.begin_create_or_update(GROUP, "plain", plain))
        events = created.virtual_machine_profile.scheduled_events_profile
        profile = events.terminate_notification_profile
        assert (profile.enable, profile.not_before_timeout) == (True, "PT5M")
        assert {item.name for item in sets.list(GROUP)} == {"web", "plain"}
        assert {item.name for item in sets.list_all()} == {"web", "plain"}


@pytest.mark.spec("C1", "C2")
def test_availability_sets(tmp_path: Path) -> None:
    """They can be created, read, listed, changed, and deleted when empty."""
    with service_with_group(tmp_path / "data") as (service, client):
        sets, machines = client.availability_sets, client.virtual_machines
        body = m.AvailabilitySet(
            location=LOCATION,
            sku=m.Sku(name="Aligned"),
            properties=m.AvailabilitySetProperties(platform_update_domain_count=3),
        )
        created = sets.create_or_update(GROUP, "av", body)
        assert (created.name, created.platform_update_domain_count) == ("av", 3)
        for name in ("one", "two"):
            body_ = machine(availability_set=m.SubResource(id=created.id))
            wait_for(machines.begin_create_or_update(GROUP, name, body_))
        assert [item.id for item in sets.get(GROUP, "av").virtual_machines] == [
            machines.get(GROUP, name).id for name in ("one", "two")
        ]
        assert sets.update(GROUP, "av", m.AvailabilitySetUpdate(tags={"a": "b"})).tags == {"a": "b"}
        for listed in (sets.list(GROUP), sets.list_by_subscription()):
            assert [item.name for item in listed] == ["av"]
        assert service.event_states("one") == {}
        redeploying = machines.begin_redeploy(GROUP, "two")
        assert service.event_states("one") == {
            "two": "Redeploy Scheduled"
        }  # all machines of the set see it
        service.approve_for("one")
        service.advance(240)
        wait_for(redeploying)

        with pytest.raises(ResourceExistsError) as error:
            sets.delete(GROUP, "av")
        assert code_of(error.value) == "OperationNotAllowed"
        assert "delete them first" in error.value.message
        deleting = [machines.begin_delete(GROUP, name) for name in ("one", "two")]
        service.advance(30)
        wait_for(*deleting)
        sets.delete(GROUP, "av")
        with pytest.raises(ResourceNotFoundError):
            sets.get(GROUP, "av")
        sets.delete(GROUP, "av")  # deleting it again is no error
        assert list(sets.list(GROUP)) == []


@pytest.mark.spec("C1", "C2")
def test_listings_are_complete(tmp_path: Path) -> None:
    """All pages together contain each resource once, and none of another group."""
    fleet = '[[machine]]\nname = "vm"\ncount = 450\ngroup = "rg"\n[[machine]]\nname = "far"\n'
    with SdkService(tmp_path / "data", "--memory", fleet=fleet) as service:
        client = service.client()
        machines = client.virtual_machines
        pages = [[item.name for item in page] for page in machines.list(GROUP).by_page()]
        assert [len(page) for page in pages] == [200, 200, 50]
        expected = Counter(f"vm_{n}" for n in range(450))
        assert Counter(itertools.chain(*pages)) == expected
        every = Counter(item.name for item in machines.list_all())
        assert every == expected + Counter(["far"])

        sets, instances = client.virtual_machine_scale_sets, client.virtual_machine_scale_set_vms
        wait_for(sets.begin_create_or_update(GROUP, "web", scale_set(450)))
        pages = [[item.name for item in page] for page in instances.list(GROUP, "web").by_page()]
        assert [len(page) for page in pages] == [200, 200, 50]
        assert list(itertools.chain(*pages)) == [f"web_{n}" for n in range(450)]
        assert service.event_states("web_449") == {}
        assert Counter(service.names()) == every + Counter(itertools.chain(*pages))


@pytest.mark.spec("C1", "C2")
def test_a_change_does_not_wait_for_other_operations(tmp_path: Path) -> None:
    """A change ends when it is written, even while a delete or restart is pending."""
    with service_with_group(tmp_path / "data") as (service, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        wait_for(machines.begin_create_or_update(GROUP, "vm", machine()))
        wait_for(sets.begin_create_or_update(GROUP, "web", scale_set(2)))
        assert service.event_states("vm") == service.event_states("web_0") == {}
        machines.begin_restart(GROUP, "vm", polling=False)
        sets.begin_delete_instances(GROUP, "web", instance_ids(1), polling=False)
        changes: list[LROPoller[Any]] = [
            machines.begin_update(GROUP, "vm", m.VirtualMachineUpdate(tags={"a": "b"})),
            sets.begin_update(GROUP, "web", m.VirtualMachineScaleSetUpdate(tags={"a": "b"})),
        ]
        for poller in changes:
            poller.wait(LIMIT_SECONDS)
            assert poller.done(), poller.status()
            assert poller.result().tags == {"a": "b"}
        assert service.event_states("vm") == {"vm": "Reboot Scheduled"}
        assert service.event_states("web_0") == {"web_1": "Terminate Scheduled"}
