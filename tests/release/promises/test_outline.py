"""The comparison tells additions from breaks."""

from tests.release.promises.outline import OutlineChanges, compare, parse, render

BEFORE = """\
machine restart
    1. MACHINE...: text (required)
    --wait: flag
machine stop
    1. MACHINE: text (required)
"""


def changes(after: str) -> OutlineChanges:
    """The changes since BEFORE."""
    return compare(parse(BEFORE), parse(after))


def test_an_outline_survives_its_text() -> None:
    """Rendering and parsing are inverse."""
    assert render(parse(BEFORE)) == BEFORE


def test_equal_outlines_have_no_changes() -> None:
    """Neither additions nor breaks."""
    assert changes(BEFORE) == OutlineChanges([], [])


def test_an_option_or_a_command_is_an_addition() -> None:
    """The parts of a new command are not listed again, even if they are required."""
    after = BEFORE + "    --json: flag\nmachine start\n    1. MACHINE: text (required)\n"
    assert changes(after) == OutlineChanges(
        ["added: machine start", "added: machine stop / --json: flag"], []
    )


def test_a_removal_is_a_break() -> None:
    """Of a command or of an option."""
    after = BEFORE.replace("    --wait: flag\n", "").replace("machine stop", "machine halt")
    assert changes(after) == OutlineChanges(
        ["added: machine halt"],
        ["removed: machine restart / --wait: flag", "removed: machine stop"],
    )


def test_a_change_is_a_break() -> None:
    """A line of the same name is shown before and after."""
    after = BEFORE.replace("--wait: flag", "--wait: duration")
    assert changes(after) == OutlineChanges(
        [], ["changed: machine restart / --wait: flag  ->  --wait: duration"]
    )


def test_a_new_requirement_is_a_break() -> None:
    """Whoever used the command before does not meet it."""
    after = BEFORE + "    --reason: text (required)\n"
    assert changes(after) == OutlineChanges([], ["added: machine stop / --reason: text (required)"])
