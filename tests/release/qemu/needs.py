"""The requirements of a real guest, and what to install if they are missing."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.requirements import LIBVIRTD, has_libvirt

REQUESTED = "FAIRWARNING_QEMU"  # these tests take minutes, so they only run on request
KERNEL = "FAIRWARNING_QEMU_KERNEL"  # a folder with boot/ and lib/modules/; else those of the system
BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True)
class Kind:
    """The usual virtual machine of a processor architecture."""

    arch: str
    machine: str
    cpu: str
    console: str
    features: str
    emulator: str
    packages: str  # Debian's: the emulator, the kernel

    @property
    def path(self) -> str | None:
        """The path of the emulator."""
        return shutil.which(self.emulator)


KINDS = {
    "aarch64": Kind(
        "aarch64",
        "virt",
        '<cpu mode="custom" match="exact" check="none"><model>cortex-a57</model></cpu>',
        "ttyAMA0",
        "",
        "qemu-system-aarch64",
        "qemu-system-arm linux-image-cloud-arm64",
    ),
    "x86_64": Kind(
        "x86_64",
        "q35",
        "",
        "ttyS0",
        "<features><acpi/></features>",
        "qemu-system-x86_64",
        "qemu-system-x86 linux-image-cloud-amd64",
    ),
}


def kind() -> Kind | None:
    """Return the kind for this machine's architecture."""
    return KINDS.get(platform.machine())


@dataclass(frozen=True)
class Kernel:
    """A kernel and the folder of its modules."""

    image: Path
    modules: Path


def kernel() -> Kernel | None:
    """Return the newest kernel that has the drivers for a guest."""
    root = Path(os.environ.get(KERNEL, "/"))
    for image in sorted(root.glob("boot/vmlinuz-*"), reverse=True):
        modules = root / "lib" / "modules" / image.name.removeprefix("vmlinuz-")
        if os.access(image, os.R_OK) and any(modules.rglob("virtio_net.ko*")):
            return Kernel(image, modules)
    return None


def missing() -> str:
    """Return why no guest can run here; empty if one can."""
    if not os.environ.get(REQUESTED):
        return "a real guest takes minutes; `make test-qemu` runs one"
    machine = kind()
    if machine is None:
        return (
            f"there is no guest for {platform.machine()}; see KINDS in tests/release/qemu/needs.py"
        )
    emulator, image = machine.packages.split()
    found = {
        "python3-libvirt": has_libvirt(),
        "libvirt-daemon": LIBVIRTD is not None,
        "libvirt-daemon-driver-qemu": any(Path("/usr/lib").glob("*/libvirt/*/*_driver_qemu.so")),
        "busybox-static": BUSYBOX.exists() and b"/lib/ld-linux" not in BUSYBOX.read_bytes(),
        emulator: machine.path is not None,
        image: kernel() is not None,
    }
    lacking = " ".join(package for package, installed in found.items() if not installed)
    unpacked = f" (or unpack its kernel with `dpkg-deb -x` into a folder that {KERNEL} names)"
    return f"apt-get install {lacking}{unpacked if image in lacking else ''}" if lacking else ""
