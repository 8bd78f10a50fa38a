import errno
import os
import socket
from pathlib import Path

import pytest

from tests.fixtures import private_network

DOCUMENTATION = ("192.0.2.1", 80)  # reserved for documentation (RFC 5737)
METADATA = ("169.254.169.254", 80)


@pytest.mark.parametrize("address", [DOCUMENTATION, METADATA], ids=["anywhere", "metadata"])
def test_other_hosts_are_unreachable(address: tuple[str, int]) -> None:
    """A connection to another host fails at once."""
    assert private_network.INSIDE in os.environ
    with socket.socket() as client:
        client.settimeout(1)
        assert errno.ENETUNREACH == client.connect_ex(address)


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
