"""What all `list` commands share: filters, order, columns, output forms, every row in a pipe."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import run_on_terminal
from tests.cli.test_manners import complete
from tests.fixtures.service import ServiceProcess, run_command

pytestmark = pytest.mark.spec("O14")

FLEET = """
[[scale_set]]
name = "web"
capacity = 12
terminate_notice = "PT5M"

[[machine]]
name = "a"
count = 1000

[[machine]]
name = "b"
count = 201
"""
MACHINES = 1213
LIST_COMMANDS = (
    *("machine", "event", "set", "rollout", "operation", "token"),
    *("fault", "webhook", "bug", "context", "scenario"),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with many machines; `web_3` has been restarted, with notice."""
    data = tmp_path_factory.mktemp("lists") / "data"
    with ServiceProcess(data, "--clock", "virtual", fleet=FLEET) as started:
        started.poll("web_0")
        started.json("machine", "restart", "web_3", "web_11")
        started.json("machine", "stop", "a_7")
        started.advance(60)
        yield started


def on_terminal(service: ServiceProcess, *words: str) -> str:
    """The output of a command on a terminal."""
    code, output = run_on_terminal(service.command(*words))
    assert code == 0, output
    return output


def names(service: ServiceProcess, *words: str) -> list[str]:
    """The first column of a list."""
    done = service.run(*words, "-o", "name")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_pipe_gets_every_row(service: ServiceProcess) -> None:
    """Each on a line of its own, under a line with headings."""
    lines = service.run("machine", "list").stdout.splitlines()
    assert lines[0].split() == ["machine", "scope", "power", "url", "schedule"]
    assert len(lines) == 1 + MACHINES
    assert len(set(names(service, "machine", "list"))) == MACHINES


def test_a_terminal_gets_the_first_rows_and_the_number_of_all(service: ServiceProcess) -> None:
    """`--all` shows every row, `--limit` as many as asked for."""
    shown = on_terminal(service, "machine", "list").splitlines()
    assert "200 of 1,213 machines; --all shows every one." in shown[-1]
    assert len(on_terminal(service, "machine", "list", "--all").splitlines()) > MACHINES
    assert "2 of 1,213 machines." in on_terminal(service, "machine", "list", "--limit", "2")


FILTERS = [
    (("--set", "web"), 12),
    (("--scope", "a_1"), 1),
    (("--power", "stopped"), 1),
    (("--power", "running", "--text", "A_7"), 110),
    (("--not-polled",), MACHINES - 12),
    (("--type", "reboot"), 2),
    (("--type", "Reboot", "--status", "Started"), 0),
    (("--set", "web", "--not-polled"), 0),
]


@pytest.mark.parametrize(("options", "count"), FILTERS)
def test_filters_of_machines(service: ServiceProcess, options: tuple[str, ...], count: int) -> None:
    """The service applies them; all must hold."""
    assert len(names(service, "machine", "list", *options)) == count


def test_completion_of_names_in_a_large_fleet(service: ServiceProcess) -> None:
    """Names that are not among the first thousand are completed too."""
    assert complete(service.data, "machine", "show", "b_20") == ["b_20", "b_200"]
    assert complete(service.data, "event", "list", "--scope", "b_20") == ["b_20", "b_200"]


def test_watch_in_a_pipe(service: ServiceProcess) -> None:
    """No row is folded or cut, although it is wider than a terminal."""
    words = ("machine", "list", "--set", "web", "-o", "wide", "--watch")
    with service.start_command(*words) as watching:
        (row,) = [line for line in watching.read_until("web_4") if line.startswith("web_3 ")]
        assert watching.interrupt()[0] == 0
    wide = service.run(*words[:-1]).stdout.splitlines()
    assert row in wide
    assert len(row) > 120


def test_characters_that_look_like_digits_and_line_ends(tmp_path: Path) -> None:
    """A list sorts names with a superscript; only a line feed ends a line of CSV."""
    with ServiceProcess(tmp_path / "data", "--memory") as service:
        for name in ("\N{SUPERSCRIPT TWO}", "10", "9"):
            service.json("machine", "create", name)
        assert names(service, "machine", "list", "--sort", "machine") == ["9", "10", "²"]
        service.json("token", "create", "ann", "--role", "tenant", "--group", "a\u2028b")
        table = service.run("token", "list", "--columns", "holder,use", "-o", "csv").stdout
    assert "\nann (tenant in a\u2028b),api\n" in table


