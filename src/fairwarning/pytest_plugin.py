"""The pytest plugin (O9): the fixture `fairwarning`, a cloud per test with a virtual clock.

pytest imports this module wherever Fairwarning is installed, also on a Python that is too old for
the service. So it imports the service only when a test requests a cloud, and uses only what older
versions of pytest have as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fairwarning.testing import Cloud

__all__: list[str] = []  # the types of its fixtures are in `fairwarning.testing`

_PACKAGE = Path(__file__).parent
_clouds_of: dict[str, list[Cloud]] = {}  # by id of the running test
_INI = "fairwarning_fleet"
_LAST_LINES = 200  # of the journal, shown with a failure
_MARK = (
    "fairwarning(fleet, *, start): the initial fleet of the fixture `fairwarning` (TOML, or a path "
    "relative to the test or the root) and its start time (a datetime)"
)


# --- Fixtures -----------------------------------------------------------------------------------


@pytest.fixture(name="fairwarning_clouds")
def _clouds(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cloud]]:
    """A factory for tests that need several clouds: `fairwarning_clouds(fleet, start=...)`."""
    clouds = _clouds_of.setdefault(request.node.nodeid, [])

    def make(fleet: str = "", **settings: Any) -> Cloud:  # noqa: ANN401  (arguments of Cloud)
        cloud = _cloud()(_text(fleet, request), **settings)
        clouds.append(cloud)
        return cloud

    try:
        yield make
    finally:
        del _clouds_of[request.node.nodeid]
        for cloud in clouds:
            cloud.close()


@pytest.fixture(name="fairwarning")
def _fairwarning(request: pytest.FixtureRequest, fairwarning_clouds: Callable[..., Cloud]) -> Cloud:
    """A cloud for this test, with a virtual clock; empty, or with the fleet of the mark."""
    mark = request.node.get_closest_marker("fairwarning") or pytest.mark.fairwarning().mark
    fleet = mark.args or (mark.kwargs.get("fleet", request.config.getini(_INI)),)
    return fairwarning_clouds(*fleet, **{k: v for k, v in mark.kwargs.items() if k != "fleet"})


def _cloud() -> type[Cloud]:
    if sys.version_info < (3, 11):
        pytest.fail("the fixture `fairwarning` needs Python 3.11 or newer", pytrace=False)
    try:
        from fairwarning.testing.cloud import Cloud  # noqa: PLC0415  (only when a test needs it)
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed; run `pip install 'fairwarning[server]'`"
        pytest.fail(text, pytrace=False)
    return Cloud


def _text(fleet: str, request: pytest.FixtureRequest) -> str:
    """Return TOML unchanged, else the text of the file next to the test or below the root."""
    if not fleet or "=" in fleet or "\n" in fleet:
        return fleet
    paths = [request.path.parent / fleet, request.config.rootpath / fleet]
    for path in paths:
        if path.is_file():
            return path.read_text("utf-8")
    pytest.fail(f"fleet file not found: neither {paths[0]} nor {paths[1]} exists", pytrace=False)


# --- Hooks --------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the ini setting."""
    parser.addini(_INI, "the default fleet file of the fixture `fairwarning`", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARK)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Add the journals of the test's clouds to the report of a failure; hide frames of ours."""
    if call.excinfo:
        _hide_frames(call.excinfo)
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed:
        clouds = [cloud for cloud in _clouds_of.get(item.nodeid, []) if cloud.is_open]
        for number, cloud in enumerate(clouds, 1):
            which = f" of cloud {number}" if len(clouds) > 1 else ""
            report.sections.append((f"fairwarning journal{which}", _journal(cloud)))


def _hide_frames(failure: pytest.ExceptionInfo[BaseException]) -> None:
    """Let the report end at the line of the test that made a wrong call."""
    for entry in failure.traceback:
        if _PACKAGE in Path(entry.path).parents:
            entry.frame.f_globals["__tracebackhide__"] = _is_callers_fault


def _is_callers_fault(failure: pytest.ExceptionInfo[BaseException]) -> bool:
    from fairwarning.core.errors import FairwarningError  # noqa: PLC0415  (only for a failure)

    return isinstance(failure.value, (FairwarningError, TimeoutError))


def _journal(cloud: Cloud) -> str:
    try:
        lines = cloud.journal().splitlines()
    except Exception as error:  # noqa: BLE001  (the report of a failure must not fail)
        return f"cannot read the journal: {error}"
    return "\n".join(lines[-_LAST_LINES:])
