"""What `exec` was asked to run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairwarning.machines.process import loopback
from fairwarning.machines.process.isolation import Isolation
from fairwarning.machines.process.relay import HostPort
from fairwarning.machines.process.temporary import TemporaryDisk

GRACE_SECONDS = 5.0

_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"}


@dataclass(frozen=True)
class MachineProgram:
    """A command, the machine to run it as, and the service's data folder."""

    machine: str
    command: tuple[str, ...]
    folder: Path  # the service's data
    grace_seconds: float = GRACE_SECONDS
    quiet: bool = False
    once: bool = False  # end when the machine goes down for the first time
    forwarded: tuple[HostPort, ...] = ()  # ports of hosts that the program can reach
    isolation: Isolation = field(default_factory=Isolation)
    endpoint_variable: str = ""  # is set to the URL of the endpoint

    @property
    def temporary(self) -> TemporaryDisk:
        """The machine's temporary disk."""
        return TemporaryDisk(self.folder, self.machine)

    def environment(self, outside: Mapping[str, str], endpoint: str) -> dict[str, str]:
        """Return the program's environment; `endpoint` is the URL of its endpoint."""
        if self.isolation.namespaces:  # from which no proxy can be reached
            kept = {name: value for name, value in outside.items() if name.lower() not in _PROXIES}
        else:
            kept = loopback.environment(outside, endpoint)
        if self.endpoint_variable:
            kept[self.endpoint_variable] = endpoint
        return kept | {"FAIRWARNING_MACHINE": self.machine, "TMPDIR": str(self.temporary.path)}
