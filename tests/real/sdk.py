"""Azure's own SDK, unchanged, against the real program; and what its machines then see."""

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
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import ACCESS_SECONDS, Principal, Role, Tokens, signing_key
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS

GROUP = "rg"
PLACE = "local"


@dataclass(frozen=True)
class StaticToken:
    """A credential that has its token already."""

    token: str

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:  # noqa: ANN401  (anything)
        return AccessToken(self.token, int(time.time()) + ACCESS_SECONDS)


class SdkService(ServiceProcess):
    """A service whose time stands still, seen by those who manage machines, and by the machines.

    It listens on the usual ports, which are free in a network of its own. Started again on the
    same data it is where it was. Without other words it keeps nothing.
    """

    def __init__(self, data: Path, *words: str, fleet: str = "") -> None:
        words = ("--clock", "virtual", *(words or ["--memory"]))
        super().__init__(data, *words, fleet=fleet, metadata="", console="", arm="")
        self._clients = ExitStack()

    def start(self) -> Self:
        super().start()
        self.arm: str = self.ready["arm"]
        self.ca: str = self.ready["ca"]
        self.tokens = Tokens(signing_key(self.data), TENANT)
        return self

    def __exit__(self, *error: object) -> None:
        self._clients.close()
        super().__exit__(*error)

    # --- Those who manage ---

    def client(self, credential: TokenCredential | None = None) -> ComputeManagementClient:
        """Azure's client, told where we are; the operator's, unless it is somebody else's."""
        client = ComputeManagementClient(
            credential or StaticToken(self.ready["token"]),
            self.ready["subscription"],
            base_url=self.arm,
            credential_scopes=[f"{self.arm}/.default"],
            connection_verify=self.ca,
        )
        return self._clients.enter_context(client)

    def client_of(self, role: Role, group: str = "") -> ComputeManagementClient:
        """The client of somebody with a token of this role."""
        principal = Principal(name="somebody", role=role, group=group)
        return self.client(StaticToken(self.tokens.access(principal)))

    def make_group(self, client: ComputeManagementClient, name: str = GROUP) -> None:
        """A resource group, by the client's own pipeline: this SDK has no call for it."""
        path = f"/subscriptions/{self.ready['subscription']}/resourcegroups/{name}"
        url = f"{self.arm}{path}?api-version=2024-11-01"
        client.send_request(HttpRequest("PUT", url, json={"location": PLACE})).raise_for_status()

    # --- Machines ---

    def names(self) -> list[str]:
        """Every machine there is."""
        listed = self.ok("GET", "/api/machines?limit=1000")["machines"]
        return [one["name"] for one in listed]

    def events(self, machine: str) -> list[dict[str, Any]]:
        """What a machine reads; as any GET it enables the feature."""
        events: list[dict[str, Any]] = self.poll(machine)["Events"]
        return events

    def seen(self, machine: str) -> dict[str, str]:
        """What a machine reads, for short: what is to happen to whom."""
        return {
            name: f"{event['EventType']} {event['EventStatus']}"
            for event in self.events(machine)
            for name in event["Resources"]
        }

    def approve_for(self, asker: str, *machines: str) -> None:
        """One machine approves what is planned for these; for all, if none is named."""
        self.approve(
            asker,
            *(
                event["EventId"]
                for event in self.events(asker)
                if not machines or set(machines) & set(event["Resources"])
            ),
        )

    # --- Time, and the platform ---

    def now(self) -> str:
        """What time it is there."""
        now: str = self.ok("GET", "/api/clock")["now"]
        return now

    def freeze(self, machine: str) -> None:
        """The platform plans to pause a machine."""
        self.ok("POST", f"/api/machines/{machine}/freeze", {})


@contextmanager
def cloud(data: Path) -> Iterator[tuple[SdkService, ComputeManagementClient]]:
    """A service with a resource group, and its operator's client."""
    with SdkService(data) as service:
        client = service.client()
        service.make_group(client)
        yield service, client


def ended(*pollers: LROPoller[Any]) -> list[Any]:
    """What came of operations that are over, or will be once their pollers ask again."""
    for poller in pollers:
        poller.wait(LIMIT_SECONDS)
        assert poller.done(), poller.status()
    return [poller.result() for poller in pollers]


def code_of(error: HttpResponseError) -> str | None:
    """What a script compares."""
    assert error.error is not None, error
    return error.error.code


def make_set(
    service: SdkService, client: ComputeManagementClient, capacity: int, **more: str
) -> None:
    """A scale set `web` whose machines ask."""
    wanted = scale_set(capacity, **more)
    ended(client.virtual_machine_scale_sets.begin_create_or_update(GROUP, "web", wanted))
    assert service.seen("web_0") == {}


def notice_seconds(service: SdkService, asker: str, name: str) -> float:
    """How long from now a machine's impact will wait."""
    (event,) = (one for one in service.events(asker) if name in one["Resources"])
    return parse_date(event["NotBefore"]) - parse_date(service.now())


# --- What users write -----------------------------------------------------------------------------


def notice(timeout: str | None = "PT5M", *, enable: bool = True) -> m.ScheduledEventsProfile:
    """Notice of a delete."""
    return m.ScheduledEventsProfile(
        terminate_notification_profile=m.TerminateNotificationProfile(
            enable=enable, not_before_timeout=timeout
        )
    )


def scale_set(
    capacity: int, timeout: str | None = "PT5M", mode: str = "Manual", priority: str = "Regular"
) -> m.VirtualMachineScaleSet:
    """A scale set; with notice of deletes, unless there is no timeout."""
    return m.VirtualMachineScaleSet(
        location=PLACE,
        sku=m.Sku(name="Standard_B1s", capacity=capacity),
        properties=m.VirtualMachineScaleSetProperties(
            upgrade_policy=m.UpgradePolicy(mode=mode),
            virtual_machine_profile=m.VirtualMachineScaleSetVMProfile(
                priority=priority, scheduled_events_profile=notice(timeout) if timeout else None
            ),
        ),
    )


def machine(**more: Any) -> m.VirtualMachine:  # noqa: ANN401  (other properties)
    """A virtual machine."""
    return m.VirtualMachine(
        location=PLACE,
        properties=m.VirtualMachineProperties(
            hardware_profile=m.HardwareProfile(vm_size="Standard_B1s"), **more
        ),
    )


def some(*instances: int) -> m.VirtualMachineScaleSetVMInstanceRequiredIDs:
    """These instances of a set."""
    return m.VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=[str(n) for n in instances])
