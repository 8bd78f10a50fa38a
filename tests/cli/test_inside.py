"""End to end: a handler under `exec` reads its event, approves it, and is rebooted."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

ENDPOINT = "http://169.254.169.254/metadata/scheduledevents?api-version=2019-01-01"

# Approves every event, like a first handler, and prints when it gets SIGTERM.
HANDLER = """
import json, os, signal, sys, time, urllib.request
def ended(*_):
    print("got SIGTERM", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
print("started", flush=True)
def ask(body=None):
    request = urllib.request.Request(sys.argv[1], body, {"Metadata": "true"})
    with urllib.request.urlopen(request) as answer:
        return answer.read()
while True:
    for event in json.loads(ask())["Events"]:
        if event["EventStatus"] == "Scheduled":
            print("approves", event["EventType"], flush=True)
            ask(json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())
    time.sleep(0.02)
"""

# Approves the first event it sees, prints the answer, and when it gets SIGTERM.
APPROVER = """
import json, os, signal, sys, time, urllib.request
def ended(*_):
    print("got SIGTERM", flush=True)
    sys.exit(0)
def ask(body=None):
    request = urllib.request.Request(sys.argv[1], body, {"Metadata": "true"})
    return urllib.request.urlopen(request)
signal.signal(signal.SIGTERM, ended)
while not (events := json.load(ask())["Events"]):
    time.sleep(0.02)
answer = ask(json.dumps({"StartRequests": [{"EventId": events[0]["EventId"]}]}).encode())
print(answer.status, flush=True)
if sys.argv[2:] == ["stay"]:
    signal.pause()
os._exit(0)
"""


pytestmark = [needs_namespaces, pytest.mark.up("--sample", "--memory")]


@contextmanager
def running_inside(
    service: ServiceProcess, *words: str
) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """Run a program inside db_0; yield its process and the lines that it prints."""
    inside = service.inside("db_0", *words)
    with subprocess.Popen(inside, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            yield program, iter(program.stdout)
        finally:
            program.kill()


@pytest.mark.spec("O4")
def test_a_handler_approves_its_own_reboot(service: ServiceProcess) -> None:
    """It reads and approves the event, gets SIGTERM and is restarted; then the event is over."""
    service.poll("db_1")
    with running_inside(service, sys.executable, "-u", "-c", HANDLER, ENDPOINT) as (program, lines):
        assert next(lines) == "started\n"
        assert service.run("machine", "restart", "db_0").returncode == 0
        output = [next(lines) for _ in range(3)]
        assert output == ["approves Reboot\n", "got SIGTERM\n", "started\n"]
        wait_until(lambda: not service.poll("db_1")["Events"], "the end of the event")
        assert service.run("machine", "delete", "db_0", "--yes").returncode == 0
        assert next(lines) == "got SIGTERM\n"
        assert program.wait(LIMIT_SECONDS) == 0


@pytest.mark.spec("O3")
def test_a_program_reads_the_answer_to_its_approval(service: ServiceProcess) -> None:
    """Only then does it get SIGTERM."""
    service.poll("db_1")
    words = (sys.executable, "-c", APPROVER, ENDPOINT, "stay")
    with running_inside(service, *words) as (_, lines):
        assert service.run("machine", "restart", "db_0").returncode == 0
        assert next(lines) == "200\n"
        assert next(lines) == "got SIGTERM\n"


@pytest.mark.up("--sample", "--memory", "--clock", "virtual")
@pytest.mark.spec("O3", "O4")
def test_a_program_that_approves_and_ends(service: ServiceProcess) -> None:
    """It runs once, and the reboot goes on without it."""
    service.poll("db_1")
    (restart,) = service.json("machine", "restart", "db_0")
    done = run_program(*service.inside("db_0", sys.executable, "-c", APPROVER, ENDPOINT))
    assert (done.stdout, done.returncode) == ("200\n", 0), done.stderr
    operation = restart["operation"]["id"]
    wait_until(lambda: not list((service.data / "attached").iterdir()), "it is detached")
    service.advance(60)
    wait_until(
        lambda: service.json("operation", "show", operation)["status"] == "Succeeded",
        "the reboot ends",
    )


@pytest.mark.up("--sample", "--memory", "--clock", "virtual")
@pytest.mark.spec("O4")
def test_neighbours_see_that_a_reboot_has_started(service: ServiceProcess) -> None:
    """The machine takes its time to boot, so they have the time to read the event."""
    service.poll("db_1")
    with running_inside(service, sys.executable, "-u", "-c", HANDLER, ENDPOINT) as (_, lines):
        assert next(lines) == "started\n"
        assert service.run("machine", "restart", "db_0").returncode == 0
        assert next(lines) == "approves Reboot\n"
        assert next(lines) == "got SIGTERM\n"
        (event,) = service.poll("db_1")["Events"]
        assert event["EventStatus"] == "Started"
        wait_until(lambda: end_boot(service), "the end of the event")
        assert next(lines) == "started\n"


def end_boot(service: ServiceProcess) -> bool:
    """Let the time of a boot pass, which begins at some moment; return whether it is over."""
    service.advance(5)
    return not service.poll("db_1")["Events"]
