"""Azure's SDK for Python against the control plane: what is written, read and listed."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.core.polling import LROPoller
from azure.mgmt.compute import models as m

from tests.fixtures.waiting import LIMIT_SECONDS
from tests.real.sdk import (
    GROUP,
    PLACE,
    SdkService,
    cloud,
    code_of,
    ended,
    machine,
    notice,
    scale_set,
    some,
)


@pytest.mark.spec("T1", "C1", "C2")
def test_notice_is_given_back_and_has_limits(tmp_path: Path) -> None:
    """A set keeps the notice it was given: 5 minutes unless it says more, 15 at most."""
    with cloud(tmp_path / "data") as (_, client):
        sets = client.virtual_machine_scale_sets

        def kept() -> tuple[bool, str]:
            model = sets.get(GROUP, "web").virtual_machine_profile
            told = model.scheduled_events_profile.terminate_notification_profile
            return told.enable, told.not_before_timeout

        (made,) = ended(sets.begin_create_or_update(GROUP, "web", scale_set(2, "PT10M")))
        assert (made.name, made.provisioning_state) == ("web", "Succeeded")
        assert made.sku.capacity == 2
        assert kept() == (True, "PT10M")

        for timeout in ("PT20M", "PT4M59S", "ten"):
            with pytest.raises(HttpResponseError) as refused:
                sets.begin_create_or_update(GROUP, "web", scale_set(2, timeout))
            assert (refused.value.status_code, code_of(refused.value)) == (400, "InvalidParameter")
            assert "PT5M to PT15M" in refused.value.message
            assert timeout in refused.value.message
        assert kept() == (True, "PT10M")

        change = m.VirtualMachineScaleSetUpdate(
            properties=m.VirtualMachineScaleSetUpdateProperties(
                virtual_machine_profile=m.VirtualMachineScaleSetUpdateVMProfile(
                    scheduled_events_profile=notice("PT15M")
                )
            )
        )
        ended(sets.begin_update(GROUP, "web", change))
        assert kept() == (True, "PT15M")
        plain = scale_set(0, None)
        assert plain.properties is not None
        assert plain.properties.virtual_machine_profile is not None
        plain.properties.virtual_machine_profile.scheduled_events_profile = notice(None)
        (made,) = ended(sets.begin_create_or_update(GROUP, "plain", plain))
        told = made.virtual_machine_profile.scheduled_events_profile.terminate_notification_profile
        assert (told.enable, told.not_before_timeout) == (True, "PT5M")
        assert {one.name for one in sets.list(GROUP)} == {"web", "plain"}
        assert {one.name for one in sets.list_all()} == {"web", "plain"}


@pytest.mark.spec("T2", "C2")
def test_a_version_that_knows_no_notice(tmp_path: Path) -> None:
    """Before 2019-03-01 the member is not known; the text is Azure's own."""
    text = (
        "Could not find member 'scheduledEventsProfile' on object of type 'VirtualMachineProfile'"
    )
    with cloud(tmp_path / "data") as (_, client):
        sets = client.virtual_machine_scale_sets
        for version in ("2018-10-01", "2017-12-01"):
            with pytest.raises(HttpResponseError) as refused:
                sets.begin_create_or_update(GROUP, "web", scale_set(1), api_version=version)
            assert (refused.value.status_code, code_of(refused.value)) == (400, "BadRequest")
            assert refused.value.error is not None
            assert refused.value.error.message == text
        assert list(sets.list(GROUP)) == []
        sets.begin_create_or_update(GROUP, "old", scale_set(1, None), api_version="2018-10-01")
        sets.begin_create_or_update(GROUP, "new", scale_set(1), api_version="2019-03-01")
        assert {one.name for one in sets.list(GROUP)} == {"old", "new"}


