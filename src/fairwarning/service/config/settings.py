"""The operator's settings, apart from the rules of each scope."""

from dataclasses import field
from enum import StrEnum

from fairwarning.core import limits
from fairwarning.core.model import Rules
from fairwarning.core.record import record

TENANT = "00000000-0000-0000-0000-00000000f41a"
"""The tenant (directory) id of every service."""

HOSTS = frozenset({"localhost", "metadata", "metadata.azure.internal"})


@record
class CloudSettings:
    """The cloud that the metadata describes to machines (M19)."""

    subscription: str = "00000000-0000-0000-0000-000000000001"
    location: str = "local"
    group: str = "fairwarning"  # the default resource group
    size: str = "Standard_B1s"  # the default machine size


@record
class MetadataSettings:
    """Settings of the metadata endpoint. The defaults suit a local run."""

    preview: bool = False  # whether the api-version 2024-07-09 is available (M2)
    hosts: frozenset[str] = HOSTS  # names allowed in a Host header; addresses are always allowed
    requests_per_second: int | None = None  # per machine; 0 means no limit (M17)
    """If unset, a local run has no limit and a host run has Azure's."""
    connections: int = limits.CONNECTIONS
    connections_of_machine: int = limits.CONNECTIONS_OF_MACHINE
    default_machine: str = ""  # that unknown callers are answered as (M22)


@record
class ArmSettings:
    """Settings of the ARM API."""

    ends_at_acceptance: bool = False
    """Whether an operation is reported as done once it is accepted, not once it has finished."""
    hosts: tuple[str, ...] = ()  # names of its host, for its certificate and its links
    connections: int = limits.PORT_CONNECTIONS
    connections_of_address: int = limits.PORT_CONNECTIONS_OF_ADDRESS
    rules: Rules = field(default_factory=Rules)  # of scopes and sets created through it
    by_address: bool = False  # whether machines are identified by their addresses


@record
class ConsoleSettings:
    """Settings of the console and the webhooks."""

    hosts: tuple[str, ...] = ()  # names allowed in a Host header, besides the address itself
    webhook_hosts: tuple[str, ...] = ()  # hosts that webhooks may be sent to
    tls: bool = False  # whether it uses TLS, with a certificate of the service's own authority
    certificate: str = ""  # path of a PEM file, to use TLS with this certificate instead
    key: str = ""  # path of its key; empty: the key is in the same file
    connections: int = limits.PORT_CONNECTIONS
    connections_of_address: int = limits.PORT_CONNECTIONS_OF_ADDRESS

    @property
    def scheme(self) -> str:
        """The scheme of the console's URL."""
        return "https" if self.tls or self.certificate else "http"


class DriverKind(StrEnum):
    """The drivers that carry out impacts."""

    SIMULATED = "simulated"
    COMMAND = "command"
    LIBVIRT = "libvirt"


@record
class DriverSettings:
    """Settings of the driver."""

    kind: DriverKind = DriverKind.SIMULATED
    program: tuple[str, ...] = ()  # of the command driver, with its arguments
    check: tuple[str, ...] = ()  # reports whether an impact was already carried out
    timeout_seconds: int = 600
    grace_seconds: int = 60  # time for libvirt guests to shut down cleanly
    uri: str = "qemu:///system"  # of libvirt
    boot_seconds: int = 5  # how long a machine under `exec` takes to boot
    destination: str = ""  # where libvirt migrates guests to; empty: restart them instead


@record
class ClusterSettings:
    """Settings of processes that share a database."""

    staleness_seconds: int = 30  # how long polls are answered without the database (IK3)
    lease_seconds: int = 3  # without a heartbeat, after which others take over its leases


@record
class OperationSettings:
    """The retention of operations and rollouts that have ended."""

    keep_days: int = 7  # 0: for ever


@record
class JournalSettings:
    """The retention of the journal."""

    keep_days: int = 0  # 0: for ever
