"""Build the Debian package of the agent, without Debian's tools and without root (G10).

The same sources give the same bytes: sorted, owned by root, and with one time. The files that the
package installs, besides the agent's modules, are in the folder `debian`.
"""

import gzip
import hashlib
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from io import BytesIO
from pathlib import Path, PurePosixPath

NAME = "fairwarning-agent"
_DEBIAN = Path(__file__).parent / "debian"
_MODULES = f"usr/lib/{NAME}"
_DOCS = f"usr/share/doc/{NAME}"
_FILES = {  # where each file is installed
    f"usr/bin/{NAME}": "program",
    f"usr/lib/systemd/system/{NAME}.service": f"{NAME}.service",
    f"usr/share/man/man1/{NAME}.1.gz": f"{NAME}.1",
    f"{_DOCS}/README.Debian": "README.Debian",
    f"{_DOCS}/changelog.gz": "changelog",
    f"{_DOCS}/copyright": "copyright",
    "etc/fairwarning/agent.toml": "agent.toml",
}
_FOLDERS = tuple(f"etc/fairwarning/hooks.d/{phase}" for phase in ("scheduled", "started", "over"))
_SCRIPTS = ("postinst", "prerm", "postrm")
_AR_MAGIC = b"!<arch>\n"


@dataclass(frozen=True)
class _Entry:
    """A file or, without content, a folder of the package."""

    content: bytes | None = None
    executable: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.executable or self.content is None else 0o644


def debian_version(version: str) -> str:
    """Return a version that sorts right by Debian's rules: 1.0~rc1 is before 1.0."""
    return re.sub(r"\.?(a|b|rc|dev)(\d)", r"~\1\2", version)


def build_deb(modules: Mapping[str, bytes], version: str, epoch: int) -> bytes:
    """Return the package; `epoch` is the time of its files, in seconds since 1970."""
    number = debian_version(version)
    date = format_datetime(datetime.fromtimestamp(epoch, UTC))
    variables = {"@VERSION@": number, "@DATE@": date}
    entries = {
        **{f"{_MODULES}/{path}": _Entry(content) for path, content in modules.items()},
        **{path: _installed(path, source, variables) for path, source in _FILES.items()},
        **{path: _Entry() for path in _FOLDERS},
    }
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": _tar(_control(entries, variables), epoch),
        "data.tar.xz": _tar(entries, epoch),
    }
    return _AR_MAGIC + b"".join(_member(name, data, epoch) for name, data in members.items())


# --- Files ----------------------------------------------------------------------------------------


def _installed(path: str, source: str, variables: Mapping[str, str]) -> _Entry:
    content = _filled(source, variables)
    if path.endswith(".gz"):
        content = _gzip(content)
    return _Entry(content, executable=path.startswith("usr/bin/"))


def _gzip(content: bytes) -> bytes:
    """Compress a file; unlike those of `gzip.compress`, its bytes do not depend on Python."""
    buffer = BytesIO()
    with gzip.GzipFile("", "wb", fileobj=buffer, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def _filled(source: str, variables: Mapping[str, str]) -> bytes:
    """Return a file of the folder with its variables filled in."""
    text = (_DEBIAN / source).read_text("utf-8")
    for name, value in variables.items():
        text = text.replace(name, value)
    return text.encode()


def _control(entries: Mapping[str, _Entry], variables: Mapping[str, str]) -> dict[str, _Entry]:
    files = {path: entry.content for path, entry in entries.items() if entry.content is not None}
    kib = sum(-(-len(content) // 1024) for content in files.values()) + len(entries)
    settings = sorted(path for path in files if path.startswith("etc/"))
    sums = "".join(
        f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {path}\n"
        for path, content in sorted(files.items())
        if path not in settings
    )
    return {
        "control": _Entry(_filled("control", {**variables, "@SIZE@": str(kib)})),
        "conffiles": _Entry("".join(f"/{path}\n" for path in settings).encode()),
        "md5sums": _Entry(sums.encode()),
        **{name: _Entry(_filled(name, variables), executable=True) for name in _SCRIPTS},
    }


# --- Archives -------------------------------------------------------------------------------------


def _tar(entries: Mapping[str, _Entry], epoch: int) -> bytes:
    """Return a compressed archive of these entries and of the folders that contain them."""
    folders = {
        str(parent) for path in entries for parent in PurePosixPath(path).parents if str(parent)
    }
    everything = {**dict.fromkeys(folders, _Entry()), **entries}
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", format=tarfile.GNU_FORMAT, preset=6) as archive:
        for path, entry in sorted(everything.items()):
            header = tarfile.TarInfo("." if path == "." else f"./{path}")
            header.type = tarfile.DIRTYPE if entry.content is None else tarfile.REGTYPE
            header.size = len(entry.content or b"")
            header.mode, header.mtime = entry.mode, epoch
            header.uname = header.gname = "root"
            archive.addfile(header, BytesIO(entry.content or b""))
    return buffer.getvalue()


def _member(name: str, content: bytes, epoch: int) -> bytes:
    """Return a member of an ar archive; its content is padded to an even length."""
    header = f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    return header.encode("ascii") + content + b"\n" * (len(content) % 2)
