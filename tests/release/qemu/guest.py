"""A guest under QEMU and libvirt, its console, and the service that runs it."""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairwarning.machines.libvirt.record import RECORD, DomainRecord, read
from tests.fixtures.requirements import DEBIAN_PACKAGES, LIBVIRT_MODULES
from tests.fixtures.waiting import wait_until
from tests.machines.libvirt_daemon import Daemon, daemon
from tests.machines.libvirt_harness import libvirt, machine_element
from tests.release.qemu import initramfs
from tests.release.qemu.needs import BUSYBOX, kernel, kind

GUEST_LIMIT_SECONDS = 300.0  # an emulated processor is many times slower than a real one
CONSOLE = "FAIRWARNING_QEMU_CONSOLE"  # a file to which the guest's console is appended

# The guest's network has one other host, which forwards connections to the machine's own address.
# QEMU starts a program for each connection, which its sandbox would forbid.
SETTINGS = 'stdio_handler = "file"\nseccomp_sandbox = 0\n'
_NETWORK = "user,id=net,net=169.254.169.0/24,restrict=on,guestfwd=tcp:169.254.169.254:80-cmd:{cmd}"
_DOMAIN = Path(__file__).with_name("domain.xml").read_text("utf-8")


class Guest:
    """A domain that is a machine of a fleet."""

    def __init__(self, libvirtd: Daemon, name: str) -> None:
        self.name = name
        self.uri = libvirtd.uri("qemu", "session")
        self._console = libvirtd.folder / "console"
        self._folder = libvirtd.folder
        self._connection = libvirt.open(self.uri)

    def define(self, machine: str, address: tuple[str, int], options: str = "") -> None:
        """Define the domain as that machine, whose metadata endpoint is at that address."""
        platform, image = kind(), kernel()
        assert platform
        assert image
        (self._folder / "kernel").write_bytes(image.image.read_bytes())
        (self._folder / "initramfs").write_bytes(initramfs.build(image))
        command = shlex.join([str(BUSYBOX), "nc", address[0], str(address[1])])
        text = _DOMAIN.format(
            name=self.name,
            metadata=machine_element("", machine),
            folder=self._folder,
            options=options,
            network=_NETWORK.format(cmd=command),
            emulator=platform.path,
            **{part: getattr(platform, part) for part in ("arch", "machine", "console")},
            **{part: getattr(platform, part) for part in ("features", "cpu")},
        )
        self._connection.defineXML(text)

    def domain(self) -> Any:  # noqa: ANN401  (libvirt has no types)
        """Return the current domain."""
        return self._connection.lookupByName(self.name)

    def record(self) -> DomainRecord:
        """Return the record that the driver has written."""
        with suppress(libvirt.libvirtError):  # nothing yet
            return read(self.domain().metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, RECORD))
        return DomainRecord()

    def names(self) -> list[str]:
        """Return the names of all domains of the host."""
        return [domain.name() for domain in self._connection.listAllDomains()]

    def console(self) -> str:
        """Return the whole console output."""
        return self._console.read_text(errors="replace") if self._console.exists() else ""

    def wait_for_output(self, pattern: str, times: int = 1) -> list[str]:
        """Wait until the console contains a pattern this often, and return the matches."""

        def matches() -> list[str]:
            return re.findall(pattern, self.console())

        wait_for_guest(
            lambda: len(matches()) >= times, f"{times} times {pattern} on the console", self.console
        )
        return matches()

    def close(self) -> None:
        """Power the guest off, whatever its state, and disconnect."""
        if path := os.environ.get(CONSOLE):
            with Path(path).open("a") as copy:
                copy.write(f"--- {self.name}\n{self.console()}")
        with suppress(libvirt.libvirtError):
            self.domain().destroy()
        self._connection.close()


def wait_for_guest(
    condition: Callable[[], bool], what: str, explain: Callable[[], object] = lambda: ""
) -> None:
    """Wait for an emulated guest."""
    wait_until(condition, lambda: f"{what}\n{explain()}", limit_seconds=GUEST_LIMIT_SECONDS)


@contextmanager
def guest(name: str) -> Iterator[Guest]:
    """Provide a guest that is not defined yet, and remove it afterwards."""
    with daemon(SETTINGS) as libvirtd, guest_of(libvirtd, name) as vm:
        yield vm


@contextmanager
def guest_of(libvirtd: Daemon, name: str) -> Iterator[Guest]:
    """Provide a guest of a running libvirtd."""
    vm = Guest(libvirtd, name)
    try:
        yield vm
    finally:
        vm.close()


def library_folder(folder: Path) -> Path:
    """Return a folder with only Python's libvirt bindings, for the PYTHONPATH of a service."""
    folder.mkdir()
    for name in LIBVIRT_MODULES:
        for path in DEBIAN_PACKAGES.glob(f"{name}.*"):
            (folder / path.name).symlink_to(path)
    return folder
