"""Text of others, as it is shown in terminals and logs."""

import pytest

from fairwarning.core.printable import printable


@pytest.mark.parametrize(
    ("text", "options", "shown"),
    [
        ("plain text", {}, "plain text"),
        ("größer", {}, "größer"),
        ("a\x00\x1b[2J\u202e", {}, r"a\x00\x1b[2J\u202e"),
        ("a\nb\tc", {"keep": "\n"}, "a\nb\\tc"),
        ("abcdef", {"most": 4}, "abcd"),
        ("ab\x00cd", {"most": 4}, r"ab\x"),
    ],
)
def test_what_is_not_printable_is_escaped(
    text: str, options: dict[str, object], shown: str
) -> None:
    """No control character reaches a terminal, and the result is as short as was asked for."""
    assert printable(text, **options) == shown  # type: ignore[arg-type]
