"""One sandbox with Podman for all tests, and the image of the service, built once."""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path

import pytest

from tests.release.containers import needs, settings
from tests.release.containers.base_images import PYTHON, image_store
from tests.release.containers.page import IMAGE, shell_commands
from tests.release.containers.podman import DOWNLOAD_SECONDS, Podman, SandboxRefused, sandbox

_missing = cache(needs.missing)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Skip a test that was not requested, or that cannot run here."""
    if reason := _missing():
        item.add_marker(pytest.mark.skip(reason=reason))


@contextmanager
def _new_folder() -> Iterator[Path]:
    """Provide a folder for one run at a time, and remove the folder of a killed run."""
    folder = needs.CACHE / "run"
    with (needs.CACHE / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "scratch").mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def engine() -> Iterator[Podman]:
    """Podman with the base images. Skip if the system does not let it start a container."""
    try:
        with _new_folder() as folder, sandbox(folder / "scratch") as inside:
            images = image_store(inside)
            environment = settings.write(folder, storage=folder / "storage", images=images)
            podman = Podman(inside, folder, environment)
            probe = podman.attempt("podman", "run", "--rm", "--init", PYTHON.name, "true")
            if probe.returncode:
                pytest.skip(f"Podman cannot start a container on a bridge here: {probe.stderr}")
            yield podman
    except SandboxRefused as error:
        pytest.skip(f"this system refuses the namespaces or mounts of the sandbox: {error}")


@pytest.fixture(scope="session")
def image(engine: Podman) -> str:
    """Build the service's image with the command of the page, from the base image."""
    (command,) = shell_commands("build")
    program, verb, *words = shlex.split(command)
    base = ("--pull=never", "--build-arg", f"PYTHON={PYTHON.name}")
    more = (*base, "--network=host", *settings.volumes(engine.folder))
    engine.run(
        *(program, verb, *more, *words), folder=needs.ROOT, outside=True, seconds=DOWNLOAD_SECONDS
    )
    return IMAGE


@pytest.fixture
def podman(engine: Podman, image: str) -> Iterator[Podman]:
    """Provide Podman with the service's image and without containers of other tests."""
    with engine.removing_all():
        yield engine
