"""Build a release as `make dist` does, and read what was built."""

import os
import sys
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from tests.fixtures.programs import ROOT, run_program

EPOCH = 1_700_000_000  # seconds; the time of every file


def build_release(folder: Path, source: Path = ROOT, umask: int = -1) -> Path:
    """Build all files of a release in a folder; return it. The site needs zensical."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    site = () if find_spec("zensical") else ("--without-site",)
    command = (sys.executable, "-m", "deploy.dist", folder, *site)
    done = run_program(*command, cwd=source, env=environment, umask=umask)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive that was built here, with the modes of its files."""
    with tarfile.open(archive) as content:
        for header in content:
            file = content.extractfile(header)
            assert file is not None, f"{header.name} is not a file"
            path = folder / header.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read())
            path.chmod(header.mode)


@dataclass(frozen=True)
class DebianPackage:
    """The members of a Debian package, by name."""

    members: dict[str, bytes]

    @property
    def control(self) -> dict[str, bytes]:
        """The control files, by name."""
        return {
            name.removeprefix("./"): content
            for name, (_, content) in self._tar("control").items()
            if content is not None
        }

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the file `control`, each with its first line."""
        lines = self.control["control"].decode().splitlines()
        pairs = (line.partition(": ") for line in lines if not line.startswith(" "))
        return {name: value for name, _, value in pairs}

    @property
    def entries(self) -> dict[str, tarfile.TarInfo]:
        """The headers of the installed files and folders, by path."""
        return {name.removeprefix("."): header for name, (header, _) in self._tar("data").items()}

    @property
    def files(self) -> dict[str, bytes]:
        """The contents of the installed files, by path."""
        return {
            name.removeprefix("."): content
            for name, (_, content) in self._tar("data").items()
            if content is not None
        }

    def _tar(self, name: str) -> dict[str, tuple[tarfile.TarInfo, bytes | None]]:
        with tarfile.open(fileobj=BytesIO(self.members[f"{name}.tar.xz"])) as archive:
            opened = {header.name: (header, archive.extractfile(header)) for header in archive}
            return {
                path: (header, file.read() if file is not None else None)
                for path, (header, file) in opened.items()
            }


def parse_deb(data: bytes) -> DebianPackage:
    """Read a Debian package: an ar archive of two tar archives."""
    assert data.startswith(b"!<arch>\n")
    members, at = {}, 8
    while at < len(data):
        header = data[at : at + 60].decode("ascii")
        assert header.endswith("`\n"), header
        size = int(header[48:58])
        members[header[:16].rstrip()] = data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    assert list(members) == ["debian-binary", "control.tar.xz", "data.tar.xz"]
    return DebianPackage(members)
