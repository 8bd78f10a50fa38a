"""The pytest plugin in projects of its users, run by the real pytest."""

import re
from pathlib import Path

import pytest

from tests.campaigns import split

pytest_plugins = ["pytester"]

DOC = Path(__file__).parents[1] / "docs" / "pytest.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)
ARGS = ("-p", "no:randomly")
STRICT = ("-W", "error", "--strict-markers", "--strict-config")


@pytest.mark.spec("O9")
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_documentation_runs(pytester: pytest.Pytester, number: int) -> None:
    """Every example of the page is a test that passes unchanged."""
    pytester.makepyfile(BLOCKS[number])
    pytester.runpytest(*ARGS, *STRICT).assert_outcomes(passed=1)


@pytest.mark.spec("O9")
def test_the_first_example_is_a_handler_tested_in_ten_lines() -> None:
    """The test of the first example has at most ten lines, as the page says."""
    _, _, test = BLOCKS[0].partition("def test_")
    assert len(test.strip().splitlines()) <= 10


@pytest.mark.spec("O9")
@pytest.mark.parametrize("workers", split(["-n0", "-n2"], 1))
def test_each_test_has_its_own_cloud(pytester: pytest.Pytester, workers: str) -> None:
    """No test sees the machines or the clock of another, with one or several processes."""
    pytester.makepyfile("""
        import datetime, pytest

        @pytest.mark.parametrize("number", range(12))
        def test_it(fairwarning, number):
            web = fairwarning.machine("web")
            assert web.url.startswith(("http://127.1.0.1:", "unix:"))
            assert web.history == []
            began = fairwarning.now
            web.restart()
            fairwarning.advance(hours=1)
            assert fairwarning.now - began == datetime.timedelta(hours=1)
            assert web.history == ["reboot"]
    """)
    pytester.runpytest(*ARGS, *STRICT, workers).assert_outcomes(passed=12)