@pytest.mark.spec("C1", "C2")
def test_availability_sets(tmp_path: Path) -> None:
    """Made, read, listed, changed and deleted; not deleted while machines are in it."""
    with cloud(tmp_path / "data") as (service, client):
        sets, machines = client.availability_sets, client.virtual_machines
        wanted = m.AvailabilitySet(
            location=PLACE,
            sku=m.Sku(name="Aligned"),
            properties=m.AvailabilitySetProperties(platform_update_domain_count=3),
        )
        made = sets.create_or_update(GROUP, "av", wanted)
        assert (made.name, made.platform_update_domain_count) == ("av", 3)
        for name in ("one", "two"):
            within = machine(availability_set=m.SubResource(id=made.id))
            ended(machines.begin_create_or_update(GROUP, name, within))
        assert [one.id for one in sets.get(GROUP, "av").virtual_machines] == [
            machines.get(GROUP, name).id for name in ("one", "two")
        ]
        assert sets.update(GROUP, "av", m.AvailabilitySetUpdate(tags={"a": "b"})).tags == {"a": "b"}
        for listed in (sets.list(GROUP), sets.list_by_subscription()):
            assert [one.name for one in listed] == ["av"]
        assert service.seen("one") == {}
        redeploying = machines.begin_redeploy(GROUP, "two")
        assert service.seen("one") == {"two": "Redeploy Scheduled"}  # what one is told, all are
        service.approve_for("one")
        service.advance(240)
        ended(redeploying)

        with pytest.raises(ResourceExistsError) as refused:
            sets.delete(GROUP, "av")
        assert code_of(refused.value) == "OperationNotAllowed"
        assert "delete them first" in refused.value.message
        leaving = [machines.begin_delete(GROUP, name) for name in ("one", "two")]
        service.advance(30)
        ended(*leaving)
        sets.delete(GROUP, "av")
        with pytest.raises(ResourceNotFoundError):
            sets.get(GROUP, "av")
        sets.delete(GROUP, "av")  # gone is gone
        assert list(sets.list(GROUP)) == []


@pytest.mark.spec("C1", "C2")
def test_listings_are_whole(tmp_path: Path) -> None:
    """However many there are: on several pages, each once, and nobody else's."""
    fleet = '[[machine]]\nname = "vm"\ncount = 450\ngroup = "rg"\n[[machine]]\nname = "far"\n'
    with SdkService(tmp_path / "data", "--memory", fleet=fleet) as service:
        client = service.client()
        machines = client.virtual_machines
        pages = [[one.name for one in page] for page in machines.list(GROUP).by_page()]
        assert [len(page) for page in pages] == [200, 200, 50]
        expected = Counter(f"vm_{n}" for n in range(450))
        assert Counter(itertools.chain(*pages)) == expected
        every = Counter(one.name for one in machines.list_all())
        assert every == expected + Counter(["far"])

        sets, instances = client.virtual_machine_scale_sets, client.virtual_machine_scale_set_vms
        ended(sets.begin_create_or_update(GROUP, "web", scale_set(450)))
        pages = [[one.name for one in page] for page in instances.list(GROUP, "web").by_page()]
        assert [len(page) for page in pages] == [200, 200, 50]
        assert list(itertools.chain(*pages)) == [f"web_{n}" for n in range(450)]
        assert service.seen("web_449") == {}
        assert Counter(service.names()) == every + Counter(itertools.chain(*pages))


@pytest.mark.spec("C1", "C2")
def test_a_change_does_not_wait_for_what_others_began(tmp_path: Path) -> None:
    """It is done when it is written, also while a delete or a restart is still to come."""
    with cloud(tmp_path / "data") as (service, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        ended(machines.begin_create_or_update(GROUP, "vm", machine()))
        ended(sets.begin_create_or_update(GROUP, "web", scale_set(2)))
        assert service.seen("vm") == service.seen("web_0") == {}
        machines.begin_restart(GROUP, "vm", polling=False)
        sets.begin_delete_instances(GROUP, "web", some(1), polling=False)
        changes: list[LROPoller[Any]] = [
            machines.begin_update(GROUP, "vm", m.VirtualMachineUpdate(tags={"a": "b"})),
            sets.begin_update(GROUP, "web", m.VirtualMachineScaleSetUpdate(tags={"a": "b"})),
        ]
        for one in changes:
            one.wait(LIMIT_SECONDS)
            assert one.done(), one.status()
            assert one.result().tags == {"a": "b"}
        assert service.seen("vm") == {"vm": "Reboot Scheduled"}
        assert service.seen("web_0") == {"web_1": "Terminate Scheduled"}
