import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairwarning.cli.commands import az as az_command
from fairwarning.core.errors import Unavailable
from fairwarning.server.ready import read_ready
from tests.fixtures.programs import run_program

COMMAND = (sys.executable, "-c", "from fairwarning.cli.commands.az import command; command()")
CONSOLE = "http://127.0.0.1:9"  # nothing listens there
UNREACHABLE = "https://127.0.0.1:9"

# Loaded by every Python process: records its network lookups.
AUDIT_HOOK = """
import sys
def audit(event, words):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
        with open(%r, "a") as out:
            print(event, words[-1] if event == "socket.connect" else words[0], file=out)
with open(%r, "a") as out:
    print("audited", file=out)
sys.addaudithook(audit)
"""

CLOUD = {
    "endpoints": {
        "resourceManager": UNREACHABLE,
        "activeDirectory": f"{UNREACHABLE}/adfs",
        "activeDirectoryResourceId": UNREACHABLE,
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


class DataFolder:
    """The data folder of a service that has a ready file and does not run."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.data.mkdir()
        self.config = self.data / az_command.FOLDER
        self.ca = self.data / "ca.pem"
        self.ca.write_text("any\n")
        self.log = path / "log"
        (path / "audit").mkdir()
        (path / "audit" / "sitecustomize.py").write_text(AUDIT_HOOK % ((str(self.log),) * 2))
        self.audit = {"PYTHONPATH": str(path / "audit")}
        self.write_ready_file()

    def write_ready_file(self, arm: str = UNREACHABLE) -> None:
        ready = {"metadata": "", "console": CONSOLE, "token": "", "arm": arm, "ca": str(self.ca)}
        ready["subscription"] = "s"
        (self.data / "up.json").write_text(json.dumps(ready))

    def digest(self, program: str) -> str:
        return az_command.digest_of(program, read_ready(self.data))

    def tool(self, program: str) -> az_command.AzureCli:
        self.config.mkdir(exist_ok=True)
        caller = {**os.environ, **self.audit}
        settings = az_command.environment(caller, self.config, str(self.ca))
        return az_command.AzureCli(program, self.config, settings)

    def write_setup(self, program: str, at: float) -> None:
        """Write the files of a set-up that need no service."""
        tool = self.tool(program)
        az_command.record_version(tool)
        words = ("--skip-endpoint-discovery", "--cloud-config", "@-")
        tool.run("cloud", "register", "--name", az_command.CLOUD, *words, stdin=json.dumps(CLOUD))
        profile = {"installationId": "i", "subscriptions": [SUBSCRIPTION]}
        (self.config / "azureProfile.json").write_text(json.dumps(profile))
        stamp = {"digest": self.digest(program), "at": at, "secret_id": "any"}
        (self.config / "fairwarning.json").write_text(json.dumps(stamp))

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **self.audit, **settings}
        return run_program(*COMMAND, "--data", self.data, *words, env=env)

    def lookups(self) -> list[str]:
        """Return all network lookups, except those of the console, which is on loopback."""
        lines = self.log.read_text().splitlines()
        if lines.count("audited") < 2:
            pytest.skip("this Azure CLI cannot be audited: its Python ignores PYTHONPATH")
        console = {"socket.connect ('127.0.0.1', 9)", "socket.getaddrinfo 127.0.0.1"}
        return [line for line in lines if line not in {"audited", *console}]


def test_without_an_azure_cli(tmp_path: Path) -> None:
    """Without the Azure CLI, the error says how to install it."""
    done = DataFolder(tmp_path).run("vm", "list", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "pip install azure-cli" in done.stderr


def test_without_a_service(az: str, tmp_path: Path) -> None:
    """Without a running service, nothing is set up."""
    folder = DataFolder(tmp_path)
    (folder.data / "up.json").unlink()
    done = folder.run("vm", "list")
    assert done.returncode == 1
    assert "no service is running" in done.stderr
    assert not folder.config.exists()


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_help_is_ours(words: list[str]) -> None:
    """Without a CLI command, the help is about `fairwarning az`, and needs no service."""
    done = CliRunner().invoke(az_command.command, words)
    assert "fairwarning az vm list -o table" in done.output


def test_the_caller_s_settings_are_not_used(tmp_path: Path) -> None:
    """No variable of the caller sends the CLI or its login to another host."""
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
    environment = az_command.environment(caller, tmp_path, "/ca")
    assert "192.0.2.1" not in str(environment)
    assert "CURL_CA_BUNDLE" not in environment
    assert "AZURE_CLIENT_ID" not in environment
    assert environment["AZURE_CONFIG_DIR"] == str(tmp_path)
    assert environment["REQUESTS_CA_BUNDLE"] == "/ca"
    assert environment["HOME"] == "/home/somebody"  # the SSH keys are there


def test_the_cli_does_not_check_for_updates(az: str, tmp_path: Path) -> None:
    """The CLI does not look for a newer version, during the set-up or later."""
    folder = DataFolder(tmp_path)
    tool = folder.tool(az)
    az_command.record_version(tool)
    recorded = json.loads((folder.config / "versionCheck.json").read_text())
    version = json.loads(tool.run("version"))["azure-cli"]
    assert {"azure-cli": {"local": version}, "core": {"local": version}} == recorded["versions"]
    assert "AzureCloud" in tool.run("cloud", "list")
    assert folder.lookups() == []


def test_the_cli_after_the_set_up(az: str, tmp_path: Path) -> None:
    """Output and exit code are the Azure CLI's, with our cloud."""
    folder = DataFolder(tmp_path)
    folder.write_setup(az, time.time())
    done = folder.run("cloud", "show", "--query", "endpoints.resourceManager", "-o", "tsv")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{UNREACHABLE}\n", "")
    accounts = json.loads(folder.run("account", "list").stdout)
    assert [account["name"] for account in accounts] == ["Local"]
    assert "az vm create" in folder.run("vm", "create", "--help").stdout
    assert folder.lookups() == []


def test_a_mistyped_command_makes_no_lookup(az: str, tmp_path: Path) -> None:
    """The CLI reports the error without asking the Internet for suggestions."""
    folder = DataFolder(tmp_path)
    folder.write_setup(az, time.time())
    done = folder.run("vmm", "list")
    assert done.returncode == 2
    assert "vmm" in done.stderr
    assert folder.lookups() == []


def test_a_set_up_that_fails(az: str, tmp_path: Path) -> None:
    """The CLI's error is shown, and the next run starts again."""
    folder = DataFolder(tmp_path)
    done = folder.run("vm", "list")
    assert done.returncode == 1
    assert "`az cloud register` failed:" in done.stderr
    assert "127.0.0.1" in done.stderr
    assert not (folder.config / "fairwarning.json").exists()
    assert folder.config.stat().st_mode & 0o777 == 0o700
    assert {line for line in folder.lookups() if "127.0.0.1" not in line} == set()


def test_an_argument_may_come_from_stdin(az: str, tmp_path: Path) -> None:
    """The CLI reads a secret from stdin, so other users cannot see it in a command line."""
    tool = DataFolder(tmp_path).tool(az)
    with pytest.raises(Unavailable) as failed:
        tool.run("cloud", "show", "--name", "@-", stdin="never-heard-of")
    assert "`az cloud show` failed:" in failed.value.message
    assert "'never-heard-of'" in failed.value.message


def test_when_it_is_set_up_again(tmp_path: Path) -> None:
    """The set-up is repeated for a new address, certificate or CLI, after a month or a logout."""
    folder = DataFolder(tmp_path)
    folder.config.mkdir()
    program = tmp_path / "az"
    program.write_text("one")
    first = folder.digest(str(program))
    (folder.config / "fairwarning.json").write_text(json.dumps({"digest": first, "at": 1000.0}))
    profile = folder.config / "azureProfile.json"
    profile.write_text(json.dumps({"subscriptions": [SUBSCRIPTION]}))

    assert az_command.is_set_up(folder.config, first, 2000.0)
    assert not az_command.is_set_up(folder.config, first, 1000.0 + 31 * 86_400)
    assert not az_command.is_set_up(folder.config, first, 0.0)  # the clock was set back
    digests = {first}
    folder.write_ready_file("https://127.0.0.1:10")
    digests.add(folder.digest(str(program)))
    folder.ca.write_text("another\n")
    digests.add(folder.digest(str(program)))
    os.utime(program, ns=(1, 1))
    digests.add(folder.digest(str(program)))
    assert len(digests) == 4
    assert [az_command.is_set_up(folder.config, digest, 2000.0) for digest in digests].count(
        True
    ) == 1
    (folder.config / "fairwarning.json").write_text("[]")
    assert not az_command.is_set_up(folder.config, first, 2000.0)
    profile.write_text(json.dumps({"subscriptions": []}))
    assert not az_command.is_set_up(folder.config, first, 2000.0)