def test_filters_of_events(service: ServiceProcess) -> None:
    """By machine, set, type, source, approval and text."""
    both = names(service, "event", "list")
    assert len(both) == 2
    one = names(service, "event", "list", "--machine", "web_3")
    assert len(one) == 1
    for options in (("--set", "web"), ("--unapproved",), ("--source", "user"), ("--text", "WEB_")):
        assert sorted(names(service, "event", "list", *options)) == sorted(both)
    for options in (("--not-polled",), ("--type", "Freeze"), ("--over",)):
        assert names(service, "event", "list", *options) == []
    assert names(service, "event", "list", "--over", "--rollout", "none") == []


def test_events_that_are_over(tmp_path: Path) -> None:
    """`--over` lists them from the journal, newest first."""
    with ServiceProcess(tmp_path / "data", "--sample", "--clock", "virtual") as service:
        service.poll("db_0")
        for machine in ("db_0", "db_1"):
            service.json("machine", "restart", machine)
            service.advance(3600)
        over = service.json("event", "list", "--over")
        assert [event["resources"] for event in over] == [["db_1"], ["db_0"]]
        assert {event["status"] for event in over} == {"Over"}
        assert service.json("event", "list", "--over", "--machine", "db_0") == over[1:]
        assert service.json("event", "list", "--over", "--limit", "1") == over[:1]
        kinds = [operation["kind"] for operation in service.json("operation", "list")]
        assert kinds == ["Restart", "Restart"]
        assert service.json("operation", "list", "--status", "inprogress") == []


def test_output_forms(service: ServiceProcess) -> None:
    """JSON, JSON lines, CSV and names have the same machines; columns can be chosen."""
    listed = service.json("machine", "list", "--set", "web")
    lines = service.run("machine", "list", "--set", "web", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == listed
    table = service.run("machine", "list", "--set", "web", "-o", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["machine"] for row in rows] == [machine["name"] for machine in listed]
    assert {row["set"] for row in rows} == {"web"}
    two = service.run(
        "machine", "list", "--scope", "a_7", "--columns", "power,machine", "-o", "csv"
    )
    assert two.stdout == "power,machine\nstopped,a_7\n"
    wide = service.run("machine", "list", "--scope", "a_7", "-o", "wide").stdout
    assert wide.splitlines()[0].split()[5:] == [
        *("polled", "set", "domain", "address", "host"),
        *("priority", "size", "zone", "group", "number"),
    ]


def test_order(service: ServiceProcess) -> None:
    """Numbers in names count as numbers; a minus reverses."""
    web = [f"web_{number}" for number in range(12)]
    assert names(service, "machine", "list", "--set", "web", "--sort", "machine") == web
    options = ("--set", "web", "--sort", "-machine", "--limit", "3")
    assert names(service, "machine", "list", *options) == web[:-4:-1]


def test_abbreviated_ids(tmp_path: Path) -> None:
    """Of operations, rollouts and tokens as well as of events."""
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        operation = service.json("machine", "stop", "db_0")[0]["operation"]["id"]
        assert service.json("operation", "show", operation[:6])["id"] == operation
        assert service.json("operation", "explain", operation[:6])["id"] == operation
        for machine, key in (("db_1", "K1"), ("batch_0", "K10")):
            path, headers = f"/api/machines/{machine}/restart", {"Idempotency-Key": key}
            assert service.api("POST", path, {}, headers=headers).status == 202
        assert service.json("operation", "show", "K1")["id"] == "K1"
        short = service.run("operation", "show", "K")
        assert short.returncode == 2
        assert "give at least 4 characters" in short.stderr
        service.json("rollout", "start", "web/0", "--id", "autumn-update")
        assert service.json("rollout", "status", "autumn")["id"] == "autumn-update"
        assert service.json("rollout", "pause", "autumn")["status"] == "Paused"
        token = service.json("token", "create", "ci", "--role", "reader")["id"]
        assert service.json("token", "revoke", token[:8])[0]["id"] == token


@pytest.mark.parametrize("noun", LIST_COMMANDS)
def test_every_list_has_the_same_forms(service: ServiceProcess, noun: str) -> None:
    """-o, --limit and --all work everywhere; what is for people goes to stderr."""
    service.run("fault", "set", "500", "--machine", "web_0")
    words = [] if noun in {"context", "scenario"} else ["--data", str(service.data)]

    def run(*options: str) -> tuple[str, str]:
        done = run_command(noun, "list", *words, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    listed = json.loads(run("--json")[0])
    assert len(run("-o", "csv")[0].splitlines()) == len(listed) + 1
    assert [json.loads(line) for line in run("-o", "jsonl")[0].splitlines()] == listed
    assert len(run("-o", "name", "--all")[0].splitlines()) == len(listed)
    output, errors = run("-o", "wide", "--limit", "1")
    assert ("found." in errors) == (not listed)
    assert "found." not in output
