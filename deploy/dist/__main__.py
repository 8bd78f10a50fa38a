"""`python -m deploy.dist FOLDER [--without-site]`: build all files of a release in a folder.

SOURCE_DATE_EPOCH is the time of everything in them. The same sources and the same time give the
same bytes, in any folder. The site needs zensical, which `make dist` installs.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from deploy.agent.contents import ROOT, agent_files, license_files, version
from deploy.agent.deb import build_deb
from deploy.agent.pyz import build_pyz
from deploy.dist.archive import build_archive
from deploy.dist.artifacts import artifacts
from deploy.dist.container import context_files
from deploy.dist.sbom import build_sbom
from deploy.dist.site import built_site

_EPOCH = 1580601600  # 2020-02-02, as in the wheel, if SOURCE_DATE_EPOCH is not set


def main(folder: Path, *, site: bool) -> None:
    """Build everything; print the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _EPOCH)
    parts = artifacts()
    contents = _contents(epoch, site=site)
    for kind, content in contents.items():
        (folder / parts[kind].file).write_bytes(content)
    (folder / parts["pyz"].file).chmod(0o755)
    _build_python_packages(folder, epoch)
    files = []
    for part in (parts[kind] for kind in ("wheel", "sdist", *contents)):
        bill = folder / f"{part.file}.cdx.json"
        bill.write_bytes(build_sbom(part, (folder / part.file).read_bytes(), epoch))
        files += [folder / part.file, bill]
    (folder / "SHA256SUMS").write_text(_checksums(files), "ascii")
    sys.stdout.write("".join(f"{path}\n" for path in [*files, folder / "SHA256SUMS"]))


def _contents(epoch: int, *, site: bool) -> dict[str, bytes]:
    """Return what is built here, by kind."""
    modules = agent_files()
    contents = {
        "pyz": build_pyz({**modules, **license_files()}, epoch),
        "deb": build_deb(modules, version(), epoch),
        "container": build_archive(context_files(), epoch),
    }
    if site:
        with built_site() as pages:
            contents["site"] = build_archive(pages, epoch)
    return contents


def _build_python_packages(folder: Path, epoch: int) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder.resolve())]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


def _checksums(files: list[Path]) -> str:
    """Return the checksums in the format of `sha256sum --check`."""
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), site="--without-site" not in sys.argv[2:])
