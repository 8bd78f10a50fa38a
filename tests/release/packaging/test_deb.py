"""The Debian package of the agent: its files, its service, and that it starts nothing unasked."""

import gzip
import hashlib
import re
import sys
from pathlib import Path

import pytest

import fairwarning
from deploy.agent.deb import debian_version
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, parse
from fairwarning.guest.events import EventSource, EventType
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_dpkg, needs_lintian, needs_systemd
from tests.fixtures.systemd import assert_accepted
from tests.guest.notices import event
from tests.release.deploy.files import settings
from tests.release.packaging.building import EPOCH, DebianPackage, parse_deb
from tests.release.packaging.test_pyz import sources

PROGRAM = "/usr/bin/fairwarning-agent"
MODULES = "/usr/lib/fairwarning-agent"
UNIT = "/usr/lib/systemd/system/fairwarning-agent.service"
CONFIG = "/etc/fairwarning/agent.toml"
MANUAL = "/usr/share/man/man1/fairwarning-agent.1.gz"
HOOKS = {f"/etc/fairwarning/hooks.d/{phase}" for phase in ("scheduled", "started", "over")}
MOUNT_NAMESPACE = re.compile(
    r"^(Private(Tmp|Devices|Mounts)|Protect(System|Home|Kernel\w+|ControlGroups|Clock|Hostname|Proc)"
    r"|ProcSubset|(ReadOnly|ReadWrite|Inaccessible|Exec|NoExec)Paths|Bind(ReadOnly)?Paths"
    r"|DynamicUser|TemporaryFileSystem|RootDirectory|RootImage)$"
)


@pytest.fixture(name="package", scope="module")
def _package(deb: Path) -> DebianPackage:
    return parse_deb(deb.read_bytes())


@pytest.fixture(name="unit")
def _unit(package: DebianPackage, tmp_path: Path) -> Path:
    """Return the path of the service's unit."""
    path = tmp_path / Path(UNIT).name
    path.write_bytes(package.files[UNIT])
    return path


# --- Files ----------------------------------------------------------------------------------------


@pytest.mark.spec("G10")
def test_the_control_fields(package: DebianPackage) -> None:
    """It has the version of the project, runs everywhere, and needs only Python."""
    assert package.fields["Package"] == "fairwarning-agent"
    assert package.fields["Version"] == debian_version(fairwarning.__version__)
    assert package.fields["Architecture"] == "all"
    assert package.fields["Depends"] == "python3 (>= 3.9)"
    size = sum(map(len, package.files.values())) / 1024
    assert size < int(package.fields["Installed-Size"]) < 2 * size + 100


@pytest.mark.spec("G10")
def test_the_files(package: DebianPackage, pyz: Path) -> None:
    """The program, its modules, the unit, the configuration, the hooks folder, documentation."""
    documents = {"README.Debian", "changelog.gz", "copyright"}
    assert {path for path in package.files if not path.startswith(MODULES)} == {
        *(PROGRAM, UNIT, CONFIG, MANUAL),
        *(f"/usr/share/doc/fairwarning-agent/{name}" for name in documents),
    }
    assert HOOKS <= {path for path, header in package.entries.items() if header.isdir()}
    modules = {
        path.removeprefix(f"{MODULES}/"): content.decode()
        for path, content in package.files.items()
        if path.startswith(MODULES) and path.endswith(".py")
    }
    assert modules == {n: text for n, text in sources(pyz).items() if n != "__main__.py"}


def test_modes_and_owners(package: DebianPackage) -> None:
    """Everything belongs to root; only folders and the program are executable."""
    for path, header in package.entries.items():
        owner = (header.uid, header.gid, header.uname, header.gname)
        assert owner == (0, 0, "root", "root"), path
        assert header.mode == (0o755 if header.isdir() or path == PROGRAM else 0o644), path
        assert header.mtime == EPOCH, path


def test_checksums_and_configuration_files(package: DebianPackage) -> None:
    """An edited configuration survives an upgrade; every other file has its checksum."""
    assert package.control["conffiles"].decode().splitlines() == [CONFIG]
    sums = dict(line.split("  ")[::-1] for line in package.control["md5sums"].decode().splitlines())
    assert sums == {
        path.removeprefix("/"): hashlib.md5(content).hexdigest()
        for path, content in package.files.items()
        if path != CONFIG
    }


def test_the_configuration_is_not_for_every_user(package: DebianPackage) -> None:
    """At the first installation; an upgrade leaves it to the administrator."""
    script = package.control["postinst"].decode()
    assert f'if [ -z "$2" ]; then\n\t\tchmod 0640 {CONFIG}\n' in script


# --- Before it is configured ----------------------------------------------------------------------


