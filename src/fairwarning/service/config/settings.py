"""What an operator may set, beside the rules of each scope."""

from dataclasses import field
from enum import StrEnum

from fairwarning.core import limits
from fairwarning.core.model import Rules
from fairwarning.core.record import record

TENANT = "00000000-0000-0000-0000-00000000f41a"
"""The directory that logins are in; a service has one, and it is always this."""

HOSTS = frozenset({"localhost", "metadata", "metadata.azure.internal"})


@record
class CloudSettings:
    """The cloud that machines are told they are in (M19)."""

    subscription: str = "00000000-0000-0000-0000-000000000001"
    location: str = "local"
    group: str = "fairwarning"  # of machines that name no resource group
    size: str = "Standard_B1s"  # of machines that name none


@record
class MetadataSettings:
    """How the metadata endpoint treats its callers. The defaults are those of a local run."""

    preview: bool = False  # whether 2024-07-09 is there (M2)
    hosts: frozenset[str] = HOSTS  # names a Host header may hold; addresses always may
    requests_per_second: int | None = None  # of one machine; 0 is no limit (M17)
    """Unless it is set, a local run has none and a host run Azure's."""
    connections: int = limits.CONNECTIONS
    connections_of_machine: int = limits.CONNECTIONS_OF_MACHINE


@record
class ArmSettings:
    """How the control plane treats those who manage machines."""

    ends_at_acceptance: bool = False
    """Whether an operation reads as done once it is accepted, and not when it has happened."""
    hosts: tuple[str, ...] = ()  # more names that its certificate is for
    rules: Rules = field(default_factory=Rules)  # of what is created through it


@record
class ConsoleSettings:
    """Where people's browsers and their webhooks may be."""

    hosts: tuple[str, ...] = ()  # names a Host header may hold, beside the address itself
    webhook_hosts: tuple[str, ...] = ()  # hosts that webhooks may be sent to


class DriverKind(StrEnum):
    """Who carries impacts out."""

    SIMULATED = "simulated"
    COMMAND = "command"
    LIBVIRT = "libvirt"


@record
class DriverSettings:
    """What happens to real machines, and by whose hand."""

    kind: DriverKind = DriverKind.SIMULATED
    program: tuple[str, ...] = ()  # of the command driver, with its arguments
    check: tuple[str, ...] = ()  # tells whether an impact was carried out already
    timeout_seconds: int = 600
    grace_seconds: int = 60  # for which libvirt's machines may shut down by themselves
    uri: str = "qemu:///system"  # of libvirt
    destination: str = ""  # where libvirt moves machines to; empty: they are started again


@record
class ClusterSettings:
    """How processes that share a database get on."""

    staleness_seconds: int = 30  # for which polls are answered without the database (IK3)
    lease_seconds: int = 3  # after which what a silent process has is anybody's


@record
class JournalSettings:
    """How long it is known what happened."""

    keep_days: int = 0  # 0: for ever
