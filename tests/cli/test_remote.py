"""Commands that talk to a service on another host: by its URL, with a token (O13)."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from fairwarning.cli.connection.target import LocalService, RemoteService, ServiceOptions, choose
from fairwarning.server import contexts
from fairwarning.server.contexts import NamedService
from tests.docs.chapters.cli import tree
from tests.fixtures.http import free_port
from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.service import ServiceProcess, run_command

pytestmark = pytest.mark.spec("O13")

NAMING = {"--server", "--context", "--data", "--token-file", "--ca"}
NO_SERVICE = {
    *("up", "certify", "completion", "version"),
    *("scenario run", "scenario list", "scenario show"),
}
"""Commands that use no running service; those of `context` too."""
FLEET = '[[machine]]\nname = "vm"\n[[scale_set]]\nname = "web"\ncapacity = 2\n'

COMMANDS = tomllib.loads(Path(__file__).with_name("remote_commands.toml").read_text("utf-8"))
UNKNOWN = "00000000-0000-0000-0000-000000000000"
ELSEWHERE = {"exec", "az"}
"""Commands that other tests try: they need more than the service."""


def client_commands() -> dict[str, set[str]]:
    """Return each command that talks to a service, with its options."""
    return {
        words: {option for param in command.params for option in param.opts}
        for words, command in tree().items()
        if not hasattr(command, "commands")
        and words not in NO_SERVICE
        and not words.startswith("context ")
    }


def test_every_command_names_its_service_in_the_same_way() -> None:
    """By the same options; none of them takes a token on the command line."""
    commands = client_commands()
    assert len(commands) > 40
    assert {words for words, options in commands.items() if not options >= NAMING} == set()
    assert {words for words, options in commands.items() if "--token" in options} == set()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("up",), "starts a service on this host"),
        (("certify", "true"), "starts its own services on this host"),
        (("scenario", "run", "--all"), "has its own fleet"),
        (("exec", "vm", "true"), "needs the data folder of a service on this host"),
    ],
    ids=["up", "certify", "scenario", "exec"],
)
def test_a_command_that_needs_this_host(words: tuple[str, ...], why: str) -> None:
    """It says why, and starts nothing."""
    noun, *rest = words
    option = [*rest[:1], "--server"] if noun == "scenario" else ["--server"]
    done = run_command(noun, *option, "http://127.0.0.1:1", *rest[len(option) - 1 :])
    assert done.returncode == 2, done.stderr
    assert why in done.stderr


# --- Which service --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "environment", "current", "chosen"),
    [
        (ServiceOptions(server="http://a:1"), {"URL": "http://b:1"}, "ctx", "http://a:1"),
        (ServiceOptions(context="ctx"), {"URL": "http://b:1"}, "", "http://ctx:1"),
        (ServiceOptions(data=Path("d")), {"URL": "http://b:1"}, "ctx", "d"),
        (ServiceOptions(), {"URL": "http://b:1", "CONTEXT": "ctx"}, "", "http://b:1"),
        (ServiceOptions(), {"CONTEXT": "ctx", "DATA": "e"}, "", "http://ctx:1"),
        (ServiceOptions(), {"DATA": "e"}, "ctx", "e"),
        (ServiceOptions(), {"DATA": "postgresql://db/x"}, "ctx", ".fairwarning"),
        (ServiceOptions(), {}, "ctx", "http://ctx:1"),
        (ServiceOptions(), {}, "", ".fairwarning"),
    ],
)
def test_the_order_of_precedence(
    given: ServiceOptions,
    environment: dict[str, str],
    current: str,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Options, the environment, the current context, the default folder."""
    with contexts.changing() as stored:
        stored.services["ctx"] = NamedService("http://ctx:1", "secret")
        stored.current = current
    for name, value in environment.items():
        monkeypatch.setenv(f"FAIRWARNING_{name}", value)
    service = choose(given)
    if isinstance(service, RemoteService):
        assert service.service.server == chosen
    else:
        assert isinstance(service, LocalService)
        assert service.folder == Path(chosen)


def test_a_token_of_the_environment_does_not_go_to_a_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It belongs to the URL; a context has its own."""
    with contexts.changing() as stored:
        stored.services["ctx"] = NamedService("http://ctx:1", "own")
    monkeypatch.setenv("FAIRWARNING_TOKEN", "other")
    assert choose(ServiceOptions(context="ctx")).address().token == "own"
    assert choose(ServiceOptions(server="http://x:1")).address().token == "other"


def test_without_a_service_the_error_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder, the environment and the contexts, and how to name another."""
    with contexts.changing() as stored:
        stored.services["lab"] = NamedService("http://lab:1", "secret")
    monkeypatch.chdir(tmp_path)
    done = run_command("machine", "list")
    assert done.returncode == 1
    for place in (".fairwarning", "FAIRWARNING_URL", "FAIRWARNING_CONTEXT", "FAIRWARNING_DATA"):
        assert place in done.stderr
    assert "no context is current of lab" in done.stderr
    assert "--server URL, --context NAME or --data PATH" in done.stderr


@pytest.mark.parametrize(
    "url", ["fleet:8170", "http://u:secret@fleet", "http://fleet/login?key=secret", "http://h:x"]
)
def test_a_url_that_names_no_console(url: str) -> None:
    """The error says what is allowed, and repeats no secret."""
    done = run_command("machine", "list", "--server", url)
    assert done.returncode == 2
    assert "such as https://fleet.example:8170" in done.stderr
    assert "secret" not in done.stderr


