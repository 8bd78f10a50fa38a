"""The unmodified Azure SDK against the real service, and the events that its machines see."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import HttpResponseError
from azure.core.polling import LROPoller
from azure.core.rest import HttpRequest
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute import models as m

from fairwarning.core.times import parse_date
from fairwarning.service.tokens import Principal, Role
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS

GROUP = "rg"
LOCATION = "local"


@dataclass(frozen=True)
class StaticToken:
    """A credential with a fixed token."""

    token: str

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:  # noqa: ANN401  (anything)
        return AccessToken(self.token, int(time.time()) + 3600)


class SdkService(ServiceProcess):
    """A service with a frozen clock, with methods for clients of the SDK and for machines.

    It listens on the default ports, which are free in a private network. Without other arguments it
    stores nothing; with arguments, another start on the same data continues where it stopped.
    """

    def __init__(self, data: Path, *words: str, fleet: str = "") -> None:
        words = ("--clock", "virtual", *(words or ["--memory"]))
        super().__init__(data, *words, fleet=fleet, metadata="", console="", arm="")
        self._clients = ExitStack()

    def start(self) -> Self:
        super().start()
        self.arm: str = self.ready["arm"]
        self.ca: str = self.ready["ca"]
        return self

    def __exit__(self, *error: object) -> None:
        self._clients.close()
        super().__exit__(*error)

    # --- Clients ---

    def client(self, credential: TokenCredential | None = None) -> ComputeManagementClient:
        """Return Azure's client for this service, by default with the operator's token."""
        client = ComputeManagementClient(
            credential or StaticToken(self.ready["token"]),
            self.ready["subscription"],
            base_url=self.arm,
            credential_scopes=[f"{self.arm}/.default"],
            connection_verify=self.ca,
        )
        return self._clients.enter_context(client)

    def client_of(self, role: Role, group: str = "") -> ComputeManagementClient:
        """Return a client with a token of this role."""
        principal = Principal(name="somebody", role=role, group=group)
        return self.client(StaticToken(self.token_of(principal)))

    def token_of(self, principal: Principal, use: str = "api") -> str:
        """Return a token of this principal; with use `login` a client secret."""
        body = {"name": principal.name, "role": principal.role, "group": principal.group}
        return str(self.ok("POST", "/api/tokens", {**body, "use": use})["token"])

    def create_group(self, client: ComputeManagementClient, name: str = GROUP) -> None:
        """Create a resource group with the client's pipeline: this SDK has no method for it."""
        path = f"/subscriptions/{self.ready['subscription']}/resourcegroups/{name}"
        url = f"{self.arm}{path}?api-version=2024-11-01"
        client.send_request(HttpRequest("PUT", url, json={"location": LOCATION})).raise_for_status()

    # --- Machines ---

    def names(self) -> list[str]:
        """Return the names of all machines."""
        listed = self.ok("GET", "/api/machines?limit=1000")["machines"]
        return [machine["name"] for machine in listed]

    def events(self, machine: str) -> list[dict[str, Any]]:
        """Return the events that a machine sees; as any GET, this enables the feature."""
        events: list[dict[str, Any]] = self.poll(machine)["Events"]
        return events

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

    # --- Time, and the platform ---

    def now(self) -> str:
        """Return the virtual time."""
        now: str = self.ok("GET", "/api/clock")["now"]
        return now

    def freeze(self, machine: str) -> None:
        """Schedule a Freeze of a machine by the platform."""
        self.ok("POST", f"/api/machines/{machine}/freeze", {})


@contextmanager
def service_with_group(data: Path) -> Iterator[tuple[SdkService, ComputeManagementClient]]:
    """Start a service with a resource group, and the operator's client."""
    with SdkService(data) as service:
        client = service.client()
        service.create_group(client)
        yield service, client


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


def create_set(
    service: SdkService, client: ComputeManagementClient, capacity: int, **more: str
) -> None:
    """Create a scale set `web` whose machines poll."""
    body = scale_set(capacity, **more)
    wait_for(client.virtual_machine_scale_sets.begin_create_or_update(GROUP, "web", body))
    assert service.event_states("web_0") == {}


def notice_seconds(service: SdkService, poller: str, name: str) -> float:
    """Return the seconds until the impact of a machine, as another machine sees it."""
    (event,) = (event for event in service.events(poller) if name in event["Resources"])
    return parse_date(event["NotBefore"]) - parse_date(service.now())


# --- Request bodies -------------------------------------------------------------------------------


def notice(timeout: str | None = "PT5M", *, enable: bool = True) -> m.ScheduledEventsProfile:
    """Return a profile with notice of deletes."""
    return m.ScheduledEventsProfile(
        terminate_notification_profile=m.TerminateNotificationProfile(
            enable=enable, not_before_timeout=timeout
        )
    )


def scale_set(
    capacity: int, timeout: str | None = "PT5M", mode: str = "Manual", priority: str = "Regular"
) -> m.VirtualMachineScaleSet:
    """Return a scale set, with notice of deletes unless there is no timeout, or it is Spot."""
    timeout = None if priority == "Spot" else timeout
    return m.VirtualMachineScaleSet(
        location=LOCATION,
        sku=m.Sku(name="Standard_B1s", capacity=capacity),
        properties=m.VirtualMachineScaleSetProperties(
            upgrade_policy=m.UpgradePolicy(mode=mode),
            virtual_machine_profile=m.VirtualMachineScaleSetVMProfile(
                priority=priority, scheduled_events_profile=notice(timeout) if timeout else None
            ),
        ),
    )


def machine(**more: Any) -> m.VirtualMachine:  # noqa: ANN401  (other properties)
    """Return a virtual machine."""
    return m.VirtualMachine(
        location=LOCATION,
        properties=m.VirtualMachineProperties(
            hardware_profile=m.HardwareProfile(vm_size="Standard_B1s"), **more
        ),
    )


def instance_ids(*instances: int) -> m.VirtualMachineScaleSetVMInstanceRequiredIDs:
    """Return a body with these instance ids."""
    return m.VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=[str(n) for n in instances])
