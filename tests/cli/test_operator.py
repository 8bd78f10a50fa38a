"""The commands of an operator: machines, clock and faults."""

import pytest

from tests.fixtures.service import ServiceProcess


def test_a_scope_without_polls(service: ServiceProcess) -> None:
    """It gets no notice, and the output says so (M15)."""
    output = service.run("machine", "restart", "db_0").stdout
    assert "no notice, because no machine of the scope polls" in output
    assert service.json("machine", "show", "db_0")["events"] == []


@pytest.mark.spec("O5")
def test_a_virtual_clock(service: ServiceProcess) -> None:
    """It can be shown, advanced, run and stopped; an event starts at its time."""
    service.poll("db_0")
    service.run("machine", "restart", "db_0")
    before = service.json("clock", "show")
    assert (before["virtual"], before["rate"]) == (True, 0.0)
    assert service.run("clock", "advance", "14m59s").returncode == 0
    assert service.poll("db_0")["Events"][0]["EventStatus"] == "Scheduled"
    assert "stopped" in service.run("clock", "advance", "1").stdout
    assert service.poll("db_0")["Events"][0]["EventStatus"] == "Started"
    service.run("clock", "advance", "60")
    assert service.poll("db_0")["Events"] == []
    assert "60 times real time" in service.run("clock", "run", "60").stdout
    assert "stopped" in service.run("clock", "freeze").stdout


@pytest.mark.spec("M21")
def test_faults_are_set_and_cleared(service: ServiceProcess) -> None:
    """A fault affects a machine, a scope or all, for a count or until it is cleared."""

    def statuses(count: int) -> list[int]:
        return [service.get("db_0").status for _ in range(count)]

    assert service.run("fault", "set", "410", "--machine", "db_0", "--count", "2").returncode == 0
    assert statuses(3) == [410, 410, 200]
    assert service.run("fault", "set", "404", "--scope", "db", "--count", "1").returncode == 0
    assert statuses(2) == [404, 200]
    service.run("fault", "set", "500")
    assert [fault["kind"] for fault in service.json("fault", "list")] == ["500"]
    assert "until cleared" in service.run("fault", "list").stdout
    assert statuses(2) == [500, 500]
    service.run("fault", "clear")
    assert service.run("fault", "list").stderr == "No faults found.\n"
    assert statuses(1) == [200]
