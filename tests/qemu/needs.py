"""What a real guest needs of the system, and what to install where it is missing."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.requirements import LIBVIRTD, has_libvirt

ASKED = "FAIRWARNING_QEMU"  # these tests take minutes, so somebody has to want them
KERNEL = "FAIRWARNING_QEMU_KERNEL"  # a folder with boot/ and lib/modules/; else those of the system
BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True)
class Kind:
    """A processor's usual virtual machine."""

    arch: str
    machine: str
    cpu: str
    console: str
    features: str
    emulator: str
    packages: str  # Debian's: the emulator, the kernel

    @property
    def path(self) -> str | None:
        """Where the emulator is."""
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
    """Of this machine's own architecture."""
    return KINDS.get(platform.machine())


@dataclass(frozen=True)
class Kernel:
    """A kernel and where its modules are."""

    image: Path
    modules: Path


def kernel() -> Kernel | None:
    """The newest that has what a guest needs."""
    root = Path(os.environ.get(KERNEL, "/"))
    for image in sorted(root.glob("boot/vmlinuz-*"), reverse=True):
        modules = root / "lib" / "modules" / image.name.removeprefix("vmlinuz-")
        if os.access(image, os.R_OK) and any(modules.rglob("virtio_net.ko*")):
            return Kernel(image, modules)
    return None


def missing() -> str:
    """Why there can be no guest here; empty if there can."""
    if not os.environ.get(ASKED):
        return "a real guest takes minutes; `make test-qemu` runs one"
    machine = kind()
    if machine is None:
        return f"there is no guest for {platform.machine()}; see KINDS in tests/qemu/needs.py"
    emulator, image = machine.packages.split()
    found = {
        "python3-libvirt": has_libvirt(),
        "libvirt-daemon": LIBVIRTD is not None,
        "libvirt-daemon-driver-qemu": any(Path("/usr/lib").glob("*/libvirt/*/*_driver_qemu.so")),
        "busybox-static": BUSYBOX.exists() and b"/lib/ld-linux" not in BUSYBOX.read_bytes(),
        emulator: machine.path is not None,
        image: kernel() is not None,
    }
    lacking = " ".join(package for package, is_there in found.items() if not is_there)
    unpacked = f" (or unpack its kernel with `dpkg-deb -x` into a folder that {KERNEL} names)"
    return f"apt-get install {lacking}{unpacked if image in lacking else ''}" if lacking else ""
