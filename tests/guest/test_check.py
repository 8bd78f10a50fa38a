"""`fairwarning agent check`: what it proves, and what it says when something is missing."""

import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from fairwarning.cli import agent
from fairwarning.guest.agent import check
from fairwarning.guest.agent.check import AgentCheck, check_agent, check_text
from fairwarning.guest.agent.check_target import CheckFailed, check_hook
from fairwarning.guest.agent.config import (
    AgentConfig,
    ApprovalPolicy,
    GroupSettings,
    HookKind,
    HookSettings,
    parse,
)
from fairwarning.guest.agent.health import HealthServer
from fairwarning.guest.agent.notices import NotifyKind, NotifySettings
from fairwarning.guest.events import EventType, Phase
from tests.fixtures.http import free_port
from tests.fixtures.receiver import Receiver
from tests.guest.agents import AgentFolder, AgentProcess, one_machine, run_agent_command
from tests.guest.double import Double

pytestmark = pytest.mark.spec("G8")


def problem(**target: object) -> str:
    """Return what is wrong with a hook; empty if nothing."""
    kind = HookKind(next(iter(target)))
    try:
        check_hook(HookSettings("h", Phase.SCHEDULED, kind, **target))  # type: ignore[arg-type]
    except CheckFailed as failed:
        return str(failed) if failed.next_step else "no next step"
    return ""


def results(config: AgentConfig, what: str) -> list[AgentCheck]:
    """Return the results of one kind."""
    return [result for result in check_agent(config) if result.what == what]


@pytest.fixture
def config(tmp_path: Path) -> Iterator[AgentConfig]:
    """Yield a configuration whose endpoint answers."""
    with Double() as azure:
        yield AgentConfig(endpoint=azure.url, state=tmp_path / "state")


# --- Programs -------------------------------------------------------------------------------------


def test_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """By path or name, as the agent finds it; the text shows the PATH in which it was sought."""
    assert problem(command=(sys.executable,)) == ""
    assert problem(command=("sh", "-c", "no-such-program")) == ""
    monkeypatch.setenv("PATH", "/nowhere")
    assert problem(command=("drain",)) == "no program drain in PATH (/nowhere)"
    assert problem(command=("/no/drain",)) == "/no/drain does not exist"
    assert problem(command=("/",)) == "/ is not a file"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("#!/bin/sh\nexit 0\n", ""),
        ("#!/bin/sh -e\n", ""),
        ("#! /usr/bin/env sh\n", ""),
        ("#!/usr/bin/env -S sh -e\n", ""),
        ("#!/no/such/python\n", "needs '/no/such/python', which does not exist"),
        ("#!/bin/sh\r\nexit 0\r\n", "needs '/bin/sh\\r', which does not exist"),
        ("#!/usr/bin/env no-such-python\n", "needs 'no-such-python', which is not in PATH"),
        ("exit 0\n", "is a script without a #! line"),
        ("", "is a script without a #! line"),
        ("#!\n", "needs '', which does not exist"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="Windows has no #! lines")
def test_the_interpreter_of_a_script(text: str, error: str, tmp_path: Path) -> None:
    """It must exist, or the kernel cannot start the script, which must be executable."""
    path = tmp_path / "script"
    path.write_bytes(text.encode())
    path.chmod(0o644)
    assert problem(command=(str(path),)) == f"{path} is not executable"
    path.chmod(0o755)
    assert problem(command=(str(path),)) == (f"{path} {error}" if error else "")


# --- URLs and functions ---------------------------------------------------------------------------


def test_a_url() -> None:
    """It must resolve and connect; nothing is sent."""
    with Receiver() as receiver:
        assert problem(url=receiver.url) == ""
        assert "cannot connect to" in problem(url=f"https://127.0.0.1:{receiver.port}/")  # no TLS
        assert receiver.requests == []
    port = free_port()
    assert problem(url=f"http://127.0.0.1:{port}/x") == (
        f"cannot connect to 127.0.0.1:{port}: Connection refused"
    )
    assert problem(url="http://no-such-host.invalid/").startswith(
        "no-such-host.invalid cannot be resolved: "
    )
    assert problem(url="http://lb..example.org/").startswith("cannot connect to lb..example.org:80")


