import asyncio
import json
from collections import Counter
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import NoReturn

import pytest
from rich.console import Console

from fairwarning.core.decision import FactType
from fairwarning.core.model import Scope
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import JournalEntry, MachineLocation
from tests.bench import contenders, generate, homes, load, report
from tests.bench.__main__ import BENCHMARKS, main
from tests.bench.figures import Result, Target
from tests.bench.fleets import SMALL_FLEET
from tests.bench.machine import describe
from tests.bench.past import HOT, Author, Written
from tests.bench.stage import SMOKE, Stage
from tests.campaigns import split
from tests.fixtures.postgres.programs import NoPostgreSQL

QUICK = ("decisions", "commands", "visible", "history", "startup", "serving", "pollers")
# Differences of two noisy numbers.
MAY_BE_NEGATIVE = {"bytes a machine", "÷ its JSON", "KiB each", "more, MiB"}


@pytest.mark.parametrize("name", split([*QUICK, *sorted(BENCHMARKS.keys() - QUICK)], len(QUICK)))
def test_yields_sane_figures(name: str, tmp_path: Path) -> None:
    """Every benchmark runs to its end, reports each step, and fills its table with numbers."""
    steps: list[int] = []
    done: list[None] = []
    stage = Stage(SMOKE, tmp_path, expect=steps.append, step=lambda: done.append(None))
    result = BENCHMARKS[name](stage)
    assert result.name == name
    assert [len(done)] == steps
    for row in result.rows.values():
        for column, value in row.items():
            assert isfinite(value), (name, column)
            assert value > 0 or column in MAY_BE_NEGATIVE, (name, column)


def test_a_probe_has_a_process_of_its_own(tmp_path: Path) -> None:
    """What is measured apart answers as it does here."""
    here, apart = (Stage(replace(SMOKE, apart=there), tmp_path) for there in (False, True))
    path = str(here.fleet(SMALL_FLEET))
    assert here.probe("start", path=path).keys() == apart.probe("start", path=path).keys()


def test_a_fleet_is_generated_as_it_was_asked_for(tmp_path: Path) -> None:
    """So many machines, in full scopes but for the last, each with an address of its own."""

    async def read() -> tuple[list[str], list[MachineLocation]]:
        store = SQLiteStore(tmp_path / "fleet.db")
        await store.open()
        found = await store.list_ids(Scope, "", 10), await store.list_machines(0, 1000)
        await store.close()
        return found

    assert generate.main(["--machines", "250", "--data", str(tmp_path)]) == 0
    scopes, places = asyncio.run(read())
    assert Counter(place.scope for place in places) == dict(
        zip(scopes, (100, 100, 50), strict=True)
    )
    assert len({place.machine.address for place in places}) == 250
    assert [place.number for place in places] == list(range(1, 251))


def test_no_fleet_is_generated_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there stays as it is."""
    words = ["--machines", "3", "--scope", "2", "--data", str(tmp_path)]
    assert generate.main(words) == 0
    assert generate.main(words) == 1
    assert "name another place" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        generate.main(["--machines", "3", "--scope", "101", "--data", str(tmp_path)])


def test_the_past_is_as_it_is_said_to_be(tmp_path: Path) -> None:
    """As many lines as asked for, half of them about one scope, and events told of to their end."""

    async def write() -> tuple[Written, list[JournalEntry], list[JournalEntry], list[JournalEntry]]:
        store = SQLiteStore(tmp_path / "past.db")
        await store.open()
        written = await Author(store, 5000).write()
        every = await store.journal(limit=10_000)
        hot = await store.journal(limit=10_000, entity=(Scope, HOT))
        life = await store.journal(event=written.hot.events[0])
        await store.close()
        return written, every, hot, life

    written, every, hot, life = asyncio.run(write())
    assert 5000 <= len(every) < 5200
    assert 0.4 < len(hot) / len(every) < 0.6
    assert [entry.line.at for entry in every] == sorted(entry.line.at for entry in every)
    assert life[0].line.fact.type is FactType.SCHEDULED
    assert life[-1].line.fact.type is FactType.ENDED
    assert len(written.live) == 1


def test_what_is_not_installed_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without nginx, Go and wrk there are figures still, and a sentence about each that is not."""
    monkeypatch.setattr(contenders, "installed", lambda program: None)
    monkeypatch.setattr(load, "installed", lambda program: None)
    stage = Stage(replace(SMOKE, apart=True), tmp_path)
    found, missing = contenders.peers(stage, ["127.1.0.1"], b"{}")
    assert not found
    assert len(missing) == 2
    assert "clients of our own" in load.described(stage)


def test_without_postgresql_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs it has no figures then, but a sentence that says why."""

    def none(stage: Stage) -> NoReturn:
        raise NoPostgreSQL("there is none here")

    monkeypatch.setattr(homes, "databases", none)
    result = BENCHMARKS["cluster-commands"](Stage(SMOKE, tmp_path))
    assert not result.rows
    assert result.notes == ("Not measured: there is none here.",)


def test_results_read_alike_everywhere(tmp_path: Path) -> None:
    """Terminal, JSON and page show the same numbers."""
    target = Target("a ÷ b", 0.5, 1.0, at_least=True)
    rows = {"one": {"a": 1234.5, "b": 2.0}, "two": {"b": 20.25}}
    result = Result(name="x", title="Things", about="What.", rows=rows, targets=(target,))
    machine = describe(tmp_path)
    console = Console(record=True, width=200)
    report.show(console, machine, [result])
    page = report.as_markdown(machine, "2026-01-09", "make bench", [result])
    told = json.loads(json.dumps(report.as_json(machine, "2026-01-09", [result])))
    assert rows == told["benchmarks"]["x"]["rows"]
    assert not told["benchmarks"]["x"]["targets"][0]["met"]
    assert "| one | 1,234 | 2.00 |\n| two |  | 20.2 |" in page
    assert "| a ÷ b | 0.50 | at least 1 | missed |" in page
    text = console.export_text()
    assert "1,234" in text
    assert "a ÷ b: 0.50; target at least 1, missed" in text


@pytest.mark.parametrize("words", [["nonsense"], ["--write", "--quick"], ["--write", "growth"]])
def test_wrong_usage_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong words measure nothing and rewrite nothing."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "make bench: error" in capsys.readouterr().err
