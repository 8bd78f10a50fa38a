"""The command `fairwarning up`: its start, its stop, its folder and its log."""

import json
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.endpoint import POLL_TARGET, raw_request, read_all
from tests.fixtures.files import short_folder
from tests.fixtures.http import fetch
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.service import FREE_PORTS, BackgroundCommand, ServiceProcess, run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

pytestmark = pytest.mark.up("--sample", "--memory")

COMMAND = '[[machine]]\nname = "vm"\n[driver]\nkind = "command"\nprogram = ["true"]\n'
RANGE = "is not FIRST-LAST or FIRST-, such as 8200-9199"
ONE = '[[machine]]\nname = "vm"\n'


@pytest.mark.spec("O2")
def test_the_json_line_has_the_address_of_every_machine(service: ServiceProcess) -> None:
    """`--json` prints one line when ready; each machine has its own address."""
    machines = service.ready["machines"]
    assert list(machines) == ["web_0", "web_1", "web_2", "db_0", "db_1", "batch_0", "FrontEnd_IN_0"]
    port = service.ready["metadata"].rpartition(":")[2]
    assert machines["web_0"] == f"http://127.1.0.1:{port}"
    assert len(set(machines.values())) == len(machines)
    for machine in machines:
        assert service.poll(machine) == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.spec("O2")
