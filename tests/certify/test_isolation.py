"""`fairwarning certify` where there are no namespaces: the handler is an ordinary child process."""

import json
import sys

import pytest

from fairwarning.testing.certify.traps import TRAPS
from tests.certify.test_certify import AGENT, PLAIN, certify, failed, results
from tests.fixtures.requirements import needs_namespaces

pytestmark = pytest.mark.spec("O11", "O12")

NONE = ("--json", "--isolation", "none")

# Runs a program only if its endpoint is on loopback: no test may ask the real one.
GUARD = (
    'case "$FAIRWARNING_ENDPOINT $http_proxy" in "http://127."*" http://127."*) exec "$@";; esac'
)

# Polls the URL in a variable once a second, without a proxy, if it is the one that is expected.
CONFIGURABLE = """
import os, sys, time, urllib.error, urllib.request
url = os.environ["IMDS_URL"] + "/metadata/scheduledevents?api-version=2020-07-01"
assert url.startswith(sys.argv[1])
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
while True:
    try:
        opener.open(urllib.request.Request(url, headers={"Metadata": "true"})).read()
    except urllib.error.HTTPError:
        pass
    time.sleep(1)
"""


def guarded(*command: str) -> tuple[str, ...]:
    """Return the command line of a handler that runs only with an endpoint on loopback."""
    return ("--", "sh", "-c", GUARD, "sh", *command)


@pytest.mark.campaign
@pytest.mark.spec("G1", "G3", "G5", "G6")
def test_the_agent_survives_all_without_namespaces() -> None:
    """As it does with them."""
    done = certify(*NONE, *guarded(*AGENT))
    assert failed(done) == {}
    assert list(results(done)) == [trap.name for trap in TRAPS]


def test_a_freeze_and_a_power_loss_without_namespaces() -> None:
    """Signals carry them out; the report and the first lines say how the handler ran."""
    traps = ("--trap", "freeze", "--trap", "reboot-in-the-middle")
    done = certify(*NONE, *traps, *guarded(*AGENT))
    assert failed(done) == {}
    assert json.loads(done.stdout)["isolation"] == "none"
    first, second, *_ = done.stderr.splitlines()
    assert first.startswith("the handler runs without namespaces (--isolation none)")
    assert "real 169.254.169.254" in second


@pytest.mark.campaign
def test_a_flaw_is_found_without_namespaces() -> None:
    """In a handler that knows only Azure's URL, and uses the proxy of its environment."""
    done = certify(*NONE, "--trap", "gone", *guarded(*PLAIN, "exits on 410"))
    assert "exited with code 1: urllib.error.HTTPError" in failed(done)["gone"]


@pytest.mark.parametrize(
    ("isolation", "url"),
    [
        ("none", "http://127.0.0.1:"),
        pytest.param(
            "namespaces", "http://169.254.169.254/", marks=[needs_namespaces, pytest.mark.campaign]
        ),
    ],
)
def test_a_handler_whose_endpoint_can_be_configured(isolation: str, url: str) -> None:
    """The variable that the user names gets the URL, in either way."""
    options = ("--json", "--isolation", isolation, "--endpoint-variable", "IMDS_URL")
    handler = (sys.executable, "-c", CONFIGURABLE, url)
    done = certify(*options, "--no-approve", "--trap", "gone", "--", *handler)
    assert failed(done) == {}
    assert json.loads(done.stdout)["isolation"] == isolation
