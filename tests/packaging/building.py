"""Build the agent as `make dist` does, and read what was built."""

import os
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from tests.fixtures.programs import ROOT, run_program

EPOCH = 1_700_000_000  # seconds; the time of every file


def build_agent(folder: Path) -> Path:
    """Build fairwarning-agent.pyz and the Debian package in a folder; return it."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    command = (sys.executable, "-m", "deploy.agent", folder)
    run_program(*command, cwd=ROOT, env=environment, check=True)
    return folder


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


def read_deb(path: Path) -> DebianPackage:
    """Read a Debian package: an ar archive of two tar archives."""
    data = path.read_bytes()
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
