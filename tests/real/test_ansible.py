"""Ansible with its collection for Azure, unchanged, with the playbooks in tools/ansible."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fixtures.programs import ROOT, run_program, start_program
from tests.fixtures.requirements import tool_python
from tests.real.tool_service import ToolService

PLAYBOOKS = ROOT / "tests" / "real" / "tools" / "ansible"
PLAYBOOK_SECONDS = 600  # each task starts a Python process that imports many of Azure's packages


def settings(service: ToolService, folder: Path) -> Mapping[str, str]:
    """Return the environment of Ansible: the cloud, its metadata, the login, and no other files."""
    arm = service.ready["arm"]
    login = service.login_environment()
    return {
        **login,
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ARM_CLOUD_METADATA_URL": f"{arm}/metadata/endpoints?api-version=2019-05-01",
        "AZURE_CLOUD_ENVIRONMENT": arm,
        "AZURE_CONFIG_DIR": str(folder / "azure"),
        "AZURE_DISABLE_INSTANCE_DISCOVERY": "true",
        "AZURE_SECRET": login["AZURE_CLIENT_SECRET"],
        "AZURE_TENANT": login["AZURE_TENANT_ID"],
        "PATH": f"{ROOT / '.venv-ansible' / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.mark.campaign
@pytest.mark.spec("C2", "C6")
def test_ansible(tmp_path: Path) -> None:
    """Playbooks create, restart and scale in with notice, read back, deploy and delete."""
    command = str(tool_python("ansible").parent / "ansible-playbook")
    with ToolService(tmp_path / "data") as service:
        env = settings(service, tmp_path)

        def play(name: str) -> None:
            words = (command, str(PLAYBOOKS / f"{name}.yml"))
            done = run_program(*words, env=env, cwd=tmp_path, timeout=PLAYBOOK_SECONDS)
            assert done.returncode == 0, done.stdout + done.stderr

        def inventory(name: str) -> set[str]:
            words = (str(Path(command).parent / "ansible-inventory"), "--list", "-i")
            source = str(PLAYBOOKS / f"{name}.azure_rm.yml")
            done = run_program(*words, source, env=env, cwd=tmp_path, timeout=PLAYBOOK_SECONDS)
            assert done.returncode == 0, done.stdout + done.stderr
            return set(json.loads(done.stdout)["_meta"]["hostvars"])

        def play_with_notice(name: str, machine: str, kind: str) -> None:
            words = (command, str(PLAYBOOKS / f"{name}.yml"))
            with start_program(*words, folder=tmp_path, env=env) as playbook:
                service.run_with_notice(playbook, machine, kind)

        play("create")
        assert set(service.machines()) == {"vm", "web_0", "web_1"}
        assert inventory("batch") == inventory("single") == {"vm", "web_0", "web_1"}
        assert service.events("vm") == service.events("web_0") == []
        play_with_notice("restart", "vm", "Reboot")
        play_with_notice("scale_in", "web_0", "Terminate")
        assert set(service.machines()) == {"vm", "web_0"}
        play("read")
        play("deploy")
        with service.time_running():
            play("delete")
        assert service.machines() == {}
