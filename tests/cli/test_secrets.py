"""No connection URL and no password in any text or process list (IS3)."""

import asyncio
import json
import os
import socket
from pathlib import Path
from threading import Thread

import pytest

from fairwarning.core.errors import FairwarningError
from fairwarning.server.options import store_at
from fairwarning.service.config.settings import ClusterSettings
from tests.cli.test_workers import FLEET, workers
from tests.fixtures.http import fetch
from tests.fixtures.postgres.database import skip_without_postgres
from tests.fixtures.postgres.server import Server
from tests.fixtures.service import FREE_PORTS, ServiceProcess, run_command
from tests.fixtures.waiting import wait_until

SECRET = "Zebra77"
SOON_STALE = "[cluster]\nstaleness_seconds = 2\n"
CLOSED = "127.0.0.1:1"
MALFORMED = [
    f"postgresql://u:{SECRET}%zz@{CLOSED}/x",
    f"postgresql://u:100%{SECRET}@{CLOSED}/x",
    f"postgresql://u:%00{SECRET}@{CLOSED}/x",
    f"postgresql://u:%ff{SECRET}@{CLOSED}/x",
    f"postgresql://u:a {SECRET}@{CLOSED}/x",
    f"postgresql://u:{SECRET}/b@{CLOSED}/x",
    f"postgresql://u:a/{SECRET}@{CLOSED}/x",
    f"postgresql://u:a@{SECRET}@{CLOSED}/x",
    f"postgresql://u:a@{SECRET * 20}@{CLOSED}/x",
    f"postgresql://u:a?{SECRET}@{CLOSED}/x",
    f"postgresql://u:a#{SECRET}@{CLOSED}/x",
    f"postgresql://u:{SECRET}@[::1/x",
    f"postgresql://u:{SECRET}\n@{CLOSED}/x",
    f"postgresql://u:{SECRET}@{CLOSED}:{CLOSED}/x",
    f"postgresql://u:a@{CLOSED}{SECRET}/x",
    f"postgresql://{CLOSED}/x?password={SECRET}&y",
    f"postgresql://{CLOSED}/x?{SECRET}=1",
    f"postgresql://{CLOSED}/x?sslmode={SECRET}",
    f"postgresql://{CLOSED}/x?service={SECRET}",
    f"postgresql://{CLOSED}/x?target_session_attrs={SECRET}",
    f"postgresql://{CLOSED}/x?connect_timeout={SECRET}",
    f"postgresql://u:{SECRET}@{CLOSED}/x",
    f"postgresql://u:{SECRET}@/x?host=/nowhere",
    f"postgresql://u:{SECRET}@{CLOSED}/x?sslmode=verify-full&sslrootcert=/nowhere",
    f"postgresql://u:{SECRET}@{CLOSED},{CLOSED}/x?hostaddr=127.0.0.1",
]
ELSEWHERE = [
    f"POSTGRESQL://u:{SECRET}@h/x",
    f" postgresql://u:{SECRET}@h/x",
    f'"postgresql://u:{SECRET}@h/x"',
    f"postgresql:/u:{SECRET}@h/x",
    f"jdbc:postgresql://h/x?password={SECRET}",
    f"mysql://u:{SECRET}@h/x",
    f"host=h user=u password={SECRET}",
]
URL = f"postgresql://u:{SECRET}@h/x"


@pytest.mark.parametrize("url", MALFORMED)
def test_a_url_that_cannot_be_used(tmp_path: Path, url: str) -> None:
    """The error is one sentence with the next step, and without any part of the URL."""
    done = run_command("up", *FREE_PORTS, "--data", url, "--run", str(tmp_path), "--json")
    assert done.returncode == 1
    assert SECRET not in done.stdout + done.stderr
    error = done.stderr.rstrip("\n").rpartition("\n")[2]
    assert error.startswith(("Error: the database failed: connection", "Error: this is not a"))
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("*.json")) == []


