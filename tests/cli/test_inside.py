"""End to end: a handler under `exec` reads its event, approves it, and is rebooted."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

ENDPOINT = "http://169.254.169.254/metadata/scheduledevents?api-version=2019-01-01"

# Approves every event, like a first handler, and prints when it gets SIGTERM.
HANDLER = """
import json, signal, sys, time, urllib.request
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
import json, signal, sys, time, urllib.request
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
signal.pause()
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
    words = (sys.executable, "-c", APPROVER, ENDPOINT)
    with running_inside(service, *words) as (_, lines):
        assert service.run("machine", "restart", "db_0").returncode == 0
        assert next(lines) == "200\n"
        assert next(lines) == "got SIGTERM\n"
