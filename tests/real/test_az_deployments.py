"""The unmodified Azure CLI and template files: `az deployment group` and its subcommands."""

import json
from pathlib import Path

import pytest

from tests.fixtures.programs import ROOT
from tests.real.azure_cli import GROUP, AzureCliService

FLEET = """
[cloud]
group = "rg"
"""
TEMPLATE = (ROOT / "tests" / "real" / "tools" / "template.json").read_text("utf-8")
IN_GROUP = ("--resource-group", GROUP)
DEPLOYMENT = (*IN_GROUP, "--name", "fleet")


def options(path: Path, *parameters: str) -> tuple[str, ...]:
    """Return the options for the template file and its parameters."""
    given = ("adminPassword=S3cret-in-no-log", *parameters)
    return ("--template-file", str(path), "--parameters", *given)


@pytest.mark.spec("C2", "C1")
@pytest.mark.usefixtures("az")
def test_a_template_file(tmp_path: Path) -> None:
    """`az deployment group validate`, `create`, `show`, `export` and `operation`; no `what-if`."""
    file = tmp_path / "template.json"
    file.write_text(TEMPLATE)
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        deployment = ("deployment", "group")
        done = service.az(*deployment, "what-if", *DEPLOYMENT, *options(file))
        assert done.returncode == 1
        assert "What-if is not offered" in done.stderr
        assert "Traceback" not in done.stderr
        valid = service.az_json(*deployment, "validate", *DEPLOYMENT, *options(file))
        assert valid["properties"]["provisioningState"] == "Succeeded"
        assert service.machines() == {}

        created = service.az_json(*deployment, "create", *DEPLOYMENT, *options(file))
        assert created["properties"]["provisioningState"] == "Succeeded"
        assert created["properties"]["outputs"]["names"]["value"] == ["vm0", "vm1"]
        assert len(created["properties"]["outputResources"]) == 5
        assert [*service.machines()] == ["vm0", "vm1"]
        parameters = created["properties"]["parameters"]
        assert parameters["adminPassword"] == {"type": "SecureString"}
        assert parameters["count"] == {"type": "Int", "value": 2}

        operations = service.az_json("deployment", "operation", "group", "list", *DEPLOYMENT)
        names = [
            operation["properties"]["targetResource"]["resourceName"]
            for operation in operations
            if operation["properties"].get("targetResource")
        ]
        assert names == ["net", "nic0", "nic1", "vm0", "vm1"]
        exported = service.az_json(*deployment, "export", *DEPLOYMENT)
        assert exported["resources"][0]["name"] == "net"
        assert "S3cret" not in json.dumps(exported)
        assert [entry["name"] for entry in service.az_json(*deployment, "list", *IN_GROUP)] == [
            "fleet"
        ]

        assert "Error" in service.az_error(*deployment, "cancel", *DEPLOYMENT).title()
        service.az_json(*deployment, "delete", *DEPLOYMENT)
        assert service.az_json(*deployment, "list", *IN_GROUP) == []


@pytest.mark.spec("C2")
@pytest.mark.usefixtures("az")
def test_template_files_that_are_refused(tmp_path: Path) -> None:
    """The Azure CLI prints the error of the template, and creates nothing."""
    file = tmp_path / "template.json"
    with AzureCliService(tmp_path / "data", fleet=FLEET) as service:
        file.write_text(TEMPLATE.replace("format('vm{0}'", "shout('vm{0}'"))
        for verb in ("validate", "create"):
            done = service.az("deployment", "group", verb, *DEPLOYMENT, *options(file))
            assert done.returncode == 1
            assert "the function 'shout' is not supported" in done.stderr
            assert "Traceback" not in done.stderr
        assert service.machines() == {}
