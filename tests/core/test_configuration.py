"""What a wrong value in a TOML file is answered with."""

from collections.abc import Callable

import pytest

from fairwarning.core import configuration
from fairwarning.core.configuration import ConfigurationError
from fairwarning.core.errors import Refused

WORDS = configuration.one_of(("daily", "weekly"))
SOME = configuration.list_of(configuration.flag, least=1)


def _table(raw: object) -> configuration.Table:
    return configuration.table(raw, {"on": configuration.flag, "often": WORDS}, "on")


def _elsewhere(_: object) -> None:
    with configuration.at("agent 1"), configuration.at("url"):
        raise Refused("BadUrl", "has no host")


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (WORDS, "dayly", "must be one of daily, weekly, not 'dayly'; did you mean daily?"),
        (WORDS, "Weekly", "must be one of daily, weekly, not 'Weekly'; did you mean weekly?"),
        (WORDS, "x" * 61, f"must be one of daily, weekly, not '{'x' * 60}'"),
        (WORDS, 7, "must be one of daily, weekly, not 7"),
        (configuration.flag, "true", "must be true or false, not 'true'"),
        (configuration.flag, 1, "must be true or false, not 1"),
        (SOME, [], "must be a non-empty array, not an empty array"),
        (SOME, {}, "must be a non-empty array, not a table"),
        (configuration.list_of(WORDS), True, "must be an array, not true"),
        (configuration.list_of(WORDS), 1.5, "must be an array, not a fraction or a date"),
        (configuration.checked(lambda _: "less"), 10**12 - 1, "must be less, not 999999999999"),
        (
            configuration.checked(lambda _: "less"),
            10**12,
            "must be less, not a number of that size",
        ),
        (configuration.checked(lambda _: "less"), [1], "must be less, not an array"),
        (_table, [], "must be a table, not an empty array"),
        (_table, {}, "on is missing"),
        (_table, {"on": 1}, "on: must be true or false, not 1"),
        (_table, {"oft": True}, "there is no key 'oft'; did you mean often?"),
        (_table, {"x" * 61: True}, f"there is no key '{'x' * 60}'; known here: on, often"),
        (_elsewhere, "", "agent 1, url: has no host"),
        (
            configuration.parse_toml,
            "a = 1\nb =",
            "this is not TOML: Invalid value (at line 2, column 4)",
        ),
        (
            configuration.parse_toml,
            "a = 1" + "0" * 5000,
            "a number has thousands of digits, or an array thousands of levels",
        ),
    ],
)
def test_what_an_error_says(read: Callable[..., object], value: object, message: str) -> None:
    """The place, what is allowed there, what is written there, and what was probably meant."""
    with pytest.raises(ConfigurationError) as error:
        read(value)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("read", "value", "known"),
    [
        (WORDS, "weekly", "weekly"),
        (SOME, [True, False], (True, False)),
        (configuration.list_of(WORDS), [], ()),
        (configuration.checked(lambda _: None), 7, 7),
        (_table, {"on": True}, {"on": True}),
        (configuration.tables, [{}], [{}]),
        (configuration.parse_toml, "a = 1", {"a": 1}),
    ],
)
def test_what_is_right(read: Callable[..., object], value: object, known: object) -> None:
    """It is read as it is."""
    assert read(value) == known


def test_an_array_of_tables() -> None:
    """A single table is refused with how to write an array."""
    with pytest.raises(ConfigurationError, match=r"double brackets, \[\[\.\.\.\]\]"):
        configuration.tables({})


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ({"name": "a"}, 'agent 1 ("a")'),
        ({"name": "x" * 200}, f'agent 1 ("{"x" * 200}")'),
        ({"name": "x" * 201}, "agent 1"),
        ({"name": "a\n"}, "agent 1"),
        ({"name": ""}, "agent 1"),
        ({"name": 7}, "agent 1"),
        ({}, "agent 1"),
        ([], "agent 1"),
    ],
)
def test_the_place_of_an_entry(raw: object, place: str) -> None:
    """Its number, and its name if that can be shown."""
    assert configuration.place_of("agent", 1, raw) == place
