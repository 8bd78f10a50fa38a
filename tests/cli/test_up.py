"""`fairwarning up`, as it is typed."""

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from tests.fixtures.endpoint import POLL_TARGET
from tests.fixtures.http import fetch
from tests.fixtures.service import FREE, BackgroundCommand, ServiceProcess, run_command

ONE = '[[machine]]\nname = "vm"\n'


@pytest.mark.spec("O2")
def test_one_line_tells_everything_and_every_machine_answers(tmp_path: Path) -> None:
    """`--json` prints one line when ready; each machine has an address of its own."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        machines = it.ready["machines"]
        assert list(machines) == [
            "web_0",
            "web_1",
            "web_2",
            "db_0",
            "db_1",
            "batch_0",
            "FrontEnd_IN_0",
        ]
        port = it.ready["metadata"].rpartition(":")[2]
        assert machines["web_0"] == f"http://127.1.0.1:{port}"
        assert len(set(machines.values())) == len(machines)
        for machine in machines:
            assert it.poll(machine) == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.spec("O2")
def test_it_stops_cleanly_and_memory_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C ends it with 0 and no complaint; `--memory` keeps nothing."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        it.poll("db_0")
        fetch(f"{it.ready['console']}/healthz")
        assert it.stop() == (0, "")
    assert not (tmp_path / "data").exists()


def test_memory_takes_nothing_of_others_with_it(tmp_path: Path) -> None:
    """In a folder that was there before, and beside files that came meanwhile, only ours go."""
    (tmp_path / "home" / "machines").mkdir(parents=True)
    (tmp_path / "home" / "machines" / "mine").write_text("precious")
    with ServiceProcess(tmp_path / "home", "--demo", "--memory") as it:
        assert it.stop()[0] == 0
    assert (tmp_path / "home" / "machines" / "mine").read_text() == "precious"
    with ServiceProcess(tmp_path / "new", "--demo", "--memory") as it:
        (tmp_path / "new" / "mine").write_text("precious")
        assert it.stop()[0] == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]


@pytest.mark.spec("O2")
def test_what_was_there_is_there_again(tmp_path: Path) -> None:
    """The embedded store keeps the fleet, its addresses and its documents; the file adds to it."""
    data = tmp_path / "data"
    with ServiceProcess(data, fleet=ONE) as it:
        before = urlless(it.ready["machines"]["vm"])
        it.poll("vm")
        assert it.stop()[0] == 0
    with ServiceProcess(data, fleet='[[machine]]\nname = "more"\n' + ONE) as it:
        assert list(it.ready["machines"]) == ["vm", "more"]
        assert urlless(it.ready["machines"]["vm"]) == before
        assert it.poll("vm") == {"DocumentIncarnation": 1, "Events": []}


def urlless(url: str) -> str:
    """The address in it; ports differ from run to run."""
    return url.removeprefix("http://").partition(":")[0]


def test_killed_it_starts_again(tmp_path: Path) -> None:
    """What a kill -9 leaves (sockets, notes, locks) does not stand in the way."""
    data = tmp_path / "data"
    with ServiceProcess(data, fleet=ONE) as it:
        it.kill()
        assert (data / "up.json").exists()
    with ServiceProcess(data) as it:
        assert it.poll("vm")["DocumentIncarnation"] == 1


@pytest.mark.spec("E9")
def test_an_answered_approval_survives_a_kill(tmp_path: Path) -> None:
    """200 means durable: killed right after it, the service comes back with the event started."""
    data = tmp_path / "data"
    with ServiceProcess(data, fleet=ONE) as it:
        it.poll("vm")
        it.run("machine", "restart", "vm")
        (event,) = it.poll("vm")["Events"]
        it.approve("vm", event["EventId"])
        it.kill()
    with ServiceProcess(data) as it:
        (started,) = it.poll("vm")["Events"]
        assert (started["EventId"], started["EventStatus"]) == (event["EventId"], "Started")


@pytest.mark.spec("M17", "M22")
def test_a_host_run_tells_guests_apart_by_their_addresses(tmp_path: Path) -> None:
    """On an address that is not loopback: by the fleet file's addresses, and with a rate limit."""
    guest = '[[machine]]\nname = "guest"\naddress = "127.0.0.1"\n'
    with ServiceProcess(tmp_path / "data", "--memory", fleet=guest, metadata="0.0.0.0:0") as it:
        statuses = [it.get("guest").status for _ in range(30)]
        assert statuses[:10] == [200] * 10
        assert 429 in statuses
        url = f"{it.ready['metadata']}{POLL_TARGET}"
        assert fetch(url, headers={"Metadata": "true"}, source="127.0.0.9").status == 404


