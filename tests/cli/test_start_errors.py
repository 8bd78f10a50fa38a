"""Errors when a service starts or is looked for: what to do next, and never a traceback."""

import socket
from pathlib import Path

import pytest

from fairwarning.cli.commands import healthcheck
from tests.fixtures.requirements import needs_ordinary_user
from tests.fixtures.service import FREE_PORTS, BackgroundCommand, ServiceProcess, run_command

pytestmark = pytest.mark.spec("O10", "O14")


@pytest.mark.parametrize("option", ["--metadata", "--console", "--arm"])
def test_a_port_in_use(tmp_path: Path, option: str) -> None:
    """The error names the option of that port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ports = [*FREE_PORTS]
        ports[ports.index(option) + 1] = address
        done = run_command("up", "--memory", "--data", str(tmp_path / "data"), *ports)
    assert done.returncode == 1
    assert f"cannot listen on {address}: Address already in use" in done.stderr
    assert f"choose another address with {option}; port 0 is any free one" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_waiting_for_a_service(tmp_path: Path) -> None:
    """`healthcheck --wait` ends well once the service is ready, and fails after its time."""
    data = tmp_path / "data"
    late = run_command("healthcheck", "--data", str(data), "--wait", "0.3")
    assert late.returncode == 1
    assert "no service is running" in late.stderr
    with BackgroundCommand("healthcheck", "--data", str(data), "--wait", "2m") as waiting:
        assert waiting.is_running()
        with ServiceProcess(data, "--memory"):
            assert waiting.wait()[:2] == (0, "The service is ready.\n")


@needs_ordinary_user
def test_a_folder_of_another_user(tmp_path: Path) -> None:
    """Every command says that it may not use the folder."""
    folder = tmp_path / "theirs"
    folder.mkdir(0)
    for words in (("up", *FREE_PORTS), ("machine", "list"), ("healthcheck",)):
        done = run_command(*words, "--data", str(folder))
        assert done.returncode != 0
        assert str(folder) in done.stderr
        assert "Traceback" not in done.stderr
    folder.chmod(0o700)


def test_a_health_check_does_not_wait_for_a_silent_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says after seconds that there was no answer."""
    monkeypatch.setattr(healthcheck, "_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run_command("healthcheck", "--server", url)
    assert done.returncode == 1
    assert f"Error: no answer from the service at {url} within " in done.stderr
