"""`fairwarning context`: named services in the user's configuration folder (O13)."""

import json
from pathlib import Path

import pytest

from fairwarning.server import contexts, hints
from fairwarning.server.contexts import NamedService
from tests.fixtures.http import free_port
from tests.fixtures.service import ServiceProcess, run_command

pytestmark = pytest.mark.spec("O13")

FLEET = '[[machine]]\nname = "vm"\n'


def token_file(folder: Path, text: str) -> tuple[str, str]:
    """Write a token; return the option that names it."""
    path = folder / "token"
    path.write_text(text)
    return ("--token-file", str(path))


def test_a_context_from_its_start_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is checked, stored with its token and CA, used by name or as the current one, removed."""
    monkeypatch.chdir(tmp_path)
    with ServiceProcess(tmp_path / "data", "--memory", "--tls", fleet=FLEET) as there:
        url, ca = there.ready["console"], Path(there.ready["ca"])
        copied = tmp_path / "copied.pem"
        copied.write_bytes(ca.read_bytes())
        words = ("context", "add", "prod", "--server", url, "--ca", str(copied))
        added = run_command(*words, input=there.ready["token"])
        assert added.returncode == 0, added.stderr
        assert f"{url}, Fairwarning" in added.stdout
        assert "as operator (operator) until" in added.stdout
        copied.unlink()
        by_name = run_command("machine", "list", "--context", "prod", "--json")
        assert json.loads(by_name.stdout)[0]["name"] == "vm"
        assert run_command("context", "use", "prod").returncode == 0
        current = run_command("machine", "restart", "vm")
        assert current.returncode == 0, current.stderr
        local = run_command("exec", "vm", "--", "true")
        assert (local.returncode, "the current context 'prod'" in local.stderr) == (2, True)
        listed = run_command("context", "list", "--json")
        assert json.loads(listed.stdout) == [{"name": "prod", "server": url, "current": True}]
        assert there.ready["token"] not in listed.stdout + run_command("context", "list").stdout
        removed = run_command("context", "remove", "prod")
        assert "No context is current." in removed.stdout
        assert contexts.read() == contexts.Contexts()


def test_a_context_that_does_not_work_is_not_stored(tmp_path: Path) -> None:
    """The error says why; `--no-check` stores it and says that it is not checked."""
    url = f"http://127.0.0.1:{free_port()}"
    words = ("context", "add", "lab", "--server", url, *token_file(tmp_path, "secret"))
    refused = run_command(*words)
    assert refused.returncode == 1
    assert "no answer from the service" in refused.stderr
    assert "The context lab is not stored; --no-check stores it anyway" in refused.stderr
    assert contexts.read().services == {}
    unchecked = run_command(*words, "--no-check")
    assert f"{url}, not checked" in unchecked.stdout
    assert contexts.read().services == {"lab": NamedService(url, "secret")}


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    """It is created so; a file that others can read is refused, with the command to fix it."""
    with contexts.changing() as stored:
        stored.services["lab"] = NamedService("http://lab:1", "secret")
    path = contexts.file_path()
    assert path.is_relative_to(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    done = run_command("context", "list")
    assert done.returncode == 4
    assert "chmod 600" in done.stderr


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"contexts": {"lab": {"server": 1}}}', '{"contexts": {}, "current": "lab"}'],
)
def test_a_broken_file(text: str) -> None:
    """The error names it and says what to do; a command with --data does not read it."""
    path = contexts.file_path()
    path.parent.mkdir(parents=True)
    path.touch(0o600)
    path.write_text(text)
    done = run_command("machine", "list")
    assert done.returncode == 4
    assert f"{path} is broken" in done.stderr
    assert "delete it and add the contexts again" in done.stderr
    assert run_command("machine", "list", "--data", "nowhere").returncode == 1


def test_an_unknown_context() -> None:
    """The error lists those that exist."""
    with contexts.changing() as stored:
        stored.services["lab"] = NamedService("http://lab:1", "secret")
    for words in (("context", "use", "x"), ("context", "remove", "x"), ("clock", "show")):
        done = run_command(*words, *(("--context", "x") if words == ("clock", "show") else ()))
        assert done.returncode == 3
        assert "there is no context 'x'; the contexts are: lab" in done.stderr


def test_a_new_token_for_a_context(tmp_path: Path) -> None:
    """`add` without --server keeps the URL and the CA."""
    with contexts.changing() as stored:
        stored.services["lab"] = NamedService("http://lab:1", "old", "the CA")
    words = ("context", "add", "lab", "--no-check", *token_file(tmp_path, "new"))
    assert run_command(*words).returncode == 0
    assert contexts.read().services["lab"] == NamedService("http://lab:1", "new", "the CA")


def test_up_names_its_folder_when_a_context_is_current(tmp_path: Path) -> None:
    """Commands that are printed for the default folder go there, and not to the context."""
    assert "--data" not in hints.command_line(Path(hints.DATA), "machine list")
    with contexts.changing() as stored:
        stored.services["lab"] = NamedService("http://lab:1", "secret")
        stored.current = "lab"
    assert "--data .fairwarning" in hints.command_line(Path(hints.DATA), "machine list")
    assert contexts.file_path().is_relative_to(tmp_path)
