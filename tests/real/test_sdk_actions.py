"""What users do by Azure's SDK for Python, and what the machines' documents say of it."""

from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.core.polling import LROPoller
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute import models as m

from tests.real.sdk import (
    GROUP,
    PLACE,
    SdkService,
    cloud,
    ended,
    machine,
    make_set,
    notice_seconds,
    scale_set,
)

ACTIONS = ("restart", "redeploy", "reimage", "deallocate", "power_off")
ANNOUNCED = {"restart": "Reboot", "redeploy": "Redeploy"}  # the others happen at once
POWER = {"deallocate": "deallocated", "power_off": "stopped"}


def begin_on_machines(client: ComputeManagementClient) -> dict[str, LROPoller[None]]:
    """Each action on the machine that is called like it."""
    machines = client.virtual_machines
    return {action: getattr(machines, f"begin_{action}")(GROUP, action) for action in ACTIONS}


def begin_on_instances(client: ComputeManagementClient) -> dict[str, LROPoller[None]]:
    """Each action on an instance."""
    instances = client.virtual_machine_scale_set_vms
    return {
        action: getattr(instances, f"begin_{action}")(GROUP, "web", str(number))
        for number, action in enumerate(ACTIONS)
    }


def begin_on_set(client: ComputeManagementClient) -> dict[str, LROPoller[None]]:
    """Each action on a set, for one instance of it."""
    sets = client.virtual_machine_scale_sets
    return {
        action: getattr(sets, f"begin_{action}")(
            GROUP, "web", m.VirtualMachineScaleSetVMInstanceIDs(instance_ids=[str(number)])
        )
        for number, action in enumerate(ACTIONS)
    }


def check_told(it: SdkService, names: dict[str, str]) -> None:
    """Who was restarted or redeployed is told so, and nobody else anything; they approve."""
    expected = {names[action]: f"{kind} Scheduled" for action, kind in ANNOUNCED.items()}
    told: dict[str, str] = {}
    for name in names.values():
        told |= it.seen(name)
    assert told == expected
    for action in ANNOUNCED:
        it.approve_for(names[action], names[action])


@pytest.mark.spec("C1", "C2", "T4")
def test_actions_on_machines(tmp_path: Path) -> None:
    """Restart and redeploy are announced, the rest happens; whoever is down does not answer."""
    with cloud(tmp_path / "data") as (it, client):
        machines = client.virtual_machines
        for name in ACTIONS:
            ended(machines.begin_create_or_update(GROUP, name, machine()))
            assert it.seen(name) == {}
        begun = begin_on_machines(client)
        check_told(it, {name: name for name in ACTIONS})
        it.advance(240)
        ended(*begun.values())
        for name in ACTIONS:
            statuses = machines.instance_view(GROUP, name).statuses or []
            power = POWER.get(name, "running")
            assert statuses[-1].code == f"PowerState/{power}"
            assert it.get(name).status == (404 if name in POWER else 200)
        starting = [machines.begin_start(GROUP, name) for name in POWER]
        it.advance(30)
        ended(*starting)
        assert all(it.seen(name) == {} for name in ACTIONS)


@pytest.mark.spec("C1", "C2", "T4")
@pytest.mark.parametrize("begin", [begin_on_instances, begin_on_set])
def test_actions_on_instances(tmp_path: Path, begin: Any) -> None:  # noqa: ANN401  (one of two)
    """The same of instances, one by one or through their set; none of it is a Terminate."""
    with cloud(tmp_path / "data") as (it, client):
        make_set(it, client, len(ACTIONS))
        names = {action: f"web_{number}" for number, action in enumerate(ACTIONS)}
        instances = client.virtual_machine_scale_set_vms
        begun = begin(client)
        check_told(it, names)
        it.advance(240)
        ended(*begun.values())
        for number, action in enumerate(ACTIONS):
            statuses = instances.get_instance_view(GROUP, "web", str(number)).statuses or []
            assert statuses[-1].code == f"PowerState/{POWER.get(action, 'running')}"
            assert it.get(names[action]).status == (404 if action in POWER else 200)
        if begin is begin_on_set:
            starting = [client.virtual_machine_scale_sets.begin_start(GROUP, "web")]
        else:
            starting = [instances.begin_start(GROUP, "web", str(n)) for n in (3, 4)]
        it.advance(30)
        ended(*starting)
        assert all(it.seen(name) == {} for name in names.values())


