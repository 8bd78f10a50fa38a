"""A batch worker that is a systemd unit: no item is interrupted, and none is done twice."""

import re
import sys
from pathlib import Path

import pytest

from tests.examples.copies import EXAMPLES, copy
from tests.fixtures.systemd import booted_systemd
from tests.fixtures.waiting import wait_until
from tests.guest.agents import one_machine

WORKER = """#!/bin/sh
trap 'stop=1' TERM
cd {folder}
n=$(wc -l < ended)
while [ -z "$stop" ]; do
    n=$((n + 1))
    echo $n >> begun
    sleep 0.3
    echo $n >> ended
done
"""
ALONE = "\n[Unit]\nDefaultDependencies=no\n"


@pytest.mark.campaign
def test_no_item_is_interrupted(tmp_path: Path) -> None:
    """G4: the event is approved after the last item, and the worker goes on with the next one."""
    folder, units = copy("batch-worker", tmp_path), tmp_path / "units"
    units.mkdir()
    (tmp_path / "ended").touch()
    worker = tmp_path / "worker"
    worker.write_text(WORKER.format(folder=tmp_path))
    worker.chmod(0o755)

    def lines(name: str) -> list[str]:
        return (tmp_path / name).read_text().split()

    with one_machine(tmp_path / "agent") as (endpoint, home):
        settings = f'endpoint = "{home.endpoint}"\n' + (folder / "agent.toml").read_text()
        (folder / "agent.toml").write_text(settings)
        text = (folder / "worker.service").read_text() + ALONE
        (units / "worker.service").write_text(text.replace("/usr/local/bin/worker", str(worker)))
        agent = f"{sys.executable} -m fairwarning agent run --config {folder / 'agent.toml'}"
        unit = EXAMPLES.parent / "deploy" / "agent" / "debian" / "fairwarning-agent.service"
        text = re.sub(r"(?m)^ExecStart=.*$", f"ExecStart={agent}", unit.read_text()) + ALONE
        (units / unit.name).write_text(text)
        endpoint.observe = lambda: (lines("begun"), lines("ended"))
        with booted_systemd(tmp_path) as system:
            system.run("systemctl", "start", "worker.service", unit.name)
            wait_until(lambda: len(lines("ended")) > 2, "work")
            endpoint.restart("db_0")
            wait_until(lambda: endpoint.approvals, "it is approved")
            begun, ended = endpoint.observed[0]
            assert begun == ended
            endpoint.finish("db")
            wait_until(lambda: len(lines("ended")) > len(ended) + 2, "work again")
            system.run("systemctl", "stop", unit.name, "worker.service")
    assert lines("begun") == lines("ended") == [str(n + 1) for n in range(len(lines("ended")))]
