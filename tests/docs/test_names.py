"""Commands, options, API paths, files and make targets that a page names exist."""

import re
import tokenize
from pathlib import Path

import click
import pytest

from fairwarning.arm.registry import TYPES
from fairwarning.service.config import values
from tests.docs.chapters import api, cli, contract
from tests.docs.pages import GENERATED, ROOT, name, pages, text_of
from tests.release.conformance.rows import all_rows, planned

PAGES = [page for page in pages() if GENERATED not in page.parents]
COMMANDS = cli.tree()
AGENT = cli.agent_help()
_FREE = {"exec", "certify", "az"}  # their arguments belong to another program
_TARGETS = re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def _snippets(page: Path) -> list[str]:
    """Return the inline code of a page and the lines of its blocks."""
    text = text_of(page).replace("\\\n", " ")
    inline = re.findall(r"`([^`\n]+)`", text)
    fenced = re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [*inline, *(line for block in fenced for line in block.splitlines())]


def _typed(page: Path) -> list[list[str]]:
    """Return the fairwarning commands that a page names, as words."""
    pattern = re.compile(r"(?:^|[$(;&|-] |=)fairwarning ([a-z][^|;&)#>]*)")
    return [text.split() for line in _snippets(page) for text in pattern.findall(line.strip())]


def find_error(words: list[str]) -> str:
    """Return what is wrong with a command, or an empty string."""
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
    known = {text for option in command.params for text in (*option.opts, *option.secondary_opts)}
    return ", ".join(option for option in _options(words) if option not in known | {"--help"})


def _options(words: list[str]) -> list[str]:
    matches = [re.match(r"\[?(--[a-z][a-z-]*)", word) for word in words]
    return [match[1] for match in matches if match]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page: Path) -> None:
    """Noun, verb and options exist; a word in capitals is a placeholder."""
    typed = [words for words in _typed(page) if not words[0].isupper()]
    assert [(" ".join(words), error) for words in typed if (error := find_error(words))] == []


def _requests(page: Path) -> set[tuple[str, str]]:
    """Return the API requests that a page names: method, or an empty string, and path."""
    text = text_of(page)
    requests = re.findall(
        r"(?:\b(GET|POST|PATCH|DELETE) )?(?:http://127\.0\.0\.1:8170)?(/api/[\w/{}.-]*\w\}?)", text
    )
    return {(method, path) for method, path in requests if path != "/api/openapi.json"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_requests_exist(page: Path) -> None:
    """Each API path, with its method if given, is in the OpenAPI document."""
    known = {
        (method.upper(), re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
        for path, methods in api.document()["paths"].items()
        for method in methods
    }
    missing = [
        (method, path)
        for method, path in _requests(page)
        if not any(method in ("", verb) and re.fullmatch(shape, path) for verb, shape in known)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_and_make_targets_exist(page: Path) -> None:
    """Files below deploy, docs, examples, src and tests, and the targets of `make`."""
    text = text_of(page)
    files = re.findall(r"(?<![\w/.-])((?:deploy|docs|examples|src|tests)/[\w/.-]*\w)", text)
    assert [file for file in files if not (ROOT / file).exists()] == []
    targets = re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)
    assert [target for target in targets if target not in _TARGETS] == []


def test_every_key_of_the_fleet_file_is_documented() -> None:
    """The page explains each key; the generated reference lists its allowed values."""
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
    defined = {name for chapter in contract.definitions().values() for name in chapter}
    defined |= all_rows().keys() | planned().keys() | planned("invariants").keys()
    named = re.compile(r"\b(?:I[BCDGKLRS]|[MECTGOX])[0-9]{1,2}\b")
    unknown = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in sorted((ROOT / "src").rglob("*.py"))
        if not defined.issuperset(named.findall(path.read_text("utf-8")))  # else slow
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


@pytest.mark.spec("C8")
def test_the_table_of_types_is_that_of_the_registry() -> None:
    """docs/arm.md lists what acts, with what the service does with it; all else is only stored."""
    text = text_of(ROOT / "docs" / "arm.md")
    table = text.partition("<!-- types")[2].partition("<!-- end of types")[0].splitlines()[3:]
    expected = [f"| `{kind.name}` | {kind.purpose} |" for kind in TYPES]
    assert table == [*expected, "| any other `Microsoft.*` type | is only stored |"]
