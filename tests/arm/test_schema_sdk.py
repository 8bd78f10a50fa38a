"""The kept shapes are those of the installed SDK, which is generated from Azure's own."""

import json
from typing import Any

import pytest

from deploy.schema.__main__ import FILE, PACKAGES, generate, installed, text_of
from fairwarning.arm.schema.types import overlay

pytestmark = pytest.mark.spec("C6")

Json = dict[str, Any]
NOT_IN_SDK = {"AutoOSUpgradePolicy", "ResourceGroup", "ResourceGroupProperties"}


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
    models = {*overlay()["exact"], *overlay()["models"]} - NOT_IN_SDK
    assert models <= compute["models"].keys()
    assert models.isdisjoint(network["models"])
    assert overlay()["words"].keys().isdisjoint(network["words"])
    for name, words in overlay()["words"].items():
        assert set(words) <= set(compute["words"][name]), name
