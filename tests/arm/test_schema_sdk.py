"""The kept shapes are those of the installed SDK, which is generated from Azure's own."""

import json
from typing import Any

import pytest

from deploy.schema.__main__ import FILE, PACKAGES, generate, installed, text_of
from fairwarning.arm.schema import overlay

pytestmark = pytest.mark.spec("C6")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def kept() -> Json:
    """Return the content of shapes.json."""
    content: Json = json.loads(FILE.read_text("utf-8"))
    return content


def test_the_shapes_are_those_of_the_sdk(kept: Json) -> None:
    """The generator writes what is kept."""
    for provider, package in PACKAGES.items():
        if kept[provider]["sdk"] != installed(package):
            pytest.skip(f"{installed(package)} is installed, {FILE.name} is of another version")
    assert FILE.read_text("utf-8") == f"{text_of(generate())}\n", "run `python -m deploy.schema`"


def test_the_overlay_names_models_of_the_sdk(kept: Json) -> None:
    """A model or a word that a new version of the SDK renames does not stop being exact."""
    compute, network = kept["Microsoft.Compute"], kept["Microsoft.Network"]
    models = overlay.EXACT | overlay.MEMBERS.keys()
    assert models <= compute["models"].keys()
    assert models.isdisjoint(network["models"])
    assert overlay.WORDS.keys().isdisjoint(network["words"])
    for name, closed in overlay.WORDS.items():
        assert set(closed.words) <= set(compute["words"][name]), name