@pytest.mark.spec("O9")
def test_a_failure_shows_the_journal(pytester: pytest.Pytester) -> None:
    """The report of a failed test has a section with its journal; a passed test has none."""
    pytester.makepyfile("""
        def test_bad(fairwarning):
            web = fairwarning.machine("web")
            web.restart()
            web.approve()
            assert not web.history

        def test_good(fairwarning):
            fairwarning.machine("other")
    """)
    result = pytester.runpytest(*ARGS, "-rA")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*- fairwarning journal -*", "*web: Scheduled (web,*", "*web: ImpactBegun (web, reboot*"]
    )
    result.stdout.no_fnmatch_line("*other*MachineAdded*")


@pytest.mark.spec("O9")
def test_a_wrong_call_shows_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    """The report of a refused call or a wait in vain has no frame of this project."""
    pytester.makepyfile("""
        import pytest

        def test_evict(fairwarning):
            fairwarning.machine("web").evict()

        def test_wait(fairwarning):
            fairwarning.until(lambda: False, seconds=0)

        @pytest.mark.fairwarning("wrong = 1")
        def test_setup(fairwarning):
            pass
    """)
    result = pytester.runpytest(*ARGS)
    result.assert_outcomes(failed=2, errors=1)
    result.stdout.fnmatch_lines(["> *evict()", "E *NotSpot: 'web' has priority Regular*"])
    result.stdout.fnmatch_lines(["E *BadFleetFile: fleet file: there is no key 'wrong'*"])
    result.stdout.no_fnmatch_line("*/fairwarning/*.py:*")
    everything = pytester.runpytest(*ARGS, "--full-trace", "-k", "evict")
    everything.stdout.fnmatch_lines(["*/fairwarning/*.py:*"])


@pytest.mark.spec("O9")
def test_several_clouds(pytester: pytest.Pytester) -> None:
    """They are independent, and the report of a failure has the journal of each."""
    pytester.makepyfile("""
        def test_it(fairwarning, fairwarning_clouds):
            other = fairwarning_clouds()
            one, two = fairwarning.machine("web"), other.machine("web")
            assert one.url != two.url and one != two
            one.restart()
            assert two.document()["Events"] == []
            other.advance(days=1)
            assert fairwarning.now < other.now
            assert False
    """)
    result = pytester.runpytest(*ARGS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *assert False", "*journal of cloud 1*", "*of cloud 2*"])


@pytest.mark.spec("O9")
def test_a_fleet_by_mark_and_by_setting(pytester: pytest.Pytester) -> None:
    """The mark (TOML, or a file next to the test) overrides the setting of the project."""
    pytester.makeini("[pytest]\nfairwarning_fleet = all.toml")
    pytester.path.joinpath("all.toml").write_text('[[machine]]\nname = "all"\n', "utf-8")
    folder = pytester.mkpydir("inner")
    folder.joinpath("own.toml").write_text('[[machine]]\nname = "own"\n', "utf-8")
    folder.joinpath("test_it.py").write_text(
        """
import datetime, pytest

FIRST = datetime.datetime(2026, 1, 9, 12, tzinfo=datetime.UTC)

def test_setting(fairwarning):
    assert fairwarning.find("all").exists

@pytest.mark.fairwarning("own.toml", start=FIRST)
def test_path(fairwarning):
    assert fairwarning.find("own").exists
    assert fairwarning.now == FIRST

@pytest.mark.fairwarning(fleet='''
[cloud]
location = "moon"
[[machine]]
name = "text"
''')
def test_text(fairwarning):
    assert fairwarning.find("text").exists

@pytest.mark.fairwarning("gone.toml")
def test_missing(fairwarning):
    pass

@pytest.mark.fairwarning(fleet="[[machine]]\\nnme = 'x'")
def test_wrong(fairwarning):
    pass
""",
        "utf-8",
    )
    result = pytester.runpytest(*ARGS, *STRICT)
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(
        ["fleet file not found: neither */inner/gone.toml nor */gone.toml exists"]
    )
    result.stdout.fnmatch_lines(["*BadFleetFile: *there is no key 'nme'; did you mean name?"])


@pytest.mark.spec("O9")
def test_the_service_is_imported_only_when_used(pytester: pytest.Pytester) -> None:
    """A run without a cloud does not import the service, even if a test names its types."""
    pytester.makeconftest("""
        import sys

        def pytest_sessionfinish():
            print("loaded:", *sorted(m for m in sys.modules if m.startswith("fairwarning.")), ".")
    """)
    pytester.makepyfile("""
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from fairwarning.testing import Cloud

        def test_it(fairwarning: "Cloud"): ...
    """)
    result = pytester.runpytest_subprocess(*ARGS, "--collect-only", "-s")
    result.stdout.fnmatch_lines(["loaded: fairwarning.pytest_plugin .", "*1 test collected*"])


@pytest.mark.spec("O9")
def test_a_bare_install_says_what_to_install(pytester: pytest.Pytester) -> None:
    """Without the server extra, the error names the package to install."""
    pytester.makeconftest("import sys; sys.modules['httptools'] = None")
    pytester.makepyfile("def test_it(fairwarning): ...")
    result = pytester.runpytest_subprocess(*ARGS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["httptools is not installed; *pip install 'fairwarning?server?'*"])


@pytest.mark.spec("G10")
def test_an_older_python_says_what_it_needs(pytester: pytest.Pytester) -> None:
    """A suite runs on a Python that is too old for the service, but for tests with a cloud."""
    pytester.makepyfile("""
        import sys

        def test_own(): ...

        def test_cloud(request, monkeypatch):
            monkeypatch.setattr(sys, "version_info", (3, 9, 16))
            request.getfixturevalue("fairwarning")
    """)
    result = pytester.runpytest(*ARGS)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the fixture `fairwarning` needs Python 3.11 or newer"])


@pytest.mark.spec("O9")
def test_it_works_in_asyncio_tests(pytester: pytest.Pytester) -> None:
    """Calls wait for the thread of the cloud, never for the event loop of the test."""
    pytester.makepyfile("""
        import asyncio
        from fairwarning import AsyncScheduledEvents

        async def handle(fairwarning, web):
            async with AsyncScheduledEvents(web.url, every=0) as client:
                await client.document()
                waiting = asyncio.create_task(client.wait(10))
                await asyncio.sleep(0)
                web.restart()
                document = await waiting
                await client.approve(*document.events)
            return web.history

        def test_it(fairwarning):
            assert asyncio.run(handle(fairwarning, fairwarning.machine("web"))) == ["reboot"]
    """)
    pytester.runpytest(*ARGS, *STRICT).assert_outcomes(passed=1)
