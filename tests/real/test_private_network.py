import errno
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.fixtures import private_network
from tests.fixtures.programs import run_program

DOCUMENTATION = ("192.0.2.1", 80)  # an address that nobody has
METADATA = ("169.254.169.254", 80)


@pytest.mark.parametrize("address", [DOCUMENTATION, METADATA], ids=["anywhere", "metadata"])
def test_there_is_no_way_out(address: tuple[str, int]) -> None:
    """Whoever looks for an address outside is told at once that there is no way to it."""
    assert private_network.is_inside()
    with socket.socket() as client:
        client.settimeout(1)
        assert errno.ENETUNREACH == client.connect_ex(address)


def test_there_is_nothing_but_loopback() -> None:
    """No other interface, no route."""
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    assert len(Path("/proc/net/route").read_text().splitlines()) == 1  # its heading


def test_loopback_works() -> None:
    """A service and its clients may be in here, at every address of loopback."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=1) as client,
    ):
        accepted, theirs = server.accept()
        accepted.close()
        assert theirs == client.getsockname()
    with socket.create_server(("127.1.0.7", 0)):
        pass


def test_home_is_empty() -> None:
    """Nobody's settings are found in here, and nothing leads away."""
    assert list(Path.home().iterdir()) == []
    assert not [name for name in os.environ if "proxy" in name.lower()]
    assert not [name for name in os.environ if name.startswith("AZURE_")]


def test_a_caller_s_settings_stay_outside(tmp_path: Path) -> None:
    """Of the environment, only what does not lead anywhere comes along."""
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


def test_outcomes_come_out(tmp_path: Path) -> None:
    """A test that runs in a private network passes, fails or is skipped as it would outside."""
    # A private network inside this one: the same hook, for tests whose outcome we know.
    conftest = "from tests.real.conftest import pytest_itemcollected"
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    env = {name: value for name, value in os.environ.items() if name != private_network.INSIDE}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)  # with the project in it
    words = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(tmp_path)]
    said = run_program(*words, env=env, cwd=tmp_path).stdout
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed" in said
    assert "AssertionError: as it must" in said
    assert "for a reason of its own" in said
