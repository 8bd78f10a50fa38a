"""Whatever a page names is there: commands with their options, paths of the API, files, rules."""

import re
import tokenize
from pathlib import Path

import click
import pytest

from fairwarning.service.config import values
from tests.conformance.rows import all_rows
from tests.docs.chapters import api, cli, invariants
from tests.docs.pages import GENERATED, ROOT, pages, text_of

PAGES = [page for page in pages() if GENERATED not in page.parents]
COMMANDS = cli.tree()
AGENT = cli.agent_help()
_FREE = {"exec", "certify", "az"}  # what stands behind their own words is another program's
_TARGETS = re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def name(page: Path) -> str:
    """What a page is called in a report."""
    return str(page.relative_to(ROOT))


def _snippets(page: Path) -> list[str]:
    """What a page has in `code` and in blocks, a line each."""
    text = text_of(page).replace("\\\n", " ")
    inline = re.findall(r"`([^`\n]+)`", text)
    fenced = re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [*inline, *(line for block in fenced for line in block.splitlines())]


def _typed(page: Path) -> list[list[str]]:
    """The commands of ours that a page names, as words."""
    pattern = re.compile(r"(?:^|[$(;&|-] |=)fairwarning ([a-z][^|;&)#>]*)")
    return [one.split() for line in _snippets(page) for one in pattern.findall(line.strip())]


def wrong(words: list[str]) -> str:
    """What is wrong about a command, if anything is."""
    noun, verb = words[0], next(iter(words[1:]), "")
    if noun == "agent":
        text = AGENT.get(f"agent {verb}", AGENT["agent"] if not verb else "")
        return "" if all(option in text for option in _options(words)) and text else "no such verb"
    command = COMMANDS.get(noun)
    if command is None:
        return f"there is no {noun}"
    if isinstance(command, click.Group) and verb and verb != "--help":
        command = COMMANDS.get(f"{noun} {verb}")
        if command is None:
            return f"{noun} has no {verb}"
    if noun in _FREE:
        words = words[: words.index("--")] if "--" in words else words[:1]
    known = {text for one in command.params for text in (*one.opts, *one.secondary_opts)}
    return ", ".join(one for one in _options(words) if one not in known | {"--help"})


def _options(words: list[str]) -> list[str]:
    found = [re.match(r"\[?(--[a-z][a-z-]*)", word) for word in words]
    return [one[1] for one in found if one]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_its_commands_exist(page: Path) -> None:
    """Noun, verb and options; a placeholder in capitals may stand for a word."""
    typed = [words for words in _typed(page) if not words[0].isupper()]
    assert [(" ".join(words), fault) for words in typed if (fault := wrong(words))] == []


def test_a_command_that_does_not_exist_is_found() -> None:
    """Or else the test above proves nothing."""
    assert wrong(["machin", "list"])
    assert wrong(["machine", "reboot", "web_0"])
    assert wrong(["machine", "restart", "web_0", "--now"])
    assert wrong(["agent", "stop"])
    assert not wrong(["machine", "restart", "web_0", "--wait"])
    assert not wrong(["exec", "web_0", "--", "./handler", "--now"])


def _requests(page: Path) -> set[tuple[str, str]]:
    """Method, if it is said, and path."""
    text = text_of(page)
    found = re.findall(
        r"(?:\b(GET|POST|PATCH|DELETE) )?(?:http://127\.0\.0\.1:8170)?(/api/[\w/{}.-]*\w\}?)", text
    )
    return {(method, path) for method, path in found if path != "/api/openapi.json"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_its_requests_exist(page: Path) -> None:
    """A path of the API as the document has it, with the method if one is named."""
    known = {
        (method.upper(), re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
        for path, methods in api.document()["paths"].items()
        for method in methods
    }
    missing = [
        (method, path)
        for method, path in _requests(page)
        if not any(method in ("", one) and re.fullmatch(shape, path) for one, shape in known)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_its_files_and_rules_exist(page: Path) -> None:
    """What is called tests/..., examples/..., src/..., and what `make` is asked for."""
    text = text_of(page)
    files = re.findall(r"(?<![\w/.-])((?:tests|examples|src)/[\w/.-]*\w)", text)
    assert [one for one in files if not (ROOT / one).exists()] == []
    asked = re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)
    assert [one for one in asked if one not in _TARGETS] == []


def test_every_key_of_the_fleet_file_is_told() -> None:
    """What each is for; what it may hold is in the reference, which is generated."""
    page = text_of(ROOT / "docs" / "fleet-file.md")
    tables = (
        *(values.CLOUD, values.ENDPOINT, values.CONTROL_PLANE, values.CONSOLE),
        *(values.DRIVER, values.CLUSTER, values.JOURNAL),
        *(values._RULES, values.ENTRY, values.MACHINE, values.DOMAINS),
        *(values.SCALE_SET, values.COUNT, {"machines": None, "roles": None}),
    )
    assert [key for table in tables for key in table if f"`{key}`" not in page] == []


def test_every_id_in_the_sources_is_defined() -> None:
    """A reader finds each contract row and invariant that a comment names (`E5`, `IL3`)."""
    defined = {name for chapter in invariants.definitions().values() for name in chapter}
    defined |= all_rows().keys()
    named = re.compile(r"\b(?:I[CDGKLS]|[MECTGOX])[0-9]{1,2}\b")
    unknown = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in _comments(path)
        for name in named.findall(text)
        if name not in defined
    }
    assert not unknown


def _comments(path: Path) -> list[str]:
    """Comments and docstrings of a file."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return [
        token.string
        for token in tokens
        if token.type == tokenize.COMMENT or token.string.startswith('"""')
    ]
