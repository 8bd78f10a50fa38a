"""The unmodified Azure SDK against the real service, and the events that its machines see."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import HttpResponseError
from azure.core.polling import LROPoller
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute import models as m

from fairwarning.service.tokens import Principal
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.real.tool_service import GROUP, ToolService

LOCATION = "westus"


@dataclass(frozen=True)
class StaticToken:
    """A credential with a fixed token."""

    token: str

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:  # noqa: ANN401  (anything)
        return AccessToken(self.token, int(time.time()) + 3600)


class SdkService(ToolService):
    """A service with a frozen clock, with methods for clients of the SDK and for machines.

    It listens on the default ports, which are free in a private network. Without other arguments it
    stores nothing; with arguments, another start on the same data continues where it stopped.
    """

    def __init__(self, data: Path, *words: str, fleet: str = "") -> None:
        words = words or ("--memory",)
        super().__init__(data, *words, fleet=fleet, metadata="", console="", arm="")
        self._clients = ExitStack()

    def __exit__(self, *error: object) -> None:
        self._clients.close()
        super().__exit__(*error)

    # --- Clients ---

    def client(self, credential: TokenCredential | None = None) -> ComputeManagementClient:
        """Return Azure's client for this service, by default with the operator's token."""
        client = ComputeManagementClient(
            credential or StaticToken(self.ready["token"]),
            self.ready["subscription"],
            base_url=self.ready["arm"],
            credential_scopes=[f"{self.ready['arm']}/.default"],
            connection_verify=self.ready["ca"],
        )
        return self._clients.enter_context(client)

    def token_of(self, principal: Principal, use: str = "api") -> str:
        """Return a token of this principal; with use `login` a client secret."""
        body = {"name": principal.name, "role": principal.role, "group": principal.group}
        return str(self.ok("POST", "/api/tokens", {**body, "use": use})["token"])

    # --- Machines ---

    def names(self) -> list[str]:
        """Return the names of all machines."""
        listed = self.ok("GET", "/api/machines?limit=1000")["machines"]
        return [machine["name"] for machine in listed]

    def event_states(self, machine: str) -> dict[str, str]:
        """Return the type and status of the events that a machine sees, by affected machine."""
        return {
            name: f"{event['EventType']} {event['EventStatus']}"
            for event in self.events(machine)
            for name in event["Resources"]
        }

    def approve_for(self, approver: str, *machines: str) -> None:
        """Let a machine approve the events of these machines; by default, all events."""
        self.approve(
            approver,
            *(
                event["EventId"]
                for event in self.events(approver)
                if not machines or set(machines) & set(event["Resources"])
            ),
        )


@contextmanager
def service_with_group(data: Path) -> Iterator[tuple[SdkService, ComputeManagementClient]]:
    """Start a service with a resource group, and the operator's client."""
    with SdkService(data) as service:
        service.create_group()
        yield service, service.client()


def wait_for(*pollers: LROPoller[Any]) -> list[Any]:
    """Wait for operations that finish at the next poll, and return their results."""
    for poller in pollers:
        poller.wait(LIMIT_SECONDS)
        assert poller.done(), poller.status()
    return [poller.result() for poller in pollers]


def code_of(error: HttpResponseError) -> str | None:
    """Return the error code, which scripts compare."""
    assert error.error is not None, error
    return error.error.code


def create_set(service: SdkService, client: ComputeManagementClient, capacity: int) -> None:
    """Create a scale set `web` whose machines poll."""
    body = scale_set(capacity)
    wait_for(client.virtual_machine_scale_sets.begin_create_or_update(GROUP, "web", body))
    assert service.event_states("web_0") == {}


# --- Request bodies -------------------------------------------------------------------------------


def notice(timeout: str) -> m.ScheduledEventsProfile:
    """Return a profile with notice of deletes."""
    return m.ScheduledEventsProfile(
        terminate_notification_profile=m.TerminateNotificationProfile(
            enable=True, not_before_timeout=timeout
        )
    )


def scale_set(capacity: int) -> m.VirtualMachineScaleSet:
    """Return a scale set, with notice of deletes."""
    return m.VirtualMachineScaleSet(
        location=LOCATION,
        sku=m.Sku(name="Standard_B1s", capacity=capacity),
        properties=m.VirtualMachineScaleSetProperties(
            upgrade_policy=m.UpgradePolicy(mode="Manual"),
            virtual_machine_profile=m.VirtualMachineScaleSetVMProfile(
                scheduled_events_profile=notice("PT5M")
            ),
        ),
    )


def machine(profile: m.ScheduledEventsProfile | None = None) -> m.VirtualMachine:
    """Return a virtual machine."""
    return m.VirtualMachine(
        location=LOCATION,
        properties=m.VirtualMachineProperties(
            hardware_profile=m.HardwareProfile(vm_size="Standard_B1s"),
            scheduled_events_profile=profile,
        ),
    )


def instance_ids(*instances: int) -> m.VirtualMachineScaleSetVMInstanceRequiredIDs:
    """Return a body with these instance ids."""
    return m.VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=[str(n) for n in instances])
