"""The files of a release: complete, the same bytes everywhere, and with right checksums."""

import hashlib
import shutil
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from pathspec import GitIgnoreSpec

from deploy.dist.artifacts import artifacts
from deploy.dist.container import context_files
from tests.fixtures.programs import ROOT, run_program
from tests.fixtures.requirements import needs_zensical
from tests.release.packaging.building import EPOCH, build_release, unpack

PARTS = artifacts()
SDIST = PARTS["sdist"].file
WHEEL = PARTS["wheel"].file
TRY_RELEASE = ROOT / "deploy" / "dist" / "try_release.py"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def members(archive: Path) -> dict[str, tarfile.TarInfo]:
    """Return the headers of an archive, by path."""
    with tarfile.open(archive) as opened:
        return {header.name: header for header in opened}


# --- All files ------------------------------------------------------------------------------------


def test_the_files(dist: Path) -> None:
    """Each artifact, each with an SBOM, and the checksums; the site if zensical is installed."""
    expected = {part.file for kind, part in PARTS.items() if kind != "site"}
    names = {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    site = PARTS["site"].file
    assert names - {site, f"{site}.cdx.json"} == expected | {f"{n}.cdx.json" for n in expected}


def test_the_files_are_documented() -> None:
    """The page has the names of this version."""
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    assert [part.file for part in PARTS.values() if f"`{part.file}`" not in page] == []


@pytest.mark.spec("G10")
@pytest.mark.campaign
def test_the_source_archive_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """It builds every file, itself too, in another folder and for a user with another umask."""
    unpack(dist / SDIST, tmp_path)
    (source,) = tmp_path.iterdir()
    bytecode = source / "src" / "fairwarning" / "__pycache__" / "left.pyc"
    bytecode.parent.mkdir()
    bytecode.write_bytes(b"")
    for path in source.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
    again = contents(build_release(tmp_path / "again", source, umask=0o077))
    assert again.keys() == contents(dist).keys()
    assert [name for name, content in contents(dist).items() if again[name] != content] == []


def test_the_checksums(dist: Path) -> None:
    """Every other file has its SHA-256, in the format of sha256sum."""
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in contents(dist).items()
        if name != "SHA256SUMS"
    }


def test_a_damaged_file_is_not_tried(dist: Path, tmp_path: Path) -> None:
    """The program that tries a release verifies the checksums first, and installs nothing."""
    shutil.copytree(dist, tmp_path / "dist")
    with (tmp_path / "dist" / WHEEL).open("ab") as file:
        file.write(b"more")
    done = run_program(sys.executable, "-I", TRY_RELEASE, tmp_path / "dist", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"{WHEEL} does not have its checksum: download it again\n"


# --- Python packages ------------------------------------------------------------------------------


def test_twine_accepts_the_python_packages(dist: Path) -> None:
    """Their metadata is complete, and the package index can render the README."""
    command = (sys.executable, "-m", "twine", "check", "--strict", dist / WHEEL, dist / SDIST)
    done = run_program(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_of_the_repository_is_in_the_source_archive(dist: Path) -> None:
    """Therefore it can run `make test`, also where a file is hidden or new at the top."""
    names = {name.partition("/")[2] for name in members(dist / SDIST)}
    assert repository_files() - names == set()


def repository_files() -> set[str]:
    """Return the files that git tracks; without git, those that .gitignore does not exclude."""
    done = run_program("/bin/sh", "-c", "git ls-files -z", cwd=ROOT)
    if done.returncode == 0 and done.stdout:
        names = set(done.stdout.split("\0")) - {""}
        return {name for name in names if (ROOT / name).is_file()}
    ignored = GitIgnoreSpec.from_lines((ROOT / ".gitignore").read_text().splitlines())
    kept = [path for path in ROOT.iterdir() if not ignored.match_file(_spelled(path))]
    files = [file for path in kept for file in (path, *path.rglob("*")) if file.is_file()]
    return {str(f.relative_to(ROOT)) for f in files if not ignored.match_file(_spelled(f))}


def _spelled(path: Path) -> str:
    """Return a path as .gitignore expects it: below the root, a folder with a slash."""
    return f"{path.relative_to(ROOT)}/" if path.is_dir() else str(path.relative_to(ROOT))


def test_the_wheel_has_every_file_of_the_package(dist: Path) -> None:
    """SQL, templates and py.typed too."""
    source = ROOT / "src"
    files = [path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    with ZipFile(dist / WHEEL) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {path.relative_to(source).as_posix() for path in files}


# --- Other archives -------------------------------------------------------------------------------


def test_a_wheel_can_be_built_from_the_container_context(dist: Path, tmp_path: Path) -> None:
    """It has the files that the Containerfile copies, and nothing else; the wheel is the same."""
    archive = dist / PARTS["container"].file
    assert members(archive).keys() == context_files().keys()
    unpack(archive, tmp_path)
    assert (tmp_path / "deploy" / "container" / "entrypoint").stat().st_mode & 0o100
    environment = {"SOURCE_DATE_EPOCH": str(EPOCH)}
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
    run_program(*command, cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "dist" / WHEEL).read_bytes() == (dist / WHEEL).read_bytes()


@needs_zensical
def test_the_site_can_be_served_from_its_archive(dist: Path) -> None:
    """Its pages are at the top, beside what they load."""
    names = members(dist / PARTS["site"].file).keys()
    assert {"index.html", "install/index.html", "search.json"} <= names
    assert any(name.startswith("assets/") for name in names)


def test_owners_modes_and_times(dist: Path) -> None:
    """They say nothing about the user who built the archives."""
    for path in dist.glob("*.tar.gz"):
        for name, header in members(path).items():
            assert (header.uid, header.gid, header.mtime) == (0, 0, EPOCH), name
            assert header.mode in (0o644, 0o755), name
