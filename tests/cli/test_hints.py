"""Commands that the program prints work as they are printed, where they are read."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from fairwarning import ScheduledEvents
from fairwarning.service.config.settings import TENANT
from tests.fixtures.files import short_folder
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_curl, needs_namespaces
from tests.fixtures.service import FREE_PORTS, BackgroundCommand, ServiceProcess, run_command

NAME = """it's"$1"&co"""
"""A name that a shell would take apart."""
MACHINE = f"[[machine]]\nname = '''{NAME}'''\n"
SET = f"[[scale_set]]\nname = '''{NAME}'''\ncapacity = 1\n"
VIRTUAL = ("--memory", "--clock", "virtual")


def paste(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that finds this Python's programs."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return run_program("sh", "-c", command, env=os.environ | {"PATH": path})


def suggested(text: str) -> str:
    """Return the command that the text suggests last."""
    commands: list[str] = re.findall(r"`(.+?)`(?=[.,;]|$)", text, re.MULTILINE)
    assert commands, text
    return commands[-1]


class PrintedHints:
    """`fairwarning up` in a data folder with a space in its name, and the commands it prints."""

    def __init__(self, folder: Path, *words: str) -> None:
        (folder / "fleet.toml").write_text(MACHINE)
        where = ("--data", str(folder / "the data"))
        self._up = BackgroundCommand("up", str(folder / "fleet.toml"), *where, *FREE_PORTS, *words)

    def __enter__(self) -> Self:
        self._up.__enter__()
        text = "\n".join(self._up.read_until("Ctrl-C")).replace("\\\n", "")
        self.lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
        return self

    def __exit__(self, *error: object) -> None:
        self._up.__exit__(*error)

    def paste(self, verb: str) -> subprocess.CompletedProcess[str]:
        """Run the only printed command with this verb."""
        commands = re.compile(rf"(.*fairwarning )?{verb} ")
        (command,) = filter(commands.match, self.lines)
        return paste(command)


NO_EVENTS = '{"DocumentIncarnation":1,"Events":[]}'


@pytest.mark.spec("O2", "O3")
@pytest.mark.parametrize(
    ("verb", "output"),
    [
        ("machine restart", f"{re.escape(NAME)}: accepted.*\n"),
        pytest.param("curl", re.escape(NO_EVENTS), marks=needs_curl),
        pytest.param("exec", re.escape(NO_EVENTS), marks=[needs_curl, needs_namespaces]),
    ],
)
def test_commands_that_up_prints(tmp_path: Path, verb: str, output: str) -> None:
    """The shell takes neither the folder's name nor the machine's apart; `curl` reads events."""
    with PrintedHints(tmp_path) as printed:
        done = printed.paste(verb)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(output, done.stdout)


@needs_curl
@pytest.mark.spec("M22", "O2")
def test_up_prints_a_poll_through_a_socket(tmp_path: Path) -> None:
    """With `--sockets`, the poll uses the machine's socket: this host has no machine's address.

    `machine url` prints that socket in the form that the SDK takes.
    """
    with short_folder() as folder:
        words = ("--sockets", str(folder / "s t"), "--metadata", "0.0.0.0:0")
        with PrintedHints(tmp_path, *words) as printed:
            assert printed.paste("curl").stdout == NO_EVENTS
            done = run_command("machine", "url", "--data", str(tmp_path / "the data"), NAME)
            assert any(done.stdout.strip() in line for line in printed.lines)
            with ScheduledEvents(done.stdout.strip()) as client:
                assert client.me() == NAME


AZ = """#!/bin/sh
echo "$*" >> "$HOME/calls"
env | grep "^AZURE_\\|^REQUESTS_CA" > "$HOME/$1"
case "$*" in
  "$FAILING") exit 1;;
  "cloud show "*) echo "$AUTHORITY";;
esac
"""
"""Records how it is called; fails for one command, and shows a cloud."""
CALLS = (
    "cloud register --name Fairwarning --endpoint-resource-manager {arm}",
    "cloud set --name Fairwarning",
    "cloud show --query endpoints.activeDirectory --output tsv",
    f"login --service-principal --username {NAME} --tenant {TENANT}",
)


class PrintedLogin:
    """The commands that `token --login` prints, and an Azure CLI that records its calls."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "az").write_text(AZ)
        (folder / "az").chmod(0o700)
        for name, value in {
            "HOME": str(folder),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "AZURE_CONFIG_DIR": str(folder / "own"),
            "AZURE_CLOUD_NAME": "AzureCloud",
        }.items():
            monkeypatch.setenv(name, value)
        self._folder = folder
        with ServiceProcess(folder / "the data", "--memory") as service:
            words = ("token", "create", NAME, "--role", "tenant", "--login")
            printed = run_command(*words, "--data", str(service.data)).stdout
            self.arm, self.ca = service.ready["arm"], service.ready["ca"]
        self.lines = [line for line in printed.splitlines() if line.startswith("  ")]
        self.expected = [call.format(arm=self.arm) for call in CALLS]

    def paste(self, *lines: str, failing: str = "-", authority: str = "") -> int:
        """Run these lines; return the exit code."""
        settings = f"export FAILING={shlex.quote(failing)} AUTHORITY={authority}\n"
        return paste(settings + "\n".join(lines)).returncode

    def calls(self) -> list[str]:
        """Return how the Azure CLI was called."""
        return (self._folder / "calls").read_text().splitlines()

    def login_environment(self) -> dict[str, str]:
        """Return the variables that the login got."""
        lines = (self._folder / "login").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.mark.spec("C3")
def test_token_prints_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It registers this service, in a configuration of its own, and then logs in to it."""
    login = PrintedLogin(tmp_path, monkeypatch)
    assert login.paste(*login.lines, authority=f"{login.arm}/adfs") == 0
    assert login.calls() == login.expected
    environment = login.login_environment()
    folder = environment.pop("AZURE_CONFIG_DIR")
    assert folder != str(tmp_path / "own")
    assert Path(folder).is_dir()
    assert environment == {
        "AZURE_CORE_COLLECT_TELEMETRY": "no",
        "AZURE_CORE_INSTANCE_DISCOVERY": "false",
        "REQUESTS_CA_BUNDLE": login.ca,
    }
    Path(folder).rmdir()


@pytest.mark.spec("C3")
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_failed_step_prevents_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """No later command runs, so the secret is not asked for."""
    login = PrintedLogin(tmp_path, monkeypatch)
    assert login.paste(*login.lines, failing=login.expected[step]) != 0
    assert login.calls() == login.expected[: step + 1]


@pytest.mark.spec("C3")
def test_no_secret_is_sent_to_another_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line alone does not log in while another cloud is active."""
    login = PrintedLogin(tmp_path, monkeypatch)
    authority = "https://login.microsoftonline.com"
    assert login.paste(login.lines[-1], authority=authority) != 0
    assert login.paste(*login.lines, authority=authority) != 0
    assert not [call for call in login.calls() if call.startswith("login")]


# --- Other commands -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (("event", "show", "ABCD"), 3, "No events found."),
        (("fault", "set", "410"), 0, "Cleared all faults."),
        (("set", "show", NAME), 0, "all instances are up to date"),
        (("set", "update", NAME, "--size", "Standard_B1s"), 0, "all instances are up to date"),
    ],
    ids=["event", "fault", "outdated set", "changed set"],
)
def test_a_command_suggests_another(
    tmp_path: Path, words: tuple[str, ...], code: int, answer: str
) -> None:
    """The suggested command is for the same data folder."""
    with ServiceProcess(tmp_path / "the data", "--memory", fleet=SET) as service:
        service.run("set", "update", NAME, "--size", "Standard_B2s")
        done = service.run(*words)
        assert done.returncode == code, done.stderr
        pasted = paste(suggested(done.stdout + done.stderr))
        assert pasted.returncode == 0
        assert answer in pasted.stdout + pasted.stderr


@pytest.mark.parametrize(
    "words",
    [("machine", "list"), ("event", "watch"), ("set", "scale"), ("healthcheck",), ("exec",)],
    ids=" ".join,
)
def test_a_command_without_a_service_suggests_to_start_one(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """In the data folder that the command was given, so that the command then finds it."""
    data = tmp_path / "the data"
    more = {"exec": ("vm", "--", "true"), "set": ("web", "1")}.get(words[0], ())
    done = run_command(*words, "--data", str(data), *more)
    assert (done.returncode, done.stdout) == (1, "")
    assert shlex.split(suggested(done.stderr))[-3:] == ["up", "--data", str(data)]


def test_a_killed_service(tmp_path: Path) -> None:
    """Its address is still in the data folder; the error suggests to start it there again."""
    with ServiceProcess(tmp_path / "the data", fleet=SET) as service:
        service.kill()
        for words in (("machine", "list"), ("healthcheck",)):
            suggestion = suggested(service.run(*words).stderr)
            assert shlex.split(suggestion)[-3:] == ["up", "--data", str(tmp_path / "the data")]


def test_an_interrupted_wait(tmp_path: Path) -> None:
    """It suggests to wait again; the wait suggests to advance a clock that stands still."""
    with ServiceProcess(tmp_path / "the data", *VIRTUAL, fleet=MACHINE) as service:
        service.poll(NAME)
        with service.start_command("machine", "restart", NAME, "--wait") as waiting:
            shown = "\n".join(waiting.read_progress("The clock is stopped"))
            _, _, errors = waiting.interrupt()
        for _ in ("the event starts", "the reboot ends"):
            assert paste(suggested(shown)).returncode == 0
        again = paste(errors.splitlines()[-1])
        assert (again.returncode, again.stderr.count("Error")) == (0, 0)
