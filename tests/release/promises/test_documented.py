"""What is promised is documented: a name that no page explains cannot be relied on."""

import re

import pytest

from tests.docs.pages import DOCS, text_of
from tests.release.promises.program_surfaces import kubernetes, variables
from tests.release.promises.python_surface import python_api

PAGES = {
    "read by commands, the service, the SDK and the agent": ["compatibility.md"],
    "for the programs of exec and certify": ["exec.md", "certify.md"],
    "for hooks of the agent": ["agent.md"],
    "for the program of the command driver": ["driver-command.md"],
}


def test_every_group_of_variables_has_a_page() -> None:
    """A new group needs one."""
    assert PAGES.keys() == variables().keys()


@pytest.mark.parametrize("group", PAGES)
def test_every_variable_is_documented(group: str) -> None:
    """On the page of the programs that get or set it."""
    text = "".join(text_of(DOCS / page) for page in PAGES[group])
    assert [name for name in variables()[group] if f"`{name}`" not in text] == []


def test_every_name_of_a_test_cloud_is_documented() -> None:
    """docs/pytest.md shows each method and attribute of a cloud and of what it makes."""
    page = text_of(DOCS / "pytest.md")
    members = [line for parts in python_api()["fairwarning.testing"].values() for line in parts]
    names = {re.split(r"[(:]", line)[0] for line in members} - {"__init__", "__enter__"}
    assert sorted(name for name in names if not re.search(rf"[.`]{name}\b", page)) == []


def test_every_name_on_a_node_is_documented() -> None:
    """docs/agent-kubernetes.md lists taint, labels, annotations, condition and Events."""
    page = text_of(DOCS / "agent-kubernetes.md")
    names = [re.sub(r":.*", "", line).split()[-1] for line in kubernetes()]
    assert [name for name in names if name not in page] == []
