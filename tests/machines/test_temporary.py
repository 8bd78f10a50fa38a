"""The temporary disks of machines: folders that several programs make and empty at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from fairwarning.machines.process.temporary import TemporaryDisk
from tests.fixtures.waiting import LIMIT_SECONDS

PROGRAMS = 8  # that start at the same moment
ROUNDS = 100


def all_at_once(call: Callable[[], None]) -> None:
    """Call in as many threads as there are programs; raise the first error."""
    barrier = Barrier(PROGRAMS, timeout=LIMIT_SECONDS)

    def wait_and_call() -> None:
        barrier.wait()
        call()

    with ThreadPoolExecutor(PROGRAMS) as pool:
        for future in [pool.submit(wait_and_call) for _ in range(PROGRAMS)]:
            future.result()


def test_folders_are_separate(tmp_path: Path) -> None:
    """Whatever the machine's name, its folder is inside the service's and not shared."""
    names = ["web_0", "web/0", "web:0", "..", "../..", "a" * 200, "a" * 199, "WEB_0", "é"]
    folders = {TemporaryDisk(tmp_path, name).path for name in names}
    assert len(folders) == len(names)
    for folder in folders:
        assert folder.resolve().parent.parent == tmp_path / "machines"


def test_programs_that_start_at_once_make_one_folder(tmp_path: Path) -> None:
    """None of them fails because another was faster."""
    for number in range(ROUNDS):
        disk = TemporaryDisk(tmp_path, f"web_{number}")
        all_at_once(disk.make)
        assert disk.path.is_dir()


def test_programs_empty_their_folder_at_once(tmp_path: Path) -> None:
    """Each program of a redeployed machine does so; what is gone is no error."""
    disk = TemporaryDisk(tmp_path, "web_0")
    disk.make()
    for _ in range(ROUNDS):
        for number in range(4):
            (disk.path / f"folder{number}" / "inner").mkdir(parents=True)
            (disk.path / f"file{number}").touch()
        all_at_once(disk.empty)
        assert not list(disk.path.iterdir())


def test_a_file_in_place_of_the_folder_is_replaced(tmp_path: Path) -> None:
    """So is a link, whose target stays as it is."""
    disk = TemporaryDisk(tmp_path, "web_0")
    disk.path.parent.mkdir(parents=True)
    disk.path.touch()
    disk.make()
    assert disk.path.is_dir()
    target = tmp_path / "target"
    target.mkdir()
    disk.path.rmdir()
    disk.path.symlink_to(target)
    disk.make()
    assert disk.path.is_dir()
    assert not disk.path.is_symlink()
    assert target.is_dir()
