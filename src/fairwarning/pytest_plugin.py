"""The pytest plugin (O9): the fixture `fairwarning`, a cloud of the test's own in virtual time.

pytest loads this wherever Fairwarning is installed, so it loads nothing itself; the service is
loaded when a test asks for a cloud.
"""

from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fairwarning.testing.cloud import (
        Cloud,
        MachineHandle,
        OperationHandle,
        RolloutHandle,
        ScaleSetHandle,
    )

__all__ = ["Cloud", "MachineHandle", "OperationHandle", "RolloutHandle", "ScaleSetHandle"]

_CLOUDS = pytest.StashKey[list["Cloud"]]()
_INI = "fairwarning_fleet"
_LAST_LINES = 200  # of a journal, below a failure
_MARK = (
    "fairwarning(fleet, *, start): what the fixture `fairwarning` begins with: a fleet file (TOML, "
    "or a path beside the test or below the root), and a moment (a datetime)"
)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("fairwarning.testing.cloud"), name)


# --- Fixtures -----------------------------------------------------------------------------------


@pytest.fixture(name="fairwarning_clouds")
def _clouds(request: pytest.FixtureRequest) -> "Iterator[Callable[..., Cloud]]":
    """Makes clouds for tests that need several: `fairwarning_clouds(fleet, start=...)`."""
    made: list[Cloud] = request.node.stash.setdefault(_CLOUDS, [])

    def make(fleet: str = "", **settings: Any) -> "Cloud":  # noqa: ANN401  (as Cloud has them)
        cloud = _cloud()(_text(fleet, request), **settings)
        made.append(cloud)
        return cloud

    try:
        yield make
    finally:
        for cloud in made:
            cloud.close()


@pytest.fixture(name="fairwarning")
def _fairwarning(
    request: pytest.FixtureRequest, fairwarning_clouds: "Callable[..., Cloud]"
) -> "Cloud":
    """A cloud of this test's own, in virtual time; empty, or as the mark `fairwarning` says."""
    mark = request.node.get_closest_marker("fairwarning") or pytest.mark.fairwarning().mark
    fleet = mark.args or (mark.kwargs.get("fleet", request.config.getini(_INI)),)
    return fairwarning_clouds(*fleet, **{k: v for k, v in mark.kwargs.items() if k != "fleet"})


def _cloud() -> "type[Cloud]":
    try:
        from fairwarning.testing.cloud import Cloud  # noqa: PLC0415  (not for every run of pytest)
    except ModuleNotFoundError as error:
        text = f"{error.name} is missing: a cloud needs `pip install 'fairwarning[server]'`"
        pytest.fail(text, pytrace=False)
    return Cloud


def _text(fleet: str, request: pytest.FixtureRequest) -> str:
    """TOML as it is; else the file of this name, beside the test or below the root."""
    if not fleet or "=" in fleet or "\n" in fleet:
        return fleet
    places = [request.path.parent / fleet, request.config.rootpath / fleet]
    for path in places:
        if path.is_file():
            return path.read_text("utf-8")
    pytest.fail(f"no fleet file: neither {places[0]} nor {places[1]} is there", pytrace=False)


# --- Hooks --------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one setting."""
    parser.addini(_INI, "the fleet file that every `fairwarning` begins with", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The one mark."""
    config.addinivalue_line("markers", _MARK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Below a failure, tell what happened in the test's clouds."""
    report = yield
    if report.failed:
        clouds = [cloud for cloud in item.stash.get(_CLOUDS, []) if cloud.is_open]
        for number, cloud in enumerate(clouds, 1):
            which = f" in cloud {number}" if len(clouds) > 1 else ""
            report.sections.append((f"what happened{which}", _told(cloud)))
    return report


def _told(cloud: "Cloud") -> str:
    try:
        lines = cloud.journal().splitlines()
    except Exception as error:  # noqa: BLE001  (a report of a failure must not fail itself)
        return f"not known: {error}"
    return "\n".join(lines[-_LAST_LINES:])