def test_secrets_in_a_url_are_not_shown() -> None:
    """A login, and a path or query that may be a token; what is left is the server."""
    url = "https://user:secret@host:1/token?key=secret"
    (hook,) = parse(f'[[hook]]\nname = "h"\nphase = "over"\nurl = "{url}"\n').hooks
    assert check.describe_hook(hook) == "h: when over, for any event: https://host:1"


@pytest.mark.parametrize("place", ["hooks.d", "hooks.d/scheduled", "hooks.d/scheduled/drain"])
def test_what_every_user_can_write(place: str, config: AgentConfig, tmp_path: Path) -> None:
    """A hook that every user can replace, or add, runs as the agent's user: often root."""
    program = tmp_path / "hooks.d" / "scheduled" / "drain"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    hooks = parse(f"hooks_folder = '{tmp_path / 'hooks.d'}'")
    config = replace(config, hooks=hooks.hooks, hooks_folder=hooks.hooks_folder)
    assert all(result.ok for result in check_agent(config))
    (tmp_path / place).chmod(0o777)
    failed = [result for result in check_agent(config) if not result.ok]
    assert {result.what for result in failed} <= {"hooks", "hook"}
    assert f"every user can write {tmp_path / place}" in failed[0].detail
    assert failed[0].next_step == f"chmod o-w {tmp_path / place}"


def test_who_may_use_the_configuration(config: AgentConfig, tmp_path: Path) -> None:
    """A file that every user can write fails; one with secrets that every user can read warns."""
    file = tmp_path / "agent.toml"
    file.touch(0o644)
    secret = NotifySettings("chat", NotifyKind.SLACK, url="http://127.0.0.1:1/secret")

    def look(config: AgentConfig) -> AgentCheck:
        return next(result for result in check_agent(config, file) if result.what == "config")

    assert check_text(look(config)) == f"ok      config     {file}"
    assert check_text(look(replace(config, notify=(secret,)))).startswith("warning config")
    file.chmod(0o600)
    assert look(replace(config, notify=(secret,))).next_step == ""
    file.chmod(0o666)
    assert not look(config).ok


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("os.path:join", ""),
        ("no_such_module:run", "cannot be imported: ModuleNotFoundError: No module named"),
        ("os.path:no_such", "cannot be imported: AttributeError:"),
        ("os:sep", "is not a function"),
        ("asyncio:sleep", "is an async function"),
    ],
)
def test_a_python_function(call: str, error: str) -> None:
    """It must be importable and synchronous."""
    found = problem(call=call)
    assert found.startswith(error)
    assert bool(found) == bool(error)


def test_a_module_that_exits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not end the check."""
    (tmp_path / "exits.py").write_text("raise SystemExit(0)", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert problem(call="exits:run") == "cannot be imported: SystemExit: 0"


# --- The rest of the configuration ----------------------------------------------------------------


def test_notifications(config: AgentConfig, tmp_path: Path) -> None:
    """They must connect; only the address of a URL is shown."""
    with Receiver() as receiver:
        secret = f"http://127.0.0.1:{receiver.port}/T0/secret"
        team = NotifySettings("team", NotifyKind.SLACK, url=secret)
        lost = NotifySettings("lost", NotifyKind.TEAMS, url_file=str(tmp_path / "no"))
        shown = results(replace(config, notify=(team, lost)), "notify")
    assert [result.ok for result in shown] == [True, False]
    assert shown[0].detail == f"team: slack, 127.0.0.1:{receiver.port}"
    assert "No such file" in shown[1].detail
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("approve", "detail"),
    [
        ({}, "none; no event is approved"),
        ({"": ApprovalPolicy.AT_ONCE}, "none; events are approved immediately"),
        ({"": ApprovalPolicy.NEVER}, "none; no event is approved"),
        ({"": ApprovalPolicy.USER_ONLY}, "none; some events are approved immediately"),
        ({"Reboot": ApprovalPolicy.AT_ONCE}, "none; some events are approved immediately"),
        (dict.fromkeys(EventType, ApprovalPolicy.NEVER), "none; no event is approved"),
    ],
)
def test_what_is_approved_without_hooks(
    config: AgentConfig, approve: dict[str, ApprovalPolicy], detail: str
) -> None:
    """Approving without preparation must be asked for, as everywhere."""
    (result,) = results(replace(config, approve=approve), "hooks")
    assert (result.ok, result.detail) == (True, detail)


def test_a_state_folder_that_cannot_be_written(config: AgentConfig, tmp_path: Path) -> None:
    """The next step names the user and the folder."""
    (tmp_path / "file").touch()
    (result,) = results(replace(config, state=tmp_path / "file" / "state"), "state")
    assert not result.ok
    assert "cannot be written" in result.detail
    assert "run this as the agent's user" in result.next_step


def test_the_state_folder_is_left_as_it_was(config: AgentConfig, tmp_path: Path) -> None:
    """Created folders are removed; existing ones keep their files only."""
    config.state.mkdir()
    (config.state / "journal").touch()
    for state in (config.state, tmp_path / "new" / "state"):
        (result,) = results(replace(config, state=state), "state")
        assert result.ok
    assert [path.name for path in config.state.iterdir()] == ["journal"]
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_port_that_another_program_uses(config: AgentConfig) -> None:
    """An agent that is already running is no failure."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        used = f"127.0.0.1:{other.getsockname()[1]}"
        (result,) = results(replace(config, listen=used), "listen")
        assert not result.ok
    health = HealthServer("127.0.0.1:0", str, str)
    try:
        (result,) = results(replace(config, listen=f"127.0.0.1:{health.port}"), "listen")
        assert result.ok
        assert result.detail.endswith("an agent is listening")
    finally:
        health.close()


