"""A guest under QEMU and libvirt, its console, and the service that runs it."""

import gzip
import lzma
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairwarning.machines.libvirt.record import RECORD, DomainRecord, read
from tests.fixtures.requirements import DEBIAN_PACKAGES, LIBVIRT_MODULES
from tests.fixtures.waiting import wait_until
from tests.machines.libvirt_daemon import Daemon, daemon
from tests.machines.libvirt_harness import libvirt, machine_element
from tests.release.qemu.needs import BUSYBOX, Kernel, kernel, kind

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
        (self._folder / "initramfs").write_bytes(build_initramfs(image))
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


# --- Its initramfs: the kernel's virtio drivers, busybox, and one script --------------------------


# In the usual order of dependencies; `init.sh` tries twice. A kernel may have some built in.
MODULES = (
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_console",
)
INIT = Path(__file__).with_name("init.sh")


@dataclass(frozen=True)
class Entry:
    """A file, a folder or a device."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def build_initramfs(kernel: Kernel) -> bytes:
    """Return the compressed archive of all files of a guest."""
    folders = [Entry(name, stat.S_IFDIR | 0o755) for name in ("bin", "dev", "modules")]
    files = [
        Entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
        Entry("init", stat.S_IFREG | 0o755, INIT.read_bytes()),
        Entry("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes()),
    ]
    for number, name in enumerate(MODULES):
        for path in kernel.modules.rglob(f"{name}.ko*"):
            data = path.read_bytes()
            plain = lzma.decompress(data) if path.suffix == ".xz" else data
            files.append(Entry(f"modules/{number}-{name}.ko", stat.S_IFREG | 0o644, plain))
    return gzip.compress(_archive([*folders, *files, Entry("TRAILER!!!", 0)]), 1)


def _archive(entries: list[Entry]) -> bytes:
    """Return the entries as `cpio -o -H newc` writes them: header, name, data, padded to 4."""
    out = bytearray()
    for inode, entry in enumerate(entries, 1):
        name = entry.name.encode() + b"\0"
        sizes = (len(entry.data), 0, 0, *entry.device, len(name), 0)
        numbers = (inode, entry.mode, 0, 0, 1, 0, *sizes)
        out += b"070701" + b"".join(b"%08X" % number for number in numbers) + name
        out += bytes(-len(out) % 4)
        out += entry.data
        out += bytes(-len(out) % 4)
    return bytes(out)
