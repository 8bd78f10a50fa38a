"""What a hook prints: it is logged, and kept in a file."""

from pathlib import Path

import pytest

from fairwarning.guest.agent import hooks as module
from fairwarning.guest.agent.hook_output import KEPT_BYTES
from tests.guest.hook_harness import EVENT, hook_harness
from tests.guest.hook_programs import program


def test_output_of_a_failed_hook_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its last lines are prefixed, so that none can imitate a log line."""
    caplog.set_level("INFO", module.__name__)
    with hook_harness() as harness:
        harness.run(program("print('ERROR forged\\n\\x1b[2Jtwo'); raise SystemExit(1)"))
        assert harness.failure() == "exit code 1: [2Jtwo"
    begun, ended = (record.getMessage() for record in caplog.records)
    assert begun.startswith(f"hook main (event {EVENT.id}, scheduled) starts, deadline 2")
    assert ended.endswith(" s: exit code 1: [2Jtwo\n  | ERROR forged\n  | [2Jtwo")


@pytest.mark.spec("G4")
@pytest.mark.parametrize(("code", "result"), [(0, "is done after"), (3, "failed after")])
def test_output_of_the_last_run_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, result: str
) -> None:
    """All of it, in a file of the state folder that the log names."""
    caplog.set_level("INFO", module.__name__)
    path = tmp_path / "output" / "main-scheduled.log"
    for text in ("earlier " * 100, "h\u00fc\x1b"):
        with hook_harness(tmp_path) as harness:
            harness.run(program(f"print({text!r}, *range(99)); raise SystemExit({code})"))
            harness.results()
    head, *lines = path.read_text("utf-8").splitlines()
    assert head.startswith(f"# hook main (event {EVENT.id}, scheduled) {result} ")
    assert lines == [" ".join(map(str, ("h\u00fc\x1b", *range(99))))]
    assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
    assert f"; output: {path}\n  | " in caplog.messages[-1]


def test_kept_output_is_bounded(tmp_path: Path) -> None:
    """The end of a flood, even of bytes that are no text, takes 64 KiB."""
    flood = "import os\nfor _ in range(99): os.write(1, b'\\xff' * 9999)\nos.write(1, b'end')"
    with hook_harness(tmp_path) as harness:
        harness.run(program(flood))
        harness.results()
    content = (tmp_path / "output" / "main-scheduled.log").read_bytes()
    assert content.startswith(b"# hook main ")
    assert content.endswith(b"end")
    assert len(content) <= KEPT_BYTES


@pytest.mark.parametrize(
    "name", ["../../x", ".", "a/b", "\u00fc\ud800", "x" * 5000, "tell the team"]
)
def test_no_name_of_a_hook_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Names are quoted and shortened."""
    with hook_harness(tmp_path / "state") as harness:
        harness.run(program("print(1)", name))
        harness.results()
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    (kept,) = (tmp_path / "state" / "output").iterdir()
    assert kept.read_text("utf-8").endswith("\n1\n")


def test_output_that_cannot_be_kept_fails_no_hook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full, or the folder is not a folder."""
    (tmp_path / "output").write_text("", "utf-8")
    with hook_harness(tmp_path) as harness:
        harness.run(program("print(1)"))
        assert harness.failure() == ""
    assert "cannot keep the output of hook main in" in caplog.text
