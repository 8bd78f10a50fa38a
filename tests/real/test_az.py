"""`fairwarning az` against a real service: it sets the Azure CLI up, and keeps it so."""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from fairwarning.cli import az as az_command
from fairwarning.core.errors import Unavailable
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role, Tokens, key_of
from tests.real.azure_cli import GROUP, AzureCliService, assert_succeeds

ONE = ("--resource-group", GROUP, "--name", "one")
FLEET = """
[cloud]
group = "rg"

[[machine]]
name = "one"
"""

# Loaded by every Python that starts: notes how it was started, and what it looks for.
WATCH = """
import json, sys
def note(*words):
    with open(%r, "a") as out:
        print(json.dumps([str(word) for word in words]), file=out)
def hear(event, words):
    if event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        note("looked for", words[0])
    elif event == "socket.connect":
        note("looked for", words[1][0] if isinstance(words[1], tuple) else words[1])
sys.addaudithook(hear)
note(*sys.orig_argv)
"""


class Watch:
    """Sees what every Python of this test does from now on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self._seen = folder / "seen"
        (folder / "sitecustomize.py").write_text(WATCH % str(self._seen))
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)

    def _lines(self) -> list[list[str]]:
        return [json.loads(line) for line in self._seen.read_text().splitlines()]

    def logins(self) -> list[list[str]]:
        """The words of every login."""
        started = [words for words in self._lines() if "azure.cli" in words]
        if not started:
            pytest.skip("this Azure CLI cannot be watched: its Python takes no PYTHONPATH")
        return [words for words in started if "login" in words]

    def looked_for(self) -> set[str]:
        """What anybody has looked for on the network."""
        return {words[1] for words in self._lines() if words[0] == "looked for"}


def names(service: AzureCliService) -> list[str]:
    """The machines, as the Azure CLI lists them."""
    found: list[str] = service.ask("vm", "list", "--query", "[].name")
    return found


@pytest.mark.spec("C2")
@pytest.mark.usefixtures("az")
def test_the_first_use_sets_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once do so once; the secret is in no command line; nobody asks the Internet."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        watch = Watch(tmp_path / "watch", monkeypatch)
        first, second = (
            service.start_az("vm", "list"),
            service.start_az("vm", "list", "--output", "table"),
        )
        assert_succeeds(first)
        assert_succeeds(second)
        login, *others = watch.logins()
        assert others == []
        assert login[-2:] == ["--password", "@-"]
        folder = tmp_path / "data" / az_command.FOLDER
        assert folder.stat().st_mode & 0o777 == 0o700

        assert service.ask("vm", "show", *ONE, "--query", "name") == "one"
        codes = {
            ("vm", "show", "--resource-group", GROUP, "--name", "nobody"): 3,
            ("vm", "simulate-eviction", *ONE): 1,
            ("vm", "list", "--nosuchoption"): 2,
            ("nosuchcommand",): 2,
        }
        assert {words: service.az(*words).returncode for words in codes} == codes
        assert len(watch.logins()) == 1
        assert watch.looked_for() == {"127.0.0.1"}


@pytest.mark.spec("C2")
@pytest.mark.usefixtures("az")
def test_it_stays_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a month, a logout, a move of the service and with new keys it logs in by itself."""
    data = tmp_path / "data"
    stamp = data / az_command.FOLDER / "fairwarning.json"
    watch = Watch(tmp_path / "watch", monkeypatch)
    with AzureCliService(data, fleet=FLEET) as service:
        assert [names(service), names(service)] == [["one"], ["one"]]
        assert len(watch.logins()) == 1
        old = json.loads(stamp.read_text()) | {"at": time.time() - 31 * 86_400}
        stamp.write_text(json.dumps(old))
        assert names(service) == ["one"]
        assert len(watch.logins()) == 2
        service.ask("account", "clear")
        assert names(service) == ["one"]
        assert len(watch.logins()) == 3
        before = service.ready["arm"]
        assert service.stop()[0] == 0
    with (
        socket.create_server(("127.0.0.1", int(before.rpartition(":")[2]))),
        AzureCliService(data) as service,
    ):
        assert service.ready["arm"] != before
        assert names(service) == ["one"]
        assert len(watch.logins()) == 4
        after = service.ready["arm"].removeprefix("https://")
        assert service.stop()[0] == 0
    (data / "signing.key").unlink()
    with AzureCliService(data, arm=after) as service:
        assert names(service) == ["one"]  # new keys: no token made before is good any more
        assert len(watch.logins()) == 5
        assert watch.looked_for() == {"127.0.0.1"}


@pytest.mark.spec("C2", "C3")
def test_a_plain_azure_cli(az: str, tmp_path: Path) -> None:
    """Told where the service is and whom to trust, it works by itself; a reader may only look."""
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
        secret = Tokens(key_of(service.data), TENANT).secret(reader)
        who = ("--username", reader.name, "--tenant", TENANT, "--password", "@-")
        account, *_ = json.loads(tool.run("login", "--service-principal", *who, stdin=secret))
        assert account["id"] == service.ready["subscription"]

        assert json.loads(tool.run("vm", "list", "--query", "[].name")) == ["one"]
        assert service.events("one") == []
        with pytest.raises(Unavailable, match="AuthorizationFailed"):
            tool.run("vm", "restart", *ONE)
        assert service.events("one") == []
        operator = az_command.environment(
            os.environ, service.data / az_command.FOLDER, service.ready["ca"]
        )
        assert names(service) == ["one"]  # and it is set up for the operator
        az_command.AzureCli(az, own, operator).run("vm", "restart", *ONE, "--no-wait")
        assert service.announced("one", "Reboot")["Resources"] == ["one"]
