"""What everybody sees of a bug, and how an operator ends it (IB1)."""

import sys
from pathlib import Path
from typing import ClassVar

import pytest

from tests.fixtures.credentials import by_cookie, open_session
from tests.fixtures.http import fetch
from tests.fixtures.service import ServiceProcess

FLEET = '[[machine]]\nname = "vm"\n[[machine]]\nname = "other"\n'
PROBLEM = "writer: 1 set aside because of a bug; see `fairwarning bug list`"
REASON = r"Restart: ZeroDivisionError: division by \x1b zero"


class BuggyService(ServiceProcess):
    """A service that nobody can ask to restart `vm`."""

    program: ClassVar = (sys.executable, "-m", "tests.cli.buggy_program")


@pytest.mark.spec("X7", "O10")
def test_a_bug_is_shown_everywhere_until_it_is_released(tmp_path: Path) -> None:
    """In the answer, `/readyz`, `healthcheck`, metrics, page and journal; all others go on."""
    with BuggyService(tmp_path / "data", "--memory", fleet=FLEET) as service:
        console = service.ready["console"]
        before = service.poll("vm")
        answer = service.api("POST", "/api/machines/vm/restart")
        assert (answer.status, answer.error_code) == (500, "Bug")
        refused = service.run("machine", "restart", "vm")
        assert "Nothing was changed; 'vm' is set aside" in refused.stderr, refused.returncode
        assert service.poll("vm") == before
        assert fetch(f"{console}/readyz").json["status"] == "degraded"
        assert PROBLEM in service.run("healthcheck").stdout
        metrics = fetch(f"{console}/metrics").text.splitlines()
        assert {"fairwarning_bugs_total 2.0", "fairwarning_set_aside 1.0"} <= set(metrics)
        (entity,) = service.json("bug", "list")
        assert (entity["entity"], entity["reason"], entity["attempts"]) == ("Scope/vm", REASON, 2)
        assert REASON in service.run("bug", "list").stdout
        page = by_cookie(service, open_session(service)).text
        assert f"Scope/vm is set aside because of a bug: {REASON}" in page
        lines = service.ok("GET", "/api/journal")["lines"]
        assert [line["detail"] for line in lines if line["about"] == "Scope vm"][-1] == REASON
        service.poll("other")
        service.ok("POST", "/api/machines/other/restart")
        assert service.poll("other")["Events"]
        assert service.run("bug", "release", "Scope/vm").stdout == "Scope/vm: released\n"
        assert service.json("bug", "list") == []
        assert service.run("healthcheck").stdout == "The service is ready.\n"
