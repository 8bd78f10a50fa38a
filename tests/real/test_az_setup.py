import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairwarning.cli.commands import az as az_command
from fairwarning.server.ready import read_ready
from tests.fixtures.programs import run_program

COMMAND = (sys.executable, "-c", "from fairwarning.cli.commands.az import command; command()")
CONSOLE = "http://127.0.0.1:9"  # nothing listens there
UNREACHABLE = "https://127.0.0.1:9"


class DataFolder:
    """The data folder of a service that has a ready file and does not run."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.data.mkdir()
        self.config = self.data / az_command.FOLDER
        self.ca = self.data / "ca.pem"
        self.ca.write_text("any\n")
        self.write_ready_file()

    def write_ready_file(self, arm: str = UNREACHABLE) -> None:
        ready = {"metadata": "", "console": CONSOLE, "token": "", "arm": arm, "ca": str(self.ca)}
        ready["subscription"] = "s"
        (self.data / "up.json").write_text(json.dumps(ready))

    def digest(self, program: str) -> str:
        return az_command.digest_of(program, read_ready(self.data))

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return run_program(*COMMAND, "--data", self.data, *words, env={**os.environ, **settings})


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


def test_a_set_up_that_fails(az: str, tmp_path: Path) -> None:
    """The CLI's error is shown, and the next run starts again."""
    folder = DataFolder(tmp_path)
    done = folder.run("vm", "list")
    assert done.returncode == 1
    assert "`az cloud register` failed:" in done.stderr
    assert "127.0.0.1" in done.stderr
    assert not (folder.config / "fairwarning.json").exists()
    assert folder.config.stat().st_mode & 0o777 == 0o700


def test_when_it_is_set_up_again(tmp_path: Path) -> None:
    """The set-up is repeated for a new address, certificate or CLI, after a month or a logout."""
    folder = DataFolder(tmp_path)
    folder.config.mkdir()
    program = tmp_path / "az"
    program.write_text("one")
    first = folder.digest(str(program))
    (folder.config / "fairwarning.json").write_text(json.dumps({"digest": first, "at": 1000.0}))
    profile = folder.config / "azureProfile.json"
    profile.write_text(json.dumps({"subscriptions": [{"environmentName": az_command.CLOUD}]}))

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
