"""`fairwarning az` against a real service: setting up the Azure CLI, and keeping it set up."""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from fairwarning.cli.commands import az as az_command
from fairwarning.core.errors import Unavailable
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role
from tests.real.azure_cli import GROUP, AzureCliService, assert_succeeds

VM = ("--resource-group", GROUP, "--name", "vm")
FLEET = """
[cloud]
group = "rg"

[[machine]]
name = "vm"
"""

# Loaded by every Python process: records its command line and its network lookups.
AUDIT_HOOK = """
import json, sys
def record(*words):
    with open(%r, "a") as out:
        print(json.dumps([str(word) for word in words]), file=out)
def audit(event, words):
    if event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        record("looked up", words[0])
    elif event == "socket.connect":
        record("looked up", words[1][0] if isinstance(words[1], tuple) else words[1])
sys.addaudithook(audit)
record(*sys.orig_argv)
"""


class PythonAudit:
    """Records the command lines and network lookups of all Python processes of a test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self._log = folder / "log"
        (folder / "sitecustomize.py").write_text(AUDIT_HOOK % str(self._log))
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)

    def _lines(self) -> list[list[str]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def logins(self) -> list[list[str]]:
        """Return the arguments of every login."""
        started = [words for words in self._lines() if "azure.cli" in words]
        if not started:
            pytest.skip("this Azure CLI cannot be audited: its Python ignores PYTHONPATH")
        return [words for words in started if "login" in words]

    def lookups(self) -> set[str]:
        """Return all hosts that were looked up or connected to."""
        return {words[1] for words in self._lines() if words[0] == "looked up"}


def names(service: AzureCliService) -> list[str]:
    """Return the machines that the Azure CLI lists."""
    listed: list[str] = service.az_json("vm", "list", "--query", "[].name")
    return listed


@pytest.mark.spec("C2")
@pytest.mark.usefixtures("az")
def test_the_first_use_sets_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands at once log in once; no command line has the secret; only loopback is used."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        audit = PythonAudit(tmp_path / "audit", monkeypatch)
        first, second = (
            service.start_az("vm", "list"),
            service.start_az("vm", "list", "--output", "table"),
        )
        assert_succeeds(first)
        assert_succeeds(second)
        login, *others = audit.logins()
        assert others == []
        assert login[-2:] == ["--password", "@-"]
        folder = tmp_path / "data" / az_command.FOLDER
        assert folder.stat().st_mode & 0o777 == 0o700

        assert service.az_json("vm", "show", *VM, "--query", "name") == "vm"
        codes = {
            ("vm", "show", "--resource-group", GROUP, "--name", "nobody"): 3,
            ("vm", "simulate-eviction", *VM): 1,
            ("vm", "list", "--nosuchoption"): 2,
            ("nosuchcommand",): 2,
        }
        assert {words: service.az(*words).returncode for words in codes} == codes
        assert len(audit.logins()) == 1
        assert audit.lookups() == {"127.0.0.1"}


@pytest.mark.campaign
@pytest.mark.spec("C2")
@pytest.mark.usefixtures("az")
def test_it_stays_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It logs in again after a month, a logout, a revocation, a new address and a new key."""
    data = tmp_path / "data"
    stamp = data / az_command.FOLDER / "fairwarning.json"
    audit = PythonAudit(tmp_path / "audit", monkeypatch)
    with AzureCliService(data, fleet=FLEET) as service:
        assert [names(service), names(service)] == [["vm"], ["vm"]]
        assert len(audit.logins()) == 1
        old = json.loads(stamp.read_text()) | {"at": time.time() - 31 * 86_400}
        stamp.write_text(json.dumps(old))
        assert names(service) == ["vm"]
        assert len(audit.logins()) == 2
        service.az_json("account", "clear")
        assert names(service) == ["vm"]
        assert len(audit.logins()) == 3
        secret_id = json.loads(stamp.read_text())["secret_id"]
        service.ok("POST", "/api/tokens/revoke", {"ids": [secret_id]})
        assert names(service) == ["vm"]
        assert len(audit.logins()) == 4
        before = service.ready["arm"]
        assert service.stop()[0] == 0
    with (
        socket.create_server(("127.0.0.1", int(before.rpartition(":")[2]))),
        AzureCliService(data) as service,
    ):
        assert service.ready["arm"] != before
        assert names(service) == ["vm"]
        assert len(audit.logins()) == 5
        after = service.ready["arm"].removeprefix("https://")
        assert service.stop()[0] == 0
    (data / "signing.key").unlink()
    with AzureCliService(data, arm=after) as service:
        assert names(service) == ["vm"]  # with a new key, older tokens are invalid
        assert len(audit.logins()) == 6
        assert audit.lookups() == {"127.0.0.1"}


@pytest.mark.spec("C2", "C3")
def test_a_plain_azure_cli(az: str, tmp_path: Path) -> None:
    """It works without `fairwarning az`, given the endpoint and the CA; a reader can only read."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        own = tmp_path / "own"
        own.mkdir()
        settings = az_command.environment(os.environ, own, service.ready["ca"])
        tool = az_command.AzureCli(az, own, settings)
        az_command.record_version(tool)
        tool.run(
            "cloud", "register", "--name", "L", "--endpoint-resource-manager", service.ready["arm"]
        )
        tool.run("cloud", "set", "--name", "L")
        reader = Principal(name="alice", role=Role.READER)
        principal = {"name": reader.name, "role": reader.role, "use": "login"}
        secret = service.ok("POST", "/api/tokens", principal)["token"]
        login = ("--username", reader.name, "--tenant", TENANT, "--password", "@-")
        account, *_ = json.loads(tool.run("login", "--service-principal", *login, stdin=secret))
        assert account["id"] == service.ready["subscription"]

        assert json.loads(tool.run("vm", "list", "--query", "[].name")) == ["vm"]
        assert service.events("vm") == []
        with pytest.raises(Unavailable, match="AuthorizationFailed"):
            tool.run("vm", "restart", *VM)
        assert service.events("vm") == []
        operator = az_command.environment(
            os.environ, service.data / az_command.FOLDER, service.ready["ca"]
        )
        assert names(service) == ["vm"]  # this also sets it up for the operator
        az_command.AzureCli(az, own, operator).run("vm", "restart", *VM, "--no-wait")
        assert service.wait_for_event("vm", "Reboot")["Resources"] == ["vm"]
