"""An initramfs with three parts: the kernel's virtio drivers, busybox, and one script."""

import gzip
import lzma
import stat
from dataclasses import dataclass
from pathlib import Path

from tests.release.qemu.needs import BUSYBOX, Kernel

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


def build(kernel: Kernel) -> bytes:
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
