"""Azure's SDK for JavaScript, in a program of ours (tests/real/tools)."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import ROOT, run_program, start_program
from tests.real.tool_service import ToolService

PROGRAM = str(ROOT / "tests" / "real" / "tools" / "machines.mjs")
PACKAGES = ROOT / ".local" / "javascript"


def find_node() -> str:
    """Return the path of Node.js; skip the test without it or the SDK."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: apt-get install nodejs npm")
    if not (PACKAGES / ".ready").exists():
        pytest.skip("needs Azure's SDK for JavaScript: make tools")
    return node


@pytest.mark.campaign
@pytest.mark.spec("C2", "C6")
def test_the_sdk_for_javascript(tmp_path: Path) -> None:
    """It creates, restarts and scales in with notice, lists, and deletes."""
    node = find_node()
    with ToolService(tmp_path / "data") as service:
        trust = {"NODE_EXTRA_CA_CERTS": service.ready["ca"], "PACKAGES": str(PACKAGES)}
        env = service.login_environment() | trust

        def run(step: str) -> Any:  # noqa: ANN401  (its JSON)
            done = run_program(node, PROGRAM, step, env=env)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        run("create")
        assert set(service.machines()) == {"vm", "web_0", "web_1"}
        assert service.events("vm") == service.events("web_0") == []
        with start_program(node, PROGRAM, "restart", folder=tmp_path, env=env) as restart:
            service.run_with_notice(restart, "vm", "Reboot")
        with start_program(node, PROGRAM, "scale-in", folder=tmp_path, env=env) as scale_in:
            service.run_with_notice(scale_in, "web_0", "Terminate")
        assert run("list") == {
            "machines": [{"name": "vm", "tags": {"tier": "front"}}],
            "sets": [{"name": "web", "capacity": 1}],
            "statuses": ["ProvisioningState/succeeded", "PowerState/running"],
        }
        with service.time_running():
            run("delete")
        assert service.machines() == {}
