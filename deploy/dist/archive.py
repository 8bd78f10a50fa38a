"""A tar.gz archive whose bytes depend on nothing but its files and one time."""

import gzip
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

_SKIPPED = "__pycache__"


def files_below(folder: Path, root: Path) -> dict[str, Path]:
    """Return a file, or all files below a folder, by their paths below `root`; no bytecode."""
    paths = [folder] if folder.is_file() else folder.rglob("*")
    return {
        path.relative_to(root).as_posix(): path
        for path in paths
        if path.is_file() and _SKIPPED not in path.parts
    }


def build_archive(files: Mapping[str, Path], epoch: int) -> bytes:
    """Return the archive: sorted, owned by root; of the mode only `executable` is kept."""
    buffer = BytesIO()
    with (
        gzip.GzipFile("", "wb", fileobj=buffer, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            header = tarfile.TarInfo(name)
            header.size, header.mtime = len(content), epoch
            header.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            header.uname = header.gname = "root"
            archive.addfile(header, BytesIO(content))
    return buffer.getvalue()
