"""docs/python-sdk.md documents every exported name with its current signature."""

import inspect
import re
from dataclasses import fields, is_dataclass
from enum import StrEnum

import pytest

import fairwarning
from tests.docs.pages import DOCS, text_of

PAGE = text_of(DOCS / "python-sdk.md")
CLIENTS = ("ScheduledEvents", "AsyncScheduledEvents")


def exported(kind: type) -> list[str]:
    """Return the exported names of this kind."""
    objects = {name: getattr(fairwarning, name) for name in fairwarning.__all__}
    if kind is object:
        return [name for name, thing in objects.items() if is_dataclass(thing)]
    return [name for name, thing in objects.items() if kind in getattr(thing, "__mro__", ())]


def section(name: str) -> str:
    """Return the part of the page below the heading that has this name."""
    (part,) = re.findall(rf"^## [^\n]*\b{name}\b.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(part)


def signature(name: str) -> str:
    """Return the call as the page writes it: names and defaults, without annotations."""
    shown = []
    for parameter in inspect.signature(getattr(fairwarning, name)).parameters.values():
        default = parameter.default
        text = "" if default is parameter.empty else f"={default!r}".replace("'", '"')
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(parameter.name + text)
    return f"{name}({', '.join(shown)})"


@pytest.mark.parametrize("name", fairwarning.__all__)
def test_every_exported_name_is_documented(name: str) -> None:
    """In the table of names, and in an example or a signature."""
    assert f"`{name}`" in PAGE.partition("## ")[0]
    assert len(re.findall(rf"\b{name}\b", PAGE)) > 1


@pytest.mark.parametrize("name", [*CLIENTS, *exported(object)])
def test_signatures_are_current(name: str) -> None:
    """Parameters and defaults, as the program has them."""
    assert f"`{signature(name)}`" in PAGE


@pytest.mark.parametrize("name", [*exported(object), *exported(StrEnum)])
def test_every_attribute_and_member_is_documented(name: str) -> None:
    """In the section of the value or the enumeration."""
    kind = getattr(fairwarning, name)
    members = getattr(kind, "__members__", {})
    named = [f"`{member}`" for member in members] or [field.name for field in fields(kind)]
    assert [text for text in named if text not in section(name)] == []


@pytest.mark.parametrize("name", CLIENTS)
def test_every_method_of_a_client_is_documented(name: str) -> None:
    """The clients have the same methods, so the table of ScheduledEvents covers both."""
    public = [attribute for attribute in vars(getattr(fairwarning, name)) if attribute[0] != "_"]
    text = section(r"ScheduledEvents")
    assert [attribute for attribute in public if f"`{attribute}" not in text] == []