@pytest.mark.spec("G10")
def test_the_installed_configuration_approves_nothing(
    package: DebianPackage, tmp_path: Path
) -> None:
    """And reads the hooks folder, in which there is nothing yet."""
    text = package.files[CONFIG].decode()
    config = parse(text.replace("/etc/fairwarning", str(tmp_path)))
    folder = tmp_path / "hooks.d"
    assert config == AgentConfig(approve={"": ApprovalPolicy.NEVER}, hooks_folder=folder)
    policies = {
        config.approves(event("E", type=kind, source=source))
        for kind in EventType
        for source in EventSource
    }
    assert policies == {ApprovalPolicy.NEVER}
    assert 'hooks_folder = "/etc/fairwarning/hooks.d"' in text


def test_every_choice_in_the_installed_configuration_is_valid(
    package: DebianPackage, tmp_path: Path
) -> None:
    """What is commented out can be used as it is."""
    lines = package.files[CONFIG].decode().replace("/etc/fairwarning", str(tmp_path)).splitlines()
    chosen = [re.sub(r"^# (?=\w+ = |\[)", "", line) for line in lines]
    config = parse("\n".join(chosen))
    assert [hook.name for hook in config.hooks] == ["drain"]
    assert config.listen
    assert config.endpoint


@pytest.mark.spec("G10")
def test_an_installation_starts_nothing(package: DebianPackage) -> None:
    """The service is enabled only if it was, and restarted only if it runs."""
    script = package.control["postinst"].decode()
    invoked = re.findall(r"deb-systemd-invoke (\S+)", script)
    assert invoked == ["try-restart"]
    before = script.partition("deb-systemd-helper enable")[0]
    assert "if deb-systemd-helper debian-installed" in before
    assert "was-enabled" in before


def test_purging_removes_the_journal_of_the_agent(package: DebianPackage, unit: Path) -> None:
    """The folder that the service creates."""
    (folder,) = settings(unit)["StateDirectory"]
    assert folder == AgentConfig().state.name
    _, _, purge = package.control["postrm"].decode().partition('"$1" = purge')
    assert f"rm -rf /var/lib/{folder}\n" in purge


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_maintainer_scripts_are_valid(package: DebianPackage, name: str, tmp_path: Path) -> None:
    """For any POSIX shell; they end at the first error."""
    path = tmp_path / name
    path.write_bytes(package.control[name])
    assert package.control[name].startswith(b"#!/bin/sh\nset -e\n")
    assert run_program("/bin/sh", "-n", path).returncode == 0


# --- The service ----------------------------------------------------------------------------------


def test_the_unit_runs_the_program_with_the_configuration(unit: Path) -> None:
    """It names the file: without one the agent would approve every event."""
    assert settings(unit)["ExecStart"] == [f"{PROGRAM} run --config {CONFIG}"]
    assert settings(unit)["Restart"] == ["always"]


def test_hooks_see_the_file_systems_of_the_host(unit: Path) -> None:
    """No setting gives the service a mount namespace, in which an umount would stay unseen."""
    assert [key for key in settings(unit) if MOUNT_NAMESPACE.match(key)] == []


@needs_systemd
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    """Without errors or warnings; this Python replaces the program."""
    unit.write_text(unit.read_text().replace(PROGRAM, sys.executable))
    assert_accepted(unit, str(tmp_path))


# --- Debian's own tools ---------------------------------------------------------------------------


@needs_dpkg
@pytest.mark.spec("G10")
def test_the_unpacked_program_runs(deb: Path, tmp_path: Path) -> None:
    """`dpkg-deb` unpacks it; the program finds its modules and its version."""
    run_program("dpkg-deb", "--extract", deb, tmp_path, check=True)
    program = tmp_path / PROGRAM.removeprefix("/")
    program.write_text(program.read_text().replace(MODULES, f"{tmp_path}{MODULES}"))
    done = run_program(sys.executable, "-I", "-S", program, "--version")
    text = f"fairwarning-agent, version {fairwarning.__version__}\n"
    assert (done.stdout, done.returncode) == (text, 0), done.stderr


def test_the_manual_has_every_command(package: DebianPackage, pyz: Path) -> None:
    """Those that the program lists in its help."""
    usage = run_program(sys.executable, "-I", pyz, "--help").stdout.splitlines()[0]
    commands = usage.split()[3].split("|")
    assert commands[:2] == ["run", "check"]
    text = gzip.decompress(package.files[MANUAL]).decode()
    assert [name for name in commands if f".B fairwarning-agent {name}\n" not in text] == []


@needs_lintian
@pytest.mark.spec("G10")
def test_lintian_finds_nothing(deb: Path) -> None:
    """Neither an error nor a warning."""
    done = run_program("lintian", "--fail-on", "error,warning", "--allow-root", deb)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
