import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairwarning.cli import az as az_command
from fairwarning.core.errors import Unavailable
from fairwarning.server.ready import read_ready
from fairwarning.service.tokens import key_of
from tests.fixtures.programs import run_program

COMMAND = (sys.executable, "-c", "from fairwarning.cli.az import command; command()")
NOBODY = "https://127.0.0.1:9"  # where nothing listens

# Loaded by every Python that starts: notes whoever looks for something on the network.
WATCH = """
import sys
def note(event, words):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
        with open(%r, "a") as out:
            print(event, words[-1] if event == "socket.connect" else words[0], file=out)
with open(%r, "a") as out:
    print("watched", file=out)
sys.addaudithook(note)
"""

CLOUD = {
    "endpoints": {
        "resourceManager": NOBODY,
        "activeDirectory": f"{NOBODY}/adfs",
        "activeDirectoryResourceId": NOBODY,
    }
}
SUBSCRIPTION = {
    "environmentName": az_command.CLOUD,
    "homeTenantId": "t",
    "id": "s",
    "isDefault": True,
    "managedByTenants": [],
    "name": "Local",
    "state": "Enabled",
    "tenantId": "t",
    "user": {"name": "operator", "type": "servicePrincipal"},
}


class Folder:
    """A data folder of a service that is said to be up, and is not."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.data.mkdir()
        self.own = self.data / az_command.FOLDER
        self.ca = self.data / "ca.pem"
        self.ca.write_text("any\n")
        self.seen = path / "seen"
        (path / "watch").mkdir()
        (path / "watch" / "sitecustomize.py").write_text(WATCH % ((str(self.seen),) * 2))
        self.watch = {"PYTHONPATH": str(path / "watch")}
        self.say_up()

    def say_up(self, arm: str = NOBODY) -> None:
        ready = {"metadata": "", "console": "", "token": "", "arm": arm, "ca": str(self.ca)}
        ready["subscription"] = "s"
        (self.data / "up.json").write_text(json.dumps(ready))

    def digest(self, program: str) -> str:
        return az_command.digest_of(program, read_ready(self.data), key_of(self.data))

    def tool(self, program: str) -> az_command.AzureCli:
        self.own.mkdir(exist_ok=True)
        caller = {**os.environ, **self.watch}
        settings = az_command.environment(caller, self.own, str(self.ca))
        return az_command.AzureCli(program, self.own, settings)

    def set_up(self, program: str, at: float) -> None:
        """What a set-up leaves, as far as it takes no service to make it."""
        tool = self.tool(program)
        az_command.record_version(tool)
        words = ("--skip-endpoint-discovery", "--cloud-config", "@-")
        tool.run("cloud", "register", "--name", az_command.CLOUD, *words, stdin=json.dumps(CLOUD))
        profile = {"installationId": "i", "subscriptions": [SUBSCRIPTION]}
        (self.own / "azureProfile.json").write_text(json.dumps(profile))
        stamp = {"digest": self.digest(program), "at": at}
        (self.own / "fairwarning.json").write_text(json.dumps(stamp))

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **self.watch, **settings}
        return run_program(*COMMAND, "--data", self.data, *words, env=env)

    def looked_for(self) -> list[str]:
        """What anybody has looked for on the network."""
        lines = self.seen.read_text().splitlines()
        if lines.count("watched") < 2:
            pytest.skip("this Azure CLI cannot be watched: its Python takes no PYTHONPATH")
        return [line for line in lines if line != "watched"]


def test_without_an_azure_cli(tmp_path: Path) -> None:
    """Who has none is told how to get one."""
    done = Folder(tmp_path).run("vm", "list", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "pip install azure-cli" in done.stderr


def test_without_a_service(az: str, tmp_path: Path) -> None:
    """Where no service is up there is nothing to set up."""
    folder = Folder(tmp_path)
    (folder.data / "up.json").unlink()
    done = folder.run("vm", "list")
    assert done.returncode == 1
    assert "no service is running" in done.stderr
    assert not folder.own.exists()


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_help_is_ours(words: list[str]) -> None:
    """Before the first word, help is about this command, and needs nothing."""
    done = CliRunner().invoke(az_command.command, words)
    assert "fairwarning az vm list -o table" in done.output


def test_a_caller_s_settings_do_not_lead_away(tmp_path: Path) -> None:
    """Nothing that the caller has set sends the CLI, or its login, anywhere else."""
    caller = {
        "HOME": "/home/somebody",
        "AZURE_CLIENT_ID": "another",
        "AZURE_CLOUD_NAME": "AzureCloud",
        "ARM_CLOUD_METADATA_URL": "https://192.0.2.1",
        "IDENTITY_ENDPOINT": "http://192.0.2.1",
        "MSI_ENDPOINT": "http://192.0.2.1",
        "https_proxy": "http://192.0.2.1",
        "ALL_PROXY": "http://192.0.2.1",
        "CURL_CA_BUNDLE": "/elsewhere",
        "REQUESTS_CA_BUNDLE": "/elsewhere",
    }
    made = az_command.environment(caller, tmp_path, "/ca")
    assert "192.0.2.1" not in str(made)
    assert "CURL_CA_BUNDLE" not in made
    assert "AZURE_CLIENT_ID" not in made
    assert made["AZURE_CONFIG_DIR"] == str(tmp_path)
    assert made["REQUESTS_CA_BUNDLE"] == "/ca"
    assert made["HOME"] == "/home/somebody"  # where his keys are


def test_it_looks_for_no_newer_version(az: str, tmp_path: Path) -> None:
    """Neither while its version is found out nor after does the CLI look for another."""
    folder = Folder(tmp_path)
    tool = folder.tool(az)
    az_command.record_version(tool)
    noted = json.loads((folder.own / "versionCheck.json").read_text())
    version = json.loads(tool.run("version"))["azure-cli"]
    assert {"azure-cli": {"local": version}, "core": {"local": version}} == noted["versions"]
    assert "AzureCloud" in tool.run("cloud", "list")
    assert folder.looked_for() == []


def test_once_set_up_it_is_the_azure_cli(az: str, tmp_path: Path) -> None:
    """Its output, its words, its exit code; with our cloud, whatever it was told since."""
    folder = Folder(tmp_path)
    folder.set_up(az, time.time())
    shown = folder.run("cloud", "show", "--query", "endpoints.resourceManager", "-o", "tsv")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"{NOBODY}\n", "")
    accounts = json.loads(folder.run("account", "list").stdout)
    assert [account["name"] for account in accounts] == ["Local"]
    assert "az vm create" in folder.run("vm", "create", "--help").stdout
    assert folder.looked_for() == []


def test_a_mistyped_command_is_looked_up_nowhere(az: str, tmp_path: Path) -> None:
    """The CLI says so itself, and does not ask the Internet what might be meant."""
    folder = Folder(tmp_path)
    folder.set_up(az, time.time())
    done = folder.run("vmm", "list")
    assert done.returncode == 2
    assert "vmm" in done.stderr
    assert folder.looked_for() == []


def test_a_set_up_that_fails(az: str, tmp_path: Path) -> None:
    """What the CLI says about it is shown, and the next run begins anew."""
    folder = Folder(tmp_path)
    done = folder.run("vm", "list")
    assert done.returncode == 1
    assert "`az cloud register` failed:" in done.stderr
    assert "127.0.0.1" in done.stderr
    assert not (folder.own / "fairwarning.json").exists()
    assert folder.own.stat().st_mode & 0o777 == 0o700
    assert {line for line in folder.looked_for() if "127.0.0.1" not in line} == set()


def test_a_word_may_come_from_stdin(az: str, tmp_path: Path) -> None:
    """What other users must not read in a command line, the CLI reads from stdin in its place."""
    tool = Folder(tmp_path).tool(az)
    with pytest.raises(Unavailable) as failed:
        tool.run("cloud", "show", "--name", "@-", stdin="never-heard-of")
    assert "`az cloud show` failed:" in failed.value.message
    assert "'never-heard-of'" in failed.value.message


def test_when_it_is_set_up_again(tmp_path: Path) -> None:
    """For another address, certificate or CLI, after a month, and after a logout."""
    folder = Folder(tmp_path)
    folder.own.mkdir()
    program = tmp_path / "az"
    program.write_text("one")
    first = folder.digest(str(program))
    (folder.own / "fairwarning.json").write_text(json.dumps({"digest": first, "at": 1000.0}))
    profile = folder.own / "azureProfile.json"
    profile.write_text(json.dumps({"subscriptions": [SUBSCRIPTION]}))

    assert az_command.is_set_up(folder.own, first, 2000.0)
    assert not az_command.is_set_up(folder.own, first, 1000.0 + 31 * 86_400)
    assert not az_command.is_set_up(folder.own, first, 0.0)  # a clock that went back
    digests = {first}
    folder.say_up("https://127.0.0.1:10")
    digests.add(folder.digest(str(program)))
    folder.ca.write_text("another\n")
    digests.add(folder.digest(str(program)))
    os.utime(program, ns=(1, 1))
    digests.add(folder.digest(str(program)))
    assert len(digests) == 4
    assert [az_command.is_set_up(folder.own, each, 2000.0) for each in digests].count(True) == 1
    profile.write_text(json.dumps({"subscriptions": []}))
    assert not az_command.is_set_up(folder.own, first, 2000.0)