def test_a_group(config: AgentConfig, tmp_path: Path) -> None:
    """A shared folder must be writable."""
    folder = GroupSettings(folder=str(tmp_path / "shared"))
    assert [result.ok for result in results(replace(config, group=folder), "group")] == [True]


def test_rights_on_kubernetes(config: AgentConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each right is a line; asked for only if the configuration uses Kubernetes."""
    rights = [("patch nodes", True, ""), ("create pods/eviction", False, "no RBAC rule")]
    monkeypatch.setattr(
        "fairwarning.guest.agent.kubernetes.permissions", lambda _: rights, raising=False
    )
    assert results(config, "kubernetes") == []
    group = GroupSettings(kubernetes=True)
    allowed, denied = results(replace(config, group=group), "kubernetes")
    assert (allowed.ok, allowed.detail) == (True, "patch nodes")
    assert (denied.ok, denied.detail) == (False, "create pods/eviction: no RBAC rule")
    assert denied.next_step == "grant it in the agent's ClusterRole"


# --- The command ----------------------------------------------------------------------------------


@pytest.mark.spec("G3")
def test_an_endpoint_without_instance_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the request, what works without it, and the setting to use instead."""
    monkeypatch.setattr(check, "ENDPOINT_SECONDS", 0.1)
    with Double(name="") as azure:
        results = list(check_agent(AgentConfig(endpoint=azure.url, state=tmp_path / "state")))
    (failed,) = (check_text(result) for result in results if not result.ok)
    assert "GET /metadata/instance/compute/name" in failed
    assert "events can be read and approved" in failed
    assert "set `name` in its configuration" in failed


@pytest.mark.spec("G3")
@pytest.mark.parametrize("known", ["vm-1", "_VM-1", ""])
def test_a_name_that_the_endpoint_does_not_contradict(tmp_path: Path, known: str) -> None:
    """It spells it otherwise, or has no instance metadata, which is why a name may be set."""
    with Double(name=known) as azure:
        config = AgentConfig(endpoint=azure.url, name="vm-1", state=tmp_path)
        (result,) = results(config, "machine")
    assert (result.ok, result.detail) == (True, "vm-1")


@pytest.mark.spec("G3")
def test_a_name_that_the_endpoint_contradicts(tmp_path: Path) -> None:
    """No event would concern this machine: the check fails with both names, and a run warns."""
    home = AgentFolder(tmp_path, "", name="web000001")
    with Double(name="web_1") as azure:
        home.endpoint = azure.url
        done = run_agent_command("agent", "check", "--config", str(home.config()))
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: "the endpoint calls this machine web_1" in agent.output())
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if not line.startswith("ok ")] == [
        "FAILED  machine    web000001, but the endpoint calls this machine web_1",
        "        next step: remove `name` from the configuration, or set it to web_1",
    ]
    assert "the configuration has name = 'web000001'" in agent.output()