@pytest.mark.spec("C1", "C2", "E1")
def test_evictions(tmp_path: Path) -> None:
    """Asked to pretend, the platform takes Spot machines back: Preempt, half a minute's notice."""
    with cloud(tmp_path / "data") as (it, client):
        machines, instances = client.virtual_machines, client.virtual_machine_scale_set_vms
        spot = machine(priority="Spot", eviction_policy="Delete")
        ended(machines.begin_create_or_update(GROUP, "spot", spot))
        make_set(it, client, 2, priority="Spot")
        assert it.seen("spot") == {}
        statuses: list[int] = []

        def note(response: Any, _: object, __: object) -> None:  # noqa: ANN401  (the SDK's own)
            statuses.append(response.http_response.status_code)

        machines.simulate_eviction(GROUP, "spot", cls=note)
        instances.simulate_eviction(GROUP, "web", "1", cls=note)
        assert statuses == [204, 204]
        assert it.seen("spot") == {"spot": "Preempt Scheduled"}
        assert it.seen("web_0") == {"web_1": "Preempt Scheduled"}
        assert notice_seconds(it, "spot", "spot") == 30
        it.advance(29)
        assert it.seen("spot") == {"spot": "Preempt Scheduled"}
        it.advance(1)
        assert it.seen("spot") == {"spot": "Preempt Started"}
        it.advance(10)
        assert it.names() == ["web_0", "web_1"]
        assert it.seen("web_0") == {}
        with pytest.raises(ResourceNotFoundError):
            machines.get(GROUP, "spot")
        (_, power) = instances.get_instance_view(GROUP, "web", "1").statuses or []
        assert power.code == "PowerState/deallocated"  # what the set's policy says


@pytest.mark.spec("C1", "C2", "T4")
def test_protected_instances(tmp_path: Path) -> None:
    """Scaling in passes by who is protected from it, the set's actions who is shielded."""
    with cloud(tmp_path / "data") as (it, client):
        make_set(it, client, 4)
        sets, instances = client.virtual_machine_scale_sets, client.virtual_machine_scale_set_vms
        for number, policy in {
            "2": m.VirtualMachineScaleSetVMProtectionPolicy(protect_from_scale_in=True),
            "3": m.VirtualMachineScaleSetVMProtectionPolicy(
                protect_from_scale_in=True, protect_from_scale_set_actions=True
            ),
        }.items():
            wanted = m.VirtualMachineScaleSetVM(
                location=PLACE,
                properties=m.VirtualMachineScaleSetVMProperties(protection_policy=policy),
            )
            (updated,) = ended(instances.begin_update(GROUP, "web", number, wanted))
            assert updated.protection_policy.protect_from_scale_in is True
        kept = instances.get(GROUP, "web", "3").protection_policy
        assert (kept.protect_from_scale_in, kept.protect_from_scale_set_actions) == (True, True)

        restarting = sets.begin_restart(GROUP, "web")
        assert it.seen("web_0") == {f"web_{n}": "Reboot Scheduled" for n in range(3)}
        it.approve_for("web_0")
        it.advance(60)
        ended(restarting)
        scaling = sets.begin_create_or_update(GROUP, "web", scale_set(2))
        assert it.seen("web_0") == {f"web_{n}": "Terminate Scheduled" for n in range(2)}
        it.approve_for("web_0")
        it.advance(30)
        (after,) = ended(scaling)
        assert after.sku.capacity == 2
        assert it.names() == ["web_2", "web_3"]


@pytest.mark.spec("C1", "C2")
def test_maintenance_that_a_user_begins(tmp_path: Path) -> None:
    """What the platform has planned can be begun at a time of one's own; where nothing is, not."""
    with cloud(tmp_path / "data") as (it, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        instances = client.virtual_machine_scale_set_vms
        ended(machines.begin_create_or_update(GROUP, "vm", machine()))
        make_set(it, client, 3)
        assert it.seen("vm") == {}
        with pytest.raises(ResourceExistsError, match="no maintenance is planned"):
            machines.begin_perform_maintenance(GROUP, "vm")
        for name in ("vm", "web_1", "web_2"):
            it.freeze(name)
        offered = machines.instance_view(GROUP, "vm").maintenance_redeploy_status
        assert offered is not None
        assert offered.is_customer_initiated_maintenance_allowed is True

        begun = [
            machines.begin_perform_maintenance(GROUP, "vm"),
            instances.begin_perform_maintenance(GROUP, "web", "1"),
        ]
        assert it.seen("vm") == {"vm": "Freeze Started"}
        assert it.seen("web_0") == {"web_1": "Freeze Started", "web_2": "Freeze Scheduled"}
        begun.append(sets.begin_perform_maintenance(GROUP, "web"))
        assert it.seen("web_0") == dict.fromkeys(("web_1", "web_2"), "Freeze Started")
        it.advance(60)
        ended(*begun)
        assert it.seen("vm") == it.seen("web_0") == {}
