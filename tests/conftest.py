"""What holds for every test: how examples are drawn, and that a test names only rows that exist.

Fixtures do not live here: a test builds what it needs in its body.
"""

import gc
import inspect
import os
import signal
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings

from fairwarning.server import variables
from tests.fixtures.leftovers import leftover_processes, mark_run
from tests.fixtures.waiting import run_async, wait_until
from tests.release.conformance.rows import check

MadeItems = pytest.Item | pytest.Collector | list[pytest.Item | pytest.Collector] | None

# "short" (make test) and "fixed" (make test-all) draw the same examples in every run, so that red
# means a change and nothing else. Look for new ones with
#   make test ARGS="-m hypothesis --hypothesis-profile=explore"
_ALWAYS = settings(database=None, deadline=None, print_blob=True)
settings.register_profile("short", _ALWAYS, derandomize=True, max_examples=10)
settings.register_profile("fixed", _ALWAYS, derandomize=True, max_examples=100)
settings.register_profile("explore", _ALWAYS, derandomize=False, max_examples=2_000)
settings.load_profile("short")

gc.disable()  # until all tests are collected: nothing of that is garbage

# A background job starts with SIGINT ignored, and `nohup` ignores SIGHUP. The programs that tests
# start and signal would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A service that the user of this shell works with is none of the tests' business.
for _name in ("URL", "TOKEN", "TOKEN_FILE", "CA", "CONTEXT", "DATA"):
    os.environ.pop(getattr(variables, _name), None)

mark_run()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let an optional target of the Makefile insist that something was tested."""
    text = "fail if every test was skipped, because what they need is not installed"
    parser.addoption("--fail-if-all-skipped", action="store_true", help=text)


def pytest_report_header(config: pytest.Config) -> str:
    """Say how this run draws its examples; pytest-randomly says its seed by itself."""
    name = config.getoption("--hypothesis-profile", default=None) or "short"
    used = settings.get_profile(name)
    return f"examples: profile {name}, derandomize={used.derandomize}, {used.max_examples} a test"


def pytest_collection_finish() -> None:
    """Exempt what collecting has created from garbage collection: it lives until the end."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, MadeItems, MadeItems]:
    """Refuse a test that claims to prove a row the contract does not have."""
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Item):
            check(item)
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run a test that is a coroutine."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = run_async(pyfuncitem.obj)


@pytest.hookimpl(trylast=True)  # when the workers have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if nothing was tested, or a process outlives the run, which slows everything down."""
    if session.config.getoption("--fail-if-all-skipped") and not _has_passed(session.config):
        text = "\nNothing was tested: every test was skipped. Install what their reasons name."
        session.config.get_terminal_writer().line(text, red=True)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    if not session.config.getoption("numprocesses", None) or hasattr(session.config, "workerinput"):
        return
    try:
        wait_until(lambda: not leftover_processes())
    except AssertionError:
        lines = "", "These processes of the tests still run:", *leftover_processes()
        session.config.get_terminal_writer().line("\n  ".join(lines), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _has_passed(config: pytest.Config) -> bool:
    """Whether a test has passed; a worker of pytest-xdist leaves the question to its parent."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter is None or bool(reporter.stats.get("passed"))
