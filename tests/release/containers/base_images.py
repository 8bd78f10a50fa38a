"""Replacements for the official base images, built from Debian's packages without a registry."""

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.release.containers import settings
from tests.release.containers.needs import CACHE
from tests.release.containers.podman import DOWNLOAD_SECONDS, Podman, Sandbox
from tests.release.deploy.files import COMPOSE, documents, instructions

ENTRYPOINT = Path(__file__).with_name("postgres-entrypoint.sh")
_COMPLETE = "complete"  # a file that marks a store with all images


@dataclass(frozen=True)
class BaseImage:
    """A Debian image with some packages."""

    name: str
    stands_for: str  # the official image; its tag ends with the name of a Debian release
    packages: str
    hooks: tuple[str, ...]
    change: str

    def build(self, podman: Podman, folder: Path) -> None:
        """Download and unpack the packages, and import the result."""
        archive = folder / "root.tar"
        release = self.stands_for.rpartition("-")[2]
        options = ["--variant=minbase", f"--include={self.packages}", *self.hooks]
        done = subprocess.run(
            ["mmdebstrap", *options, release, archive],
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"cannot replace {self.stands_for}:\n{done.stderr}"
        podman.run("podman", "import", "--quiet", "--change", self.change, archive, self.name)
        archive.unlink()


# `python` and `pip` are in /usr/local, where pip may replace itself, as in the official image.
# The command keeps a container running that is a machine in a test.
PYTHON = BaseImage(
    name="localhost/fairwarning-base",
    stands_for=instructions("ARG")[0].removeprefix("PYTHON="),
    packages="python3-venv",
    hooks=('--customize-hook=chroot "$1" python3 -m venv /usr/local',),
    change='CMD ["sleep", "infinity"]',
)
_CLUSTER_SETTINGS = '"$1/etc/postgresql-common/createcluster.conf"'
_OFFICIAL_POSTGRES = documents(COMPOSE)[0]["services"]["database"]["image"]
POSTGRES = BaseImage(
    name=f"localhost/{_OFFICIAL_POSTGRES}",
    stands_for=_OFFICIAL_POSTGRES,
    packages="postgresql",
    hooks=(
        '--essential-hook=mkdir "$1/etc/postgresql-common"',
        f"--essential-hook=echo create_main_cluster=false > {_CLUSTER_SETTINGS}",
        f"--customize-hook=copy-in {ENTRYPOINT} /usr/local/bin",
    ),
    change=f'ENTRYPOINT ["{ENTRYPOINT.name}"]',
)


def image_store(sandbox: Sandbox) -> Path:
    """Return a store with both images, from the cache if it exists."""
    described = f"{PYTHON}{POSTGRES}{ENTRYPOINT.read_text()}"
    store = CACHE / f"images-{hashlib.sha256(described.encode()).hexdigest()[:12]}"
    if (store / _COMPLETE).exists():
        return store
    for old in CACHE.glob("images-*"):
        shutil.rmtree(old)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        podman = Podman(sandbox, folder, settings.write(folder, storage=store))
        for image in (PYTHON, POSTGRES):
            image.build(podman, folder)
    (store / _COMPLETE).touch()
    return store