def test_its_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """Nobody else can read the data, nor reach the control socket (IS3)."""
    with ServiceProcess(tmp_path / "data", fleet=ONE):
        data = tmp_path / "data"
        for path in {data, *data.iterdir()} - {data / "ca.pem"}:  # which clients are given
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """It says what to do, and the first goes on."""
    with ServiceProcess(tmp_path / "data", "--memory", fleet=ONE) as it:
        for more in ((), ("--memory",)):
            other = run_command("up", "--data", str(tmp_path / "data"), *more)
            assert other.returncode == 1
            assert "already; stop it, or name another folder with --data" in other.stderr
        assert it.poll("vm")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """The error names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = run_command(
            "up", "--memory", "--data", str(tmp_path / "d"), "--console", f"127.0.0.1:{port}"
        )
    assert answer.returncode == 1
    assert f"Error: cannot listen on 127.0.0.1:{port}: Address already in use" in answer.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["nowhere.toml"], 1, "cannot read nowhere.toml"),
        (["bad.toml"], 1, "bad.toml: there is no key 'machines'; did you mean machine?"),
        (["--demo", "bad.toml"], 2, "not both"),
        (["--metadata", "8169"], 2, "'8169' is not HOST:PORT, such as 127.0.0.1:8169"),
        (["--metadata", "127.0.0.1:99999"], 2, "is not HOST:PORT"),
        (["--clock", "fast"], 2, "'real', 'virtual'"),
        (["--nonsense"], 2, "No such option"),
        (["--workers", "2"], 2, "--workers needs a database they share: --data postgresql://..."),
        (["--workers", "0"], 2, "range 1<=x<=256"),
        (["--data", "postgresql://x", "--memory"], 2, "leave --memory or --data out"),
        (["--data", "postgresql://x", "--clock", "virtual"], 2, "virtual time is for one process"),
        (["--data", "postgresql://%zz"], 1, "this is not a postgresql:// URL"),
    ],
)
def test_wrong_words(tmp_path: Path, words: list[str], code: int, says: str) -> None:
    """A sentence that says what is allowed, an exit code, and no traceback."""
    (tmp_path / "bad.toml").write_text("[machines]\n")
    answer = run_command("up", *words, cwd=tmp_path)
    assert answer.returncode == code
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / ".fairwarning").exists()


def test_a_unix_socket_for_each_machine(tmp_path: Path) -> None:
    """With `--sockets`, each machine has one, named after it, and it is gone afterwards (M22)."""
    sockets = tmp_path / "s"
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--sockets", str(sockets)) as it:
        assert len(list(sockets.iterdir())) == len(it.ready["machines"])
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.fspath(sockets / "db_1.sock"))
            client.sendall(
                b"GET /metadata/instance/compute/name?api-version=2021-02-01&format=text "
                b"HTTP/1.0\r\nMetadata: true\r\n\r\n"
            )
            assert client.makefile("rb").read().endswith(b"\r\n\r\ndb_1")
        assert it.stop()[0] == 0
    assert list(sockets.iterdir()) == []


@pytest.mark.spec("O10")
def test_health_readiness_and_metrics(tmp_path: Path) -> None:
    """The console answers them without a token; `healthcheck` asks for you."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as it:
        console = it.ready["console"]
        it.poll("db_0")
        it.get("db_0", "/wrong")
        for path in ("/healthz", "/readyz"):
            response = fetch(f"{console}{path}")
            assert (response.status, response.body) == (200, b'{"status":"ok"}')
        response = fetch(f"{console}/metrics")
        assert response.status == 200
        lines = response.text.splitlines()
        assert "fairwarning_polls_total 1.0" in lines
        assert 'fairwarning_refused_total{reason="path"} 1.0' in lines
        healthy = it.run("healthcheck")
        assert (healthy.returncode, healthy.stderr) == (0, "")
    killed = run_command("healthcheck", "--data", str(tmp_path / "data"))
    never = run_command("healthcheck", "--data", str(tmp_path / "never"))
    for answer in (killed, never):
        assert answer.returncode == 1
        assert "start one with `fairwarning up`" in answer.stderr


@pytest.mark.spec("O10")
def test_logs_are_json_when_asked_for(tmp_path: Path) -> None:
    """Every line on stderr is an object with time, level and message."""
    long = tmp_path / ("deep" * 30)  # too long for a socket's name, so there is something to log
    with ServiceProcess(tmp_path / "data", "--demo", "--memory", "--sockets", str(long)) as it:
        code, said = it.stop()
    assert code == 0
    lines = [json.loads(line) for line in said.splitlines()]
    assert lines
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)


@pytest.mark.spec("O1")
def test_people_are_told_what_to_try(tmp_path: Path) -> None:
    """Without `--json`: the machines, and lines to copy that work."""
    words = ["up", "--demo", "--memory", "--data", str(tmp_path / "d")]
    words += ["--metadata", FREE, "--console", FREE, "--arm", FREE]
    with BackgroundCommand(*words) as command:
        lines = command.read_until("Ctrl-C")
        code, rest, _ = command.interrupt()
    assert code == 0
    assert lines[0] == "Fairwarning is up: 4 groups of machines created, 0 kept."
    assert any(line.startswith("  web_0          http://127.1.0.1:") for line in lines)
    assert any(line.startswith("  curl -H Metadata:true ") for line in lines)
    assert max(map(len, lines)) <= 100
    assert rest == "Stopped. Nothing is kept.\n"
