"""`python -m deploy.agent FOLDER`: build fairwarning-agent.pyz and the Debian package."""

import os
import sys
from pathlib import Path

from deploy.agent.contents import agent_files, license_files, version
from deploy.agent.deb import build_deb, debian_version
from deploy.agent.pyz import build_pyz

_EPOCH = 1580601600  # 2020-02-02, as in the wheel, if SOURCE_DATE_EPOCH is not set


def main(folder: Path) -> None:
    """Build both; print their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _EPOCH)
    files = agent_files()
    _write(folder / "fairwarning-agent.pyz", build_pyz({**files, **license_files()}, epoch), 0o755)
    package = f"fairwarning-agent_{debian_version(version())}_all.deb"
    _write(folder / package, build_deb(files, version(), epoch), 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.write_bytes(content)
    path.chmod(mode)
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
