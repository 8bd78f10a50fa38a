"""Actions, deletes and listings through Azure's SDK for Python, and what the machines see."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.core.polling import LROPoller
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute import models as m

from tests.real.sdk import (
    SdkService,
    create_set,
    machine,
    notice,
    scale_set,
    service_with_group,
    wait_for,
)
from tests.real.tool_service import GROUP

ACTIONS = ("restart", "redeploy", "reimage", "deallocate", "power_off")
EVENT_TYPES = {"restart": "Reboot", "redeploy": "Redeploy"}  # the others have no event
POWER = {"deallocate": "deallocated", "power_off": "stopped"}


def begin_on_machines(client: ComputeManagementClient) -> dict[str, LROPoller[None]]:
    """Start each action on the machine with the action's name."""
    machines = client.virtual_machines
    return {action: getattr(machines, f"begin_{action}")(GROUP, action) for action in ACTIONS}


def begin_on_instances(client: ComputeManagementClient) -> dict[str, LROPoller[None]]:
    """Start each action on an instance."""
    instances = client.virtual_machine_scale_set_vms
    return {
        action: getattr(instances, f"begin_{action}")(GROUP, "web", str(number))
        for number, action in enumerate(ACTIONS)
    }


def begin_on_set(client: ComputeManagementClient) -> dict[str, LROPoller[None]]:
    """Start each action on a set, for one of its instances."""
    sets = client.virtual_machine_scale_sets
    return {
        action: getattr(sets, f"begin_{action}")(
            GROUP, "web", m.VirtualMachineScaleSetVMInstanceIDs(instance_ids=[str(number)])
        )
        for number, action in enumerate(ACTIONS)
    }


def check_events(service: SdkService, names: dict[str, str]) -> None:
    """Check that only restarts and redeploys have events, and approve those."""
    expected = {names[action]: f"{kind} Scheduled" for action, kind in EVENT_TYPES.items()}
    states: dict[str, str] = {}
    for name in names.values():
        states |= service.event_states(name)
    assert states == expected
    for action in EVENT_TYPES:
        service.approve_for(names[action], names[action])


@pytest.mark.spec("C1", "C2", "T4")
def test_actions_on_machines(tmp_path: Path) -> None:
    """Restart and redeploy have events; a machine that is down gets no response."""
    with service_with_group(tmp_path / "data") as (service, client):
        machines = client.virtual_machines
        for name in ACTIONS:
            wait_for(machines.begin_create_or_update(GROUP, name, machine()))
            assert service.event_states(name) == {}
        pollers = begin_on_machines(client)
        check_events(service, {name: name for name in ACTIONS})
        service.advance(240)
        wait_for(*pollers.values())
        for name in ACTIONS:
            statuses = machines.instance_view(GROUP, name).statuses or []
            power = POWER.get(name, "running")
            assert statuses[-1].code == f"PowerState/{power}"
            assert service.get(name).status == (404 if name in POWER else 200)
        starting = [machines.begin_start(GROUP, name) for name in POWER]
        service.advance(30)
        wait_for(*starting)
        assert all(service.event_states(name) == {} for name in ACTIONS)


@pytest.mark.spec("C1", "C2", "T4")
@pytest.mark.parametrize("begin", [begin_on_instances, begin_on_set])
def test_actions_on_instances(tmp_path: Path, begin: Any) -> None:  # noqa: ANN401  (one of two functions)
    """The same holds for instances, directly or through their set; none is a Terminate."""
    with service_with_group(tmp_path / "data") as (service, client):
        create_set(service, client, len(ACTIONS))
        names = {action: f"web_{number}" for number, action in enumerate(ACTIONS)}
        instances = client.virtual_machine_scale_set_vms
        pollers = begin(client)
        check_events(service, names)
        service.advance(240)
        wait_for(*pollers.values())
        for number, action in enumerate(ACTIONS):
            statuses = instances.get_instance_view(GROUP, "web", str(number)).statuses or []
            assert statuses[-1].code == f"PowerState/{POWER.get(action, 'running')}"
            assert service.get(names[action]).status == (404 if action in POWER else 200)
        if begin is begin_on_set:
            starting = [client.virtual_machine_scale_sets.begin_start(GROUP, "web")]
        else:
            starting = [instances.begin_start(GROUP, "web", str(n)) for n in (3, 4)]
        service.advance(30)
        wait_for(*starting)
        assert all(service.event_states(name) == {} for name in names.values())


@pytest.mark.spec("T4", "T5", "C1", "C2")
def test_deleting_an_instance_a_machine_a_set(tmp_path: Path) -> None:
    """Each gives notice where it is enabled; deleting a missing machine is no error."""
    with service_with_group(tmp_path / "data") as (service, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        create_set(service, client, 3)
        with_notice = machine(notice("PT6M"))
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
        (event,) = service.events("notified")
        assert service.notice(event) == 360
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