def test_it_stops_cleanly_and_memory_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C stops it with exit code 0 and no output; with `--memory` its folder is removed."""
    with ServiceProcess(tmp_path / "data", "--memory", fleet=COMMAND, fork=False) as service:
        service.ok("POST", "/api/machines/vm/restart", {})
        wait_until(lambda: list((tmp_path / "data" / "impacts").glob("*/*")), "it is recorded")
        fetch(f"{service.ready['console']}/healthz")
        assert service.stop() == (0, "")
    assert not (tmp_path / "data").exists()


def test_memory_removes_only_its_own_files(tmp_path: Path) -> None:
    """It keeps a folder that existed before, and files that were added meanwhile."""
    (tmp_path / "home" / "machines").mkdir(parents=True)
    (tmp_path / "home" / "machines" / "mine").write_text("precious")
    with ServiceProcess(tmp_path / "home", "--sample", "--memory") as service:
        assert service.stop()[0] == 0
    assert (tmp_path / "home" / "machines" / "mine").read_text() == "precious"
    with ServiceProcess(tmp_path / "new", "--sample", "--memory") as service:
        (tmp_path / "new" / "mine").write_text("precious")
        assert service.stop()[0] == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]


@pytest.mark.spec("O2")
def test_a_restart_keeps_the_fleet(tmp_path: Path) -> None:
    """The store keeps machines, addresses and documents; the fleet file adds to them."""
    data = tmp_path / "data"
    with ServiceProcess(data, fleet=ONE) as service:
        before = address(service.ready["machines"]["vm"])
        service.poll("vm")
        assert service.stop()[0] == 0
    with ServiceProcess(data, fleet='[[machine]]\nname = "more"\n' + ONE) as service:
        assert list(service.ready["machines"]) == ["vm", "more"]
        assert address(service.ready["machines"]["vm"]) == before
        assert service.poll("vm") == {"DocumentIncarnation": 1, "Events": []}


def test_an_edited_fleet_file_changes_nothing_that_exists(tmp_path: Path) -> None:
    """The second start says so, and how to change it."""
    file = tmp_path / "fleet.toml"
    words = ("--data", str(tmp_path / "data"), *FREE_PORTS)
    text: dict[int, str] = {}
    for count in (1, 2):
        file.write_text(f'[[scale_set]]\nname = "web"\ncapacity = {count}\n')
        with BackgroundCommand("up", str(file), *words) as up:
            text[count] = "\n".join(up.read_until("Ctrl-C"))
            up.interrupt()
    assert "Created 1 machine in 1 scope" in text[1]
    assert "1 already existed.\nThe file does not change what exists. To change it" in text[2]
    assert f"fairwarning set scale --data {tmp_path / 'data'} NAME CAPACITY`" in text[2]


def address(url: str) -> str:
    """Return the address in a URL; ports differ from run to run."""
    return url.removeprefix("http://").partition(":")[0]


@pytest.mark.spec("M17", "M22")
def test_machines_are_identified_by_source_address(tmp_path: Path) -> None:
    """Without loopback, the fleet file gives the addresses, and there is a rate limit."""
    guest = '[[machine]]\nname = "guest"\naddress = "127.0.0.1"\n'
    with ServiceProcess(
        tmp_path / "data", "--memory", fleet=guest, metadata="0.0.0.0:0"
    ) as service:
        statuses = [service.get("guest").status for _ in range(30)]
        assert statuses[:10] == [200] * 10
        assert 429 in statuses
        url = f"{service.ready['metadata']}{POLL_TARGET}"
        assert fetch(url, headers={"Metadata": "true"}, source="127.0.0.9").status == 404


def test_only_the_owner_can_access_the_folder(tmp_path: Path) -> None:
    """Other users can neither read the data nor use the control socket (IS3)."""
    with ServiceProcess(tmp_path / "data", fleet=ONE):
        data = tmp_path / "data"
        for path in {data, *data.iterdir()} - {data / "ca.pem"}:  # which clients may read
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.spec("O2")
@pytest.mark.parametrize("memory", [(), ("--memory",)], ids=["kept", "memory"])
def test_a_second_service_in_the_same_folder_is_refused(
    tmp_path: Path, memory: tuple[str, ...]
) -> None:
    """The error says what to do; it removes nothing that belongs to the service that runs."""
    with ServiceProcess(tmp_path / "data", *memory, fleet=ONE) as service:
        for more in ((), ("--memory",)):
            refused = run_command("up", "--data", str(tmp_path / "data"), *more)
            assert refused.returncode == 1
            assert "is already running in" in refused.stderr
            assert "stop it, or use another --data folder" in refused.stderr
            assert "ERROR" not in refused.stderr  # about anything else
        assert [machine["name"] for machine in service.json("machine", "list")] == ["vm"]
        assert service.run("healthcheck").returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere.toml"], 1, "cannot read nowhere.toml: No such file or directory\n"),
        (["bad.toml"], 1, "bad.toml: there is no key 'machines'; did you mean machine?"),
        (["--demo", "bad.toml"], 2, "a fleet file cannot be used with --demo or --sample"),
        (["--demo", "--sample"], 2, "omit --demo or --sample"),
        (["--metadata", "8169"], 2, "'8169' is not HOST:PORT, such as 127.0.0.1:8169"),
        (["--metadata", "127.0.0.1:99999"], 2, "is not HOST:PORT"),
        (["--clock", "fast"], 2, "'real', 'virtual'"),
        (["--nonsense"], 2, "No such option"),
        (["--workers", "2"], 2, "--workers needs a shared database: --data postgresql://..."),
        (["--workers", "0"], 2, "range 1<=x<=256"),
        (["--data", "postgresql://x", "--memory"], 2, "omit --memory or --data"),
        (["--data", "postgresql://x", "--clock", "virtual"], 2, "use a data folder or --memory"),
        *((["--machine-ports", ports], 2, RANGE) for ports in ("8200", "x-", "0-5", "9-8", "-")),
        (["--machine-ports", "8200-70000"], 2, RANGE),
        (["--data", "postgresql://%zz"], 1, "this is not a postgresql:// URL"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: list[str], code: int, message: str) -> None:
    """The error says what is allowed, without a traceback."""
    (tmp_path / "bad.toml").write_text("[machines]\n")
    done = run_command("up", *words, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".fairwarning").exists()


@pytest.mark.spec("O10")
def test_json_logs(tmp_path: Path) -> None:
    """With `--json`, every line on stderr is an object with time, level and message."""
    long = tmp_path / ("deep" * 30)  # too long for a socket path, which logs a warning
    with ServiceProcess(
        tmp_path / "data", "--sample", "--memory", "--sockets", str(long)
    ) as service:
        code, log = service.stop()
    assert code == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)


@pytest.mark.spec("M22", "O2", "O12")
def test_a_default_machine_that_does_not_exist(tmp_path: Path) -> None:
    """The service starts, because the machine may be created later, and warns."""
    words = ("--demo", "--memory", "--default-machine", "nobody")
    with ServiceProcess(tmp_path / "d", *words) as service:
        assert (
            "There is no machine 'nobody'"
            in fetch(service.ready["metadata"] + POLL_TARGET, headers={"Metadata": "true"}).text
        )
        _, log = service.stop()
    assert "no default machine: there is no machine 'nobody'" in log


# --- A stop while requests are held ---------------------------------------------------------------

LONG_POLL = f"{POLL_TARGET}&wait=300"
TAG = 'If-None-Match: "1"'

# Sends a long poll from inside a machine, and prints the status.
INSIDE = """
import http.client, sys
connection = http.client.HTTPConnection("169.254.169.254")
connection.request("GET", sys.argv[1], headers={"Metadata": "true", "If-None-Match": '"1"'})
print(connection.getresponse().status)
"""


def wait_until_held(service: ServiceProcess) -> None:
    """Return once the service holds a long poll."""
    pattern = re.compile(r"^fairwarning_long_polls_held 1(\.0)?$", re.MULTILINE)
    wait_until(
        lambda: pattern.search(fetch(f"{service.ready['console']}/metrics").text),
        "the service holds the long poll",
    )


@pytest.mark.spec("M18", "M22")
def test_a_stop_answers_on_the_socket_of_a_machine(tmp_path: Path) -> None:
    """A held request on a machine's Unix socket is answered before the socket is removed."""
    words = ("--sample", "--memory", "--sockets")
    with (
        short_folder() as folder,
        ServiceProcess(tmp_path / "data", *words, str(folder)) as service,
    ):
        service.poll("db_0")
        assert len(list(folder.iterdir())) == len(service.ready["machines"])
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LIMIT_SECONDS)
            client.connect(str(folder / "db_0.sock"))
            client.sendall(raw_request(LONG_POLL, TAG))
            wait_until_held(service)
            assert service.stop() == (0, "")
            assert read_all(client).startswith(b"HTTP/1.1 304 ")
        assert list(folder.iterdir()) == []


@pytest.mark.spec("M18", "O3")
@needs_namespaces
def test_a_stop_answers_inside_a_machine(service: ServiceProcess) -> None:
    """A held request of a program under `exec` is answered before the program is disconnected."""
    service.poll("db_0")
    command = service.inside("db_0", sys.executable, "-c", INSIDE, LONG_POLL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        wait_until_held(service)
        assert service.stop() == (0, "")
        assert program.communicate(timeout=LIMIT_SECONDS)[0] == "304\n"
