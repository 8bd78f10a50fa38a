"""Actions through Azure's SDK for Python, and the events that the machines see."""

from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.core.polling import LROPoller
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute import models as m

from tests.real.sdk import (
    GROUP,
    LOCATION,
    SdkService,
    create_set,
    machine,
    notice_seconds,
    scale_set,
    service_with_group,
    wait_for,
)

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


@pytest.mark.spec("C1", "C2", "E1")
def test_evictions(tmp_path: Path) -> None:
    """A simulated eviction gives a Preempt event with 30 seconds notice."""
    with service_with_group(tmp_path / "data") as (service, client):
        machines, instances = client.virtual_machines, client.virtual_machine_scale_set_vms
        spot = machine(priority="Spot", eviction_policy="Delete")
        wait_for(machines.begin_create_or_update(GROUP, "spot", spot))
        create_set(service, client, 2, priority="Spot")
        assert service.event_states("spot") == {}
        statuses: list[int] = []

        def record(response: Any, _: object, __: object) -> None:  # noqa: ANN401  (the SDK's own)
            statuses.append(response.http_response.status_code)

        machines.simulate_eviction(GROUP, "spot", cls=record)
        instances.simulate_eviction(GROUP, "web", "1", cls=record)
        assert statuses == [204, 204]
        assert service.event_states("spot") == {"spot": "Preempt Scheduled"}
        assert service.event_states("web_0") == {"web_1": "Preempt Scheduled"}
        assert notice_seconds(service, "spot", "spot") == 30
        service.advance(29)
        assert service.event_states("spot") == {"spot": "Preempt Scheduled"}
        service.advance(1)
        assert service.event_states("spot") == {"spot": "Preempt Started"}
        service.advance(10)
        assert service.names() == ["web_0", "web_1"]
        assert service.event_states("web_0") == {}
        with pytest.raises(ResourceNotFoundError):
            machines.get(GROUP, "spot")
        (_, power) = instances.get_instance_view(GROUP, "web", "1").statuses or []
        assert power.code == "PowerState/deallocated"  # the eviction policy of the set


@pytest.mark.spec("C1", "C2", "T4")
def test_protected_instances(tmp_path: Path) -> None:
    """Scale-in skips protected instances, and actions on the set skip shielded ones."""
    with service_with_group(tmp_path / "data") as (service, client):
        create_set(service, client, 4)
        sets, instances = client.virtual_machine_scale_sets, client.virtual_machine_scale_set_vms
        for number, policy in {
            "2": m.VirtualMachineScaleSetVMProtectionPolicy(protect_from_scale_in=True),
            "3": m.VirtualMachineScaleSetVMProtectionPolicy(
                protect_from_scale_in=True, protect_from_scale_set_actions=True
            ),
        }.items():
            body = m.VirtualMachineScaleSetVM(
                location=LOCATION,
                properties=m.VirtualMachineScaleSetVMProperties(protection_policy=policy),
            )
            (updated,) = wait_for(instances.begin_update(GROUP, "web", number, body))
            assert updated.protection_policy.protect_from_scale_in is True
        protection = instances.get(GROUP, "web", "3").protection_policy
        assert protection.protect_from_scale_in is True
        assert protection.protect_from_scale_set_actions is True

        restarting = sets.begin_restart(GROUP, "web")
        assert service.event_states("web_0") == {f"web_{n}": "Reboot Scheduled" for n in range(3)}
        service.approve_for("web_0")
        service.advance(60)
        wait_for(restarting)
        scaling = sets.begin_create_or_update(GROUP, "web", scale_set(2))
        assert service.event_states("web_0") == {
            f"web_{n}": "Terminate Scheduled" for n in range(2)
        }
        service.approve_for("web_0")
        service.advance(30)
        (after,) = wait_for(scaling)
        assert after.sku.capacity == 2
        assert service.names() == ["web_2", "web_3"]


@pytest.mark.spec("C1", "C2")
def test_maintenance_that_a_user_starts(tmp_path: Path) -> None:
    """A user can start scheduled maintenance; without any, the request is refused."""
    with service_with_group(tmp_path / "data") as (service, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        instances = client.virtual_machine_scale_set_vms
        wait_for(machines.begin_create_or_update(GROUP, "vm", machine()))
        create_set(service, client, 7)  # web_1 and web_6 share a domain
        assert service.event_states("vm") == {}
        with pytest.raises(ResourceExistsError, match="no maintenance is planned"):
            machines.begin_perform_maintenance(GROUP, "vm")
        for name in ("vm", "web_1", "web_6"):
            service.freeze(name)
        offered = machines.instance_view(GROUP, "vm").maintenance_redeploy_status
        assert offered is not None
        assert offered.is_customer_initiated_maintenance_allowed is True

        pollers = [
            machines.begin_perform_maintenance(GROUP, "vm"),
            instances.begin_perform_maintenance(GROUP, "web", "1"),
        ]
        assert service.event_states("vm") == {"vm": "Freeze Started"}
        assert service.event_states("web_0") == {
            "web_1": "Freeze Started",
            "web_6": "Freeze Scheduled",
        }
        pollers.append(sets.begin_perform_maintenance(GROUP, "web"))
        assert service.event_states("web_0") == dict.fromkeys(("web_1", "web_6"), "Freeze Started")
        service.advance(60)
        wait_for(*pollers)
        assert service.event_states("vm") == service.event_states("web_0") == {}