# --- A real service -------------------------------------------------------------------------------


def test_every_command_works_by_url_and_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one, in a folder without a data folder, and with no other word about the service."""
    work = tmp_path / "elsewhere"
    work.mkdir()
    with ServiceProcess(tmp_path / "data", "--memory", "--clock", "virtual", fleet=FLEET) as there:
        monkeypatch.chdir(work)
        monkeypatch.setenv("FAIRWARNING_URL", there.ready["console"])
        monkeypatch.setenv("FAIRWARNING_TOKEN", there.ready["token"])
        there.poll("vm")
        started = there.ok("POST", "/api/machines/vm/restart", {})
        words = {
            "EVENT": started["events"][0]["id"],
            "OPERATION": started["operation"]["id"],
            "UNKNOWN": UNKNOWN,
        }

        def run(command: str, arguments: str) -> subprocess.CompletedProcess[str]:
            return run_command(*command.split(), *(words.get(w, w) for w in arguments.split()))

        succeed, refused = COMMANDS["succeed"], COMMANDS["refused"]
        for command, arguments in succeed.items():
            done = run(command, arguments)
            assert done.returncode == 0, (command, done.stderr)
        for command in client_commands().keys() - succeed.keys() - ELSEWHERE:
            default = "UNKNOWN" if command.startswith("machine ") else ""
            done = run(command, refused.get(command, default))
            assert done.returncode in {3, 4}, (command, done.stderr)
            assert "token" not in done.stderr or command == "token revoke", done.stderr


AZ = """#!/bin/sh
echo "$*" >> "$HOME/calls"
echo "$REQUESTS_CA_BUNDLE $AZURE_CONFIG_DIR" > "$HOME/environment"
echo '{"azure-cli": "2.80.0"}'
"""
"""An Azure CLI that records how it is called."""


def test_the_azure_cli_for_a_service_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is set up in the user's configuration folder, with the service's own CA."""
    (tmp_path / "az").write_text(AZ)
    (tmp_path / "az").chmod(0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with ServiceProcess(tmp_path / "data", "--memory", fleet=FLEET) as there:
        monkeypatch.setenv("FAIRWARNING_URL", there.ready["console"])
        monkeypatch.setenv("FAIRWARNING_TOKEN", there.ready["token"])
        done = run_command("az", "vm", "list")
        assert done.returncode == 0, done.stderr
        calls = (tmp_path / "calls").read_text().splitlines()
        assert any(
            call.endswith(f"--endpoint-resource-manager {there.ready['arm']}") for call in calls
        )
        assert calls[-1] == "vm list"
        ca, folder = (tmp_path / "environment").read_text().split()
        assert Path(ca).read_text() == Path(there.ready["ca"]).read_text()
        assert Path(folder).is_relative_to(tmp_path / "config")
        login = run_command("token", "create", "bob", "--role", "tenant", "--login")
        assert f"REQUESTS_CA_BUNDLE={ca}" in login.stdout


def test_a_token_file(tmp_path: Path) -> None:
    """The file is read by the command; without a token, or with a wrong one, it says what to do."""
    with ServiceProcess(tmp_path / "data", "--memory", fleet=FLEET) as there:
        url = there.ready["console"]
        token = tmp_path / "token"
        token.write_text(there.ready["token"] + "\n")
        done = run_command("clock", "show", "--server", url, "--token-file", str(token))
        assert done.returncode == 0, done.stderr
        none = run_command("clock", "show", "--server", url)
        assert none.returncode == 4
        assert "FAIRWARNING_TOKEN or --token-file" in none.stderr
        token.write_text("wrong")
        wrong = run_command("clock", "show", "--server", url, "--token-file", str(token))
        assert wrong.returncode == 4
        assert "fairwarning token create" in wrong.stderr


def test_a_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what named it, and how to name another."""
    monkeypatch.setenv("FAIRWARNING_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("FAIRWARNING_TOKEN", "x")
    done = run_command("machine", "list")
    assert done.returncode == 1
    assert "it is named by FAIRWARNING_URL" in done.stderr
    assert "--context NAME" in done.stderr


def test_a_redirect_does_not_get_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command fails, and says where the redirect leads."""
    monkeypatch.setenv("FAIRWARNING_TOKEN", "secret")
    with Receiver() as other, Receiver() as first:
        first.answer = lambda _: ReceiverResponse(302, {"Location": other.url})
        done = run_command("machine", "list", "--server", f"http://127.0.0.1:{first.port}")
    assert done.returncode == 1
    assert f"redirects to {other.url}" in done.stderr
    assert other.requests == []


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_warning_before_a_token_is_sent_unencrypted(
    host: str, monkeypatch: pytest.MonkeyPatch, *, warned: bool
) -> None:
    """To any host but this one; 0.0.0.0 is this one too, but not by its name."""
    monkeypatch.setenv("FAIRWARNING_TOKEN", "secret")
    with Receiver() as other:
        done = run_command("clock", "show", "--server", f"http://{host}:{other.port}")
    assert ("the token is sent unencrypted to" in done.stderr) is warned
