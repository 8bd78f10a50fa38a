"""`exec` for an unprivileged user with only their own files."""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.fixtures.requirements import MOUNT_PROBE, NAMESPACE_PROBE

NOBODY = 65534
ROOT = Path(__file__).parent.parent.parent
TESTS = (
    "test_exec.py::test_the_metadata_endpoint_answers_as_the_machine",
    "test_exec.py::test_the_environment_of_a_program",
    "test_exec.py::test_exit_codes_pass_through",
    "test_control.py::test_exec_inside_a_machine_is_refused",
    "test_network.py::test_a_program_reaches_a_forwarded_port",
    "test_process.py::test_a_frozen_machine_is_stopped",
    "test_process.py::test_a_redeploy_empties_the_temporary_disk",
    "test_network.py::test_programs_that_start_at_once_share_a_network",
    "test_restart.py::test_an_impact_is_not_executed_twice",
)
MOUNT_TESTS = ("test_exec.py::test_a_machine_resolves_its_own_name",)


def as_nobody(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as another user with the same Python packages."""
    packages = [str(ROOT / "src"), sysconfig.get_path("purelib")]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(packages)},
    )


def python_for_nobody(home: Path) -> str:
    """Return a Python that the user can run: this one may be in a private home folder."""
    same = (
        f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}\n"  # for its packages
    )
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            code = f"{same}import click, pytest, tests.fixtures.waiting"
            tried = as_nobody(home, python, "-c", code)
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    pytest.skip("another user can read neither this Python nor this checkout")


@pytest.mark.campaign
@pytest.mark.spec("O3", "O4")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a command as another user")
def test_an_unprivileged_user() -> None:
    """Endpoint, names, ports, exit codes, freeze, redeploy, restart and isolation work."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.chown(home, NOBODY, NOBODY)
        python = python_for_nobody(home)
        if as_nobody(home, python, "-c", NAMESPACE_PROBE).returncode:
            pytest.skip("this system does not let an ordinary user create namespaces")
        report = home / "report.xml"
        options = ("-q", "-n0", "-p", "no:cacheprovider", f"--junitxml={report}")
        mounts = as_nobody(home, python, "-c", MOUNT_PROBE).returncode == 0
        tests = TESTS + (MOUNT_TESTS if mounts else ())
        pytest_run = (python, "-B", "-m", "pytest", *options, f"--basetemp={home / 'tests'}")
        paths = [f"{Path(__file__).parent}/{test}" for test in tests]
        ended = as_nobody(home, *pytest_run, *paths)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        cases = ET.parse(report).getroot().iter("testcase")
        passed = {case.attrib["name"].partition("[")[0] for case in cases if not len(case)}
    assert passed == {test.partition("::")[2] for test in tests}, ended.stdout