@pytest.mark.spec("G7")
def test_an_endpoint_that_answers_late(
    config: AgentConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On Azure the first response takes up to two minutes: the user learns what it waits for."""
    with Double() as azure, ExitStack() as silence:
        silence.enter_context(azure.silence())

        class _Speak(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if "may take two minutes" in record.getMessage():
                    silence.close()

        settings = replace(config, endpoint=azure.url)
        speak = _Speak()
        monkeypatch.setattr(agent, "configure_logging", lambda *_, **__: speak)
        monkeypatch.setattr(agent, "_read_config", lambda _: settings)
        monkeypatch.setattr(agent, "_SLOW_SECONDS", 0.01)
        agent.log.addHandler(speak)
        try:
            agent.main(["check"])
        finally:
            agent.log.removeHandler(speak)
    assert "ok      document   incarnation 1" in capsys.readouterr().out


def test_what_an_agent_would_do(tmp_path: Path) -> None:
    """It shows endpoint, name, events and hooks; it runs and approves nothing."""
    with one_machine(tmp_path) as (endpoint, home):
        event = endpoint.restart("db_0")
        home.hook("drain", "scheduled", more='on = ["Reboot"]')
        url = f"{home.endpoint}/b"
        home.hooks.append(f'[[hook]]\nname = "tell"\nphase = "over"\nurl = "{url}"\n')
        file = home.config()
        file.chmod(0o600)
        done = run_agent_command("agent", "check", "--config", str(file))
        assert done.returncode == 0, done.stderr
        assert all(line.startswith("ok ") for line in done.stdout.splitlines())
        lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
        output = {line[1]: line[2] for line in lines}
        assert output["endpoint"] == home.endpoint
        assert output["machine"] == "db_0"
        assert output["document"].startswith("incarnation ")
        assert output["state"] == str(home.state)
        assert "Reboot of db_0, not before" in done.stdout
        assert event.id in done.stdout
        assert "drain: when scheduled, for Reboot: /bin/sh -c" in done.stdout
        assert f"tell: when over, for any event: {home.endpoint}\n" in done.stdout
        assert not home.state.exists()
        assert endpoint.approvals == []


def test_a_failed_check(tmp_path: Path) -> None:
    """Every check is made, the failed ones show the next step, and the exit code is 1."""
    with one_machine(tmp_path) as (_, home):
        home.hooks.append('[[hook]]\nname = "bad"\nphase = "over"\ncommand = ["/no/such"]\n')
        home.hook("last", "over")
        done = run_agent_command("agent", "check", "--config", str(home.config()))
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
    assert failed == [
        "FAILED  hook       bad: when over, for any event: /no/such: /no/such does not exist",
        "        next step: install it, or correct the path",
    ]
    assert "hook       last:" in done.stdout


def test_json(tmp_path: Path) -> None:
    """One object, with every check and what would happen for an event."""
    with one_machine(tmp_path) as (_, home):
        home.hook("drain", "scheduled")
        words = ("--json", "--event", "Reboot", "--config", str(home.config()))
        done = run_agent_command("agent", "check", *words)
    body = json.loads(done.stdout)
    assert body["ok"] is True
    assert {"ok": True, "check": "machine", "detail": "db_0", "next_step": ""} in body["checks"]
    (hook,) = body["event"].pop("hooks")
    assert (hook["name"], hook["phase"], hook["required"]) == ("drain", "scheduled", True)
    assert hook["deadline"] < body["event"]["not_before"]
    assert "approved" in body["event"]["decision"]


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        ("agent.toml", 'listen = "a..b:80"', "listen: must be HOST:PORT; a part of the host name"),
        ("notes.txt", "", "the folder has no file that ends in .toml"),
    ],
)
def test_a_configuration_that_is_refused(tmp_path: Path, file: str, text: str, error: str) -> None:
    """The check says what to change, and ends with exit code 1."""
    (tmp_path / file).write_text(text, "utf-8")
    done = run_agent_command("agent", "check", "--config", str(tmp_path))
    assert done.returncode == 1
    assert error in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    """It is shown as far as possible."""
    path = tmp_path / os.fsdecode(b"agent-\xff.toml")
    path.write_text("", "utf-8")
    with Double() as azure:
        done = run_agent_command(
            "agent", "check", "--config", str(path), FAIRWARNING_ENDPOINT=azure.url
        )
    assert f"ok      config     {tmp_path}/agent-\\udcff.toml\n" in done.stdout
    assert done.stderr == ""
