"""The hooks folder: which files are hooks, and that an agent runs them."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.guest.agent.config import HookKind, HookSettings, parse
from fairwarning.guest.events import Phase


def write_hook(folder: Path, name: str, script: str = "true", mode: int = 0o755) -> Path:
    """Write a file such as `scheduled/10-drain` below the folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(mode)
    return path


def hooks_of(folder: Path, more: str = "") -> tuple[HookSettings, ...]:
    """Return the hooks of a configuration with this hooks folder."""
    return parse(f"hooks_folder = '{folder}'\n{more}").hooks


def names(folder: Path, more: str = "") -> list[str]:
    """Return the names of these hooks."""
    return [hook.name for hook in hooks_of(folder, more)]


@pytest.mark.spec("G10")
def test_a_file_is_a_required_hook_for_every_event(tmp_path: Path) -> None:
    """It is named after its phase and its file, and runs without arguments."""
    path = write_hook(tmp_path, "scheduled/10-drain")
    assert hooks_of(tmp_path) == (
        HookSettings(
            name="scheduled/10-drain",
            phase=Phase.SCHEDULED,
            kind=HookKind.COMMAND,
            command=(str(path),),
            types=frozenset(),
            source="",
            required=True,
            timeout=timedelta(minutes=5),
            order=10,
        ),
    )


def test_hooks_come_in_the_order_of_phases_and_names(tmp_path: Path) -> None:
    """After those of the file itself. The number in a name is the order; without one it is 0."""
    for name in ("over/back9", "started/005-flush", "scheduled/20-save", "scheduled/10-drain"):
        write_hook(tmp_path, name)
    first = '[[hook]]\nname = "first"\nphase = "over"\ncommand = ["true"]\n'
    assert names(tmp_path, first) == [
        *("first", "scheduled/10-drain", "scheduled/20-save"),
        *("started/005-flush", "over/back9"),
    ]
    assert [hook.order for hook in hooks_of(tmp_path)] == [10, 20, 5, 0]


@pytest.mark.parametrize(
    "name",
    [
        *("scheduled/.hidden", "scheduled/drain~", "scheduled/drain.bak"),
        *("scheduled/drain.dpkg-old", "scheduled/drain.dpkg-dist", "scheduled/drain.dpkg-new"),
        *("README", "disabled/10-drain", "scheduled/inner/10-drain"),
    ],
)
def test_other_files_are_no_hooks(tmp_path: Path, name: str) -> None:
    """Even if they may be run. A link to a program is a hook with the link's name."""
    program = write_hook(tmp_path, name)
    (tmp_path / "scheduled").mkdir(exist_ok=True)
    (tmp_path / "scheduled" / "drain").symlink_to(program)
    (tmp_path / "scheduled" / "broken").symlink_to("gone")
    assert names(tmp_path) == ["scheduled/drain"]


def test_a_file_that_is_not_executable_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names it, as it may have been meant as a hook."""
    write_hook(tmp_path, "scheduled/10-drain", mode=0o644)
    with caplog.at_level(logging.WARNING):
        assert names(tmp_path) == []
    (line,) = caplog.messages
    assert "scheduled/10-drain: not executable" in line


def test_a_missing_folder_is_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, in case the path is wrong."""
    assert names(tmp_path / "gone") == []
    assert "gone does not exist" in caplog.text


def test_errors_name_the_key(tmp_path: Path) -> None:
    """A folder that cannot be read, and a name that occurs twice."""
    (tmp_path / "scheduled").touch()
    with pytest.raises(Refused, match="hooks_folder: cannot read the folder"):
        hooks_of(tmp_path)
    with pytest.raises(Refused, match="hooks_folder: must be a non-empty string"):
        parse("hooks_folder = 1")
    (tmp_path / "scheduled").unlink()
    write_hook(tmp_path, "scheduled/a")
    again = '[[hook]]\nname = "scheduled/a"\nphase = "over"\ncommand = ["true"]\n'
    with pytest.raises(Refused, match="two hooks have the name"):
        hooks_of(tmp_path, again)
