"""A cluster whose database's clock is stepped (E11)."""

from email.utils import parsedate_to_datetime
from pathlib import Path

import psycopg
import pytest

from tests.campaigns import split
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.spec("E11", "X1")

NOTICE_SECONDS = 900
# When the clock is turned back, the shared time continues from its last reading, which is about a
# second old, or more on a busy machine.
TOLERANCE_SECONDS = 120
MACHINE = "db_0"


@pytest.mark.parametrize("step", split([-3600.0, 3600.0], 1))
def test_a_step_of_the_databases_clock_keeps_the_notice(
    database_url: str, tmp_path: Path, step: float
) -> None:
    """In the process that gave it, and in one that starts after the step."""
    words = ("--sample",)
    with ServiceProcess(tmp_path / "first", *words, database=database_url) as first:
        first.poll(MACHINE)
        first.ok("POST", f"/api/machines/{MACHINE}/restart")
        _step(database_url, step)
        wait_until(lambda: abs(_shift(database_url)) < 1800, "the step is noticed")
        assert _is_unchanged(first)
        with ServiceProcess(tmp_path / "second", *words, database=database_url) as second:
            assert _is_unchanged(second)
            first.stop()
            assert _is_unchanged(second)


def _is_unchanged(service: ServiceProcess) -> bool:
    response = service.get(MACHINE)
    (event,) = response.json["Events"]
    assert event["EventStatus"] == "Scheduled"
    not_before = parsedate_to_datetime(event["NotBefore"])
    left = (not_before - parsedate_to_datetime(response.headers["date"])).total_seconds()
    return abs(left - NOTICE_SECONDS) < TOLERANCE_SECONDS


def _step(url: str, seconds: float) -> None:
    """Make the database's clock look stepped."""
    change = f"read_at = read_at - {seconds}, shift = shift + {seconds}"
    with psycopg.connect(url) as connection:
        connection.execute(f"UPDATE fairwarning.fleet_clock SET {change}".encode())


def _shift(url: str) -> float:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT shift FROM fairwarning.fleet_clock").fetchone()
        assert row is not None
        return float(row[0])
