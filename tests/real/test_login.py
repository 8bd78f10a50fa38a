"""The login that `token --login` prints, pasted into a shell with the real Azure CLI."""

import json
import os
import pty
import re
from pathlib import Path

import pytest

from tests.fixtures.programs import run_program
from tests.real.azure_cli import GROUP, AzureCliService

FLEET = '[cloud]\ngroup = "rg"\n\n[[machine]]\nname = "vm"\n'
LIST = f"az vm list --resource-group {GROUP} --query '[].name'"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def type_in_terminal(script: str, answer: str) -> tuple[int, str]:
    """Run a script in a terminal, answer its first question; return its exit code and output."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("sh", ["sh", "-c", script])
    output, answered = "", False
    while True:
        try:
            output += os.read(terminal, 4096).decode()
        except OSError:  # how a terminal reports the end
            break
        if not answered and "assword:" in output:
            os.write(terminal, f"{answer}\n".encode())
            answered = True
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), _ESCAPE.sub("", output)


def printed_login(service: AzureCliService) -> tuple[str, str]:
    """Return the secret of a new client, and the commands that log in with it."""
    lines = service.run(
        "token", "create", "alice", "--role", "tenant", "--group", GROUP, "--login"
    ).stdout.splitlines()
    (secret,) = (line.split()[1] for line in lines if line.startswith("secret "))
    return secret, "\n".join(line for line in lines if line.startswith("  "))


@pytest.mark.spec("C2", "C3")
@pytest.mark.usefixtures("az")
def test_the_printed_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It logs in to this service, whatever cloud the user's own Azure CLI uses."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("AZURE_CLOUD_NAME", "AzureUSGovernment")
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        secret, commands = printed_login(service)
        script = f"{commands} --output none &&\n{LIST} --output tsv"
        code, output = type_in_terminal(script, secret)
        assert (code, output.splitlines()[-1]) == (0, "vm"), output
        assert secret not in output


@pytest.mark.spec("C3")
@pytest.mark.usefixtures("az")
def test_the_secret_is_not_sent_to_azure(tmp_path: Path) -> None:
    """Neither the last line alone logs in to Azure, nor all lines if one of them fails."""
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        secret, commands = printed_login(service)
        *_, last = commands.splitlines()
        assert type_in_terminal(last, secret) == (1, "")
        service.kill()
        code, output = type_in_terminal(commands, secret)
        assert code != 0
        assert "assword:" not in output
        clouds = json.loads(run_program("az", "cloud", "list").stdout)
        assert "Fairwarning" not in {cloud["name"] for cloud in clouds}