def test_a_url_that_is_not_text(tmp_path: Path) -> None:
    """Bytes of the environment that are no UTF-8 are refused like any malformed URL."""
    url = f"postgresql://u:{SECRET}\udcff@{CLOSED}/x"
    env = os.environ | {"FAIRWARNING_DATA": url}
    done = run_command("up", *FREE_PORTS, "--run", str(tmp_path), env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: this is not a postgresql:// URL")
    assert SECRET not in done.stderr


@pytest.mark.parametrize("data", ELSEWHERE)
def test_a_url_that_is_taken_for_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    """It is refused, and no folder with this name is created."""
    monkeypatch.chdir(tmp_path)
    done = run_command("up", "--data", data)
    assert done.returncode == 2
    assert "neither a folder nor a URL that starts with postgresql://" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("up", URL),
        ("up", "fleet.toml", URL),
        ("up", "--metadata", URL),
        ("up", "--workers", URL),
        ("up", "--clock", URL),
        ("up", f"--database={URL}"),
        ("up", "--dta", URL),
        ("healthcheck", "--data", URL),
        ("machine", "list", "--data", URL),
        ("machine", "list", "--data", f"host=h password={SECRET}"),
        ("machine", "list", URL),
    ],
)
def test_a_url_in_the_wrong_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The error of the command line does not repeat it."""
    monkeypatch.chdir(tmp_path)
    done = run_command(*words)
    assert done.returncode == 2, done.stderr
    assert SECRET not in done.stdout + done.stderr


def refuse_logins(listener: socket.socket, answer: bytes) -> None:
    """Answer connections as a server that quotes what it was sent."""
    while True:
        try:
            connection = listener.accept()[0]
        except OSError:
            return
        with connection:
            connection.recv(8192)
            connection.sendall(answer)


@pytest.mark.parametrize("text", [f"no entry for {SECRET}", f"password {SECRET} is wrong", ""])
def test_a_server_that_quotes_the_password(text: str) -> None:
    """Neither the error nor what caused it repeats the texts of a failed login."""
    fields = b"SFATAL\0C28P01\0M" + text.encode() + b"\0\0"
    answer = b"E" + (len(fields) + 4).to_bytes(4) + fields
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=refuse_logins, args=(listener, answer), daemon=True).start()
        port = listener.getsockname()[1]
        url = f"postgresql://u:{SECRET}@127.0.0.1:{port}/x?sslmode=disable&gssencmode=disable"
        with pytest.raises(FairwarningError) as failed:
            asyncio.run(store_at(url, ClusterSettings()).open())
        listener.shutdown(socket.SHUT_RDWR)
    assert "the database failed: connection" in failed.value.message
    assert SECRET not in repr(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__


def _failure(service: ServiceProcess, *words: str) -> str:
    """Run a command; return its error, or nothing if it succeeded."""
    done = service.run(*words)
    return done.stderr if done.returncode == 1 else ""


@pytest.mark.spec("O10", "X1")
def test_a_running_service_with_a_password(tmp_path: Path) -> None:
    """Neither `up.json`, nor health, metrics, logs or command lines contain it, even in trouble."""
    skip_without_postgres()
    run = tmp_path / "run"
    texts = []
    with Server(durable=False) as server:
        url = server.database().replace("postgres@", f"postgres:{SECRET}@")
        env = os.environ | {"FAIRWARNING_DATA": url}
        with ServiceProcess(run, "--workers", "2", fleet=FLEET + SOON_STALE, env=env) as service:
            console = service.ready["console"]
            texts += [json.dumps(service.ready), (run / "up.json").read_text()]
            for worker in [service.process.pid, *workers(service.process.pid)]:
                texts.append(Path(f"/proc/{worker}/cmdline").read_text())
            server.stop("immediate")
            wait_until(lambda: fetch(f"{console}/readyz").status == 503, "the failure is noticed")
            texts += [fetch(f"{console}/{path}").text for path in ("readyz", "healthz", "metrics")]
            # Each worker notices the failure at its own time.
            texts.append(wait_until(lambda: _failure(service, "healthcheck"), "it is unhealthy"))
            refusal = service.api("POST", "/api/machines/web_0/restart")
            assert refusal.status == 503
            texts.append(refusal.text)
            texts.append(service.stop()[1])
    assert not [text for text in texts if SECRET in text or str(server.port) in text]


@pytest.mark.campaign
def test_a_password_on_the_command_line(tmp_path: Path) -> None:
    """A warning says what to use instead; the workers' command lines do not repeat the URL."""
    skip_without_postgres()
    with Server(durable=False) as server:
        url = server.database().replace("postgres@", f"postgres:{SECRET}@")
        with ServiceProcess(tmp_path / "run", "--workers", "2", database=url) as service:
            for worker in workers(service.process.pid):
                assert url not in Path(f"/proc/{worker}/cmdline").read_text()
            log = service.stop()[1]
    assert SECRET not in log
    assert log.count("every user of this host can read the password of --data") == 1
