"""A name has one spelling. A second one, once it works, is a promise that nobody has made."""

import pytest
from click.testing import CliRunner

from fairwarning.cli import agent
from fairwarning.cli.commands import program


@pytest.mark.parametrize("words", [["run", "--conf", "x"], ["check", "--js"]])
def test_the_agent_takes_no_abbreviations(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A new option would make them ambiguous."""
    with pytest.raises(SystemExit) as ended:
        agent._parser().parse_args(words)
    assert ended.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["machine", "list", "--jso"], ["machine", "lis"], ["token", "ci", "--role", "reader"]]
)
def test_commands_take_no_abbreviations(words: list[str]) -> None:
    """Neither of options nor of verbs; a verb cannot be left out."""
    result = CliRunner().invoke(program, words)
    assert result.exit_code == 2
    assert "No such" in result.output
