"""The plugin as whoever installs it meets it: in projects of their own, with the real pytest."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOC = Path(__file__).parents[1] / "docs" / "pytest.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)
ARGS = ("-p", "no:randomly")
STRICT = ("-W", "error", "--strict-markers", "--strict-config")


@pytest.mark.spec("O9")
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_documentation_runs(pytester: pytest.Pytester, number: int) -> None:
    """Every example of the page is a test that passes as it stands."""
    pytester.makepyfile(BLOCKS[number])
    pytester.runpytest(*ARGS, *STRICT).assert_outcomes(passed=1)


@pytest.mark.spec("O9")
def test_the_first_example_is_a_handler_tested_in_ten_lines() -> None:
    """As the page says."""
    _, _, test = BLOCKS[0].partition("def test_")
    assert len(test.strip().splitlines()) <= 10


@pytest.mark.spec("O9")
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_each_test_has_a_cloud_of_its_own(pytester: pytest.Pytester, workers: str) -> None:
    """Also in several processes at once, and none sees another's machines or time."""
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
def test_a_failure_tells_what_happened(pytester: pytest.Pytester) -> None:
    """In a section of its own, for the test that failed and for none that passed."""
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
        ["*- what happened -*", "*web: Scheduled (web,*", "*web: ImpactBegun (web, reboot*"]
    )
    result.stdout.no_fnmatch_line("*other*MachineAdded*")


@pytest.mark.spec("O9")
def test_several_clouds(pytester: pytest.Pytester) -> None:
    """They have nothing in common, and each is told of when the test fails."""
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
    result.stdout.fnmatch_lines(["E *assert False", "*what happened in cloud 1*", "*in cloud 2*"])


@pytest.mark.spec("O9")
def test_a_fleet_by_mark_and_by_setting(pytester: pytest.Pytester) -> None:
    """TOML in the mark, a file beside the test, one for the whole project: the nearest counts."""
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
        ["no fleet file: neither */inner/gone.toml nor */gone.toml is there"]
    )
    result.stdout.fnmatch_lines(["*BadFleetFile: *there is no key 'nme'; did you mean name?"])


@pytest.mark.spec("O9")
def test_it_costs_nothing_until_it_is_used(pytester: pytest.Pytester) -> None:
    """A run that makes no cloud loads nothing of the service, also if its types are named."""
    pytester.makeconftest("""
        import sys

        def pytest_sessionfinish():
            print("loaded:", *sorted(m for m in sys.modules if m.startswith("fairwarning.")), ".")
    """)
    pytester.makepyfile("""
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from fairwarning.pytest_plugin import Cloud

        def test_it(fairwarning: "Cloud"): ...
    """)
    result = pytester.runpytest_subprocess(*ARGS, "--collect-only", "-s")
    result.stdout.fnmatch_lines(["loaded: fairwarning.pytest_plugin .", "*1 test collected*"])


@pytest.mark.spec("O9")
def test_without_the_service_it_says_what_to_install(pytester: pytest.Pytester) -> None:
    """The bare install has no service to run."""
    pytester.makeconftest("import sys; sys.modules['httptools'] = None")
    pytester.makepyfile("def test_it(fairwarning): ...")
    result = pytester.runpytest_subprocess(*ARGS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["httptools is missing: *pip install 'fairwarning?server?'*"])


@pytest.mark.spec("O9")
def test_its_types_can_be_imported(pytester: pytest.Pytester) -> None:
    """For annotations; and there are no others."""
    pytester.makepyfile("""
        import pytest
        from fairwarning import pytest_plugin
        from fairwarning.pytest_plugin import (
            Cloud, MachineHandle, OperationHandle, RolloutHandle, ScaleSetHandle
        )

        def test_it(fairwarning: Cloud):
            assert isinstance(fairwarning, Cloud)
            assert isinstance(fairwarning.machine("web"), MachineHandle)
            with pytest.raises(AttributeError):
                pytest_plugin.Server
    """)
    pytester.runpytest(*ARGS).assert_outcomes(passed=1)


@pytest.mark.spec("O9")
def test_it_is_safe_in_tests_with_asyncio(pytester: pytest.Pytester) -> None:
    """Calls wait for the cloud's own thread, never for the test's loop."""
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
