"""Azure's SDK for JavaScript, in a program of ours (tests/real/tools)."""

import shutil
from pathlib import Path

import pytest

from tests.fixtures.programs import ROOT
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
        assert service.check_program(tmp_path, env, node, PROGRAM) == {
            "machines": [{"name": "vm", "tags": {"tier": "front"}}],
            "sets": [{"name": "web", "capacity": 1}],
            "statuses": ["ProvisioningState/succeeded", "PowerState/running"],
        }
