import errno
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.fixtures import private_network
from tests.fixtures.forked import ForkedProgram
from tests.fixtures.programs import run_program
from tests.fixtures.waiting import LIMIT_SECONDS

DOCUMENTATION = ("192.0.2.1", 80)  # reserved for documentation (RFC 5737)
METADATA = ("169.254.169.254", 80)


@pytest.mark.parametrize("address", [DOCUMENTATION, METADATA], ids=["anywhere", "metadata"])
def test_other_hosts_are_unreachable(address: tuple[str, int]) -> None:
    """A connection to another host fails at once."""
    assert private_network.is_inside()
    with socket.socket() as client:
        client.settimeout(1)
        assert errno.ENETUNREACH == client.connect_ex(address)


def test_loopback_is_the_only_interface() -> None:
    """There is no other interface and no route."""
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    assert len(Path("/proc/net/route").read_text().splitlines()) == 1  # the header


def test_loopback_works() -> None:
    """A service and its clients can use every loopback address."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=1) as client,
    ):
        connection, address = server.accept()
        connection.close()
        assert address == client.getsockname()
    with socket.create_server(("127.1.0.7", 0)):
        pass


def test_a_forked_program_is_in_this_network() -> None:
    """Although the fork server is outside of it."""
    statement = "import os; print(os.readlink('/proc/self/ns/net'))"
    program = ForkedProgram([sys.executable, "-m", "timeit", "-n1", "-r1", statement])
    output, errors = program.communicate(LIMIT_SECONDS)
    assert output.startswith(f"{Path('/proc/self/ns/net').readlink()}\n"), errors
    assert private_network.is_inside()


def test_home_is_empty() -> None:
    """The home directory and the environment contain no settings of the user."""
    assert list(Path.home().iterdir()) == []
    assert not [name for name in os.environ if "proxy" in name.lower()]
    assert not [name for name in os.environ if name.startswith("AZURE_")]


def test_the_caller_s_settings_are_removed(tmp_path: Path) -> None:
    """Only harmless variables of the environment are kept."""
    caller = {
        "PATH": "/bin",
        "https_proxy": "http://192.0.2.1:3128",
        "AZURE_CONFIG_DIR": "/elsewhere",
        "REQUESTS_CA_BUNDLE": "/elsewhere",
        "SSL_CERT_FILE": "/elsewhere",
        "PYTEST_ADDOPTS": "-n 2",
        "HOME": "/elsewhere",
    }
    expected = {
        "PATH": "/bin",
        "HOME": str(tmp_path / "home"),
        private_network.INSIDE: str(tmp_path),
    }
    assert expected == private_network.environment(caller, tmp_path)


CASES = """
import pytest

@pytest.fixture
def inside():
    from tests.fixtures import private_network
    assert private_network.is_inside()

def test_passes(inside): pass
def test_fails(inside): raise AssertionError("as it must")
def test_skips(inside): pytest.skip("for a reason of its own")
@pytest.mark.xfail
def test_fails_as_expected(inside): raise AssertionError
"""


def test_outcomes_are_reported(tmp_path: Path) -> None:
    """A test in a private network passes, fails or is skipped as it would outside."""
    # The same hook, in a nested private network, for tests with known outcomes.
    conftest = "from tests.real.conftest import pytest_itemcollected"
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    env = {name: value for name, value in os.environ.items() if name != private_network.INSIDE}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)  # includes the project
    words = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(tmp_path)]
    output = run_program(*words, env=env, cwd=tmp_path).stdout
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed" in output
    assert "AssertionError: as it must" in output
    assert "for a reason of its own" in output
