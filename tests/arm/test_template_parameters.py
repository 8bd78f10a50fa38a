"""Parameters of a template: their values, their rules, and which are secret."""

import pytest

from fairwarning.arm.templates.template import Template
from tests.arm.evaluation import SCOPE, Json, bodies, evaluate, net, refusal, refused

DEFINITIONS: Json = {
    "port": {"type": "int", "minValue": 1},
    "disk": {
        "type": "object",
        "properties": {
            "lun": {"$ref": "#/definitions/port"},
            "name": {"type": "string", "nullable": True},
        },
        "additionalProperties": False,
    },
    "loop": {"$ref": "#/definitions/loop"},
}


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        ({"type": "String"}, "a"),
        ({"type": "securestring"}, ""),
        ({"type": "int"}, -3),
        ({"type": "bool"}, False),
        ({"type": "object"}, {"[a]": "[b]"}),
        ({"type": "secureObject"}, {}),
        ({"type": "array"}, [1, "a"]),
        ({"type": "string", "allowedValues": ["a", "b"]}, "b"),
        ({"type": "array", "allowedValues": ["a", "b", "c"]}, ["c", "a"]),
        ({"type": "string", "minLength": 2, "maxLength": 2}, "ab"),
        ({"type": "array", "minLength": 1}, [0]),
        ({"type": "int", "minValue": 5, "maxValue": 5}, 5),
        ({"$ref": "#/definitions/port"}, 5),
        ({"$ref": "#/definitions/disk"}, {"lun": 1}),
        ({"type": "string", "nullable": True}, None),
    ],
)
def test_parameters_have_the_values_that_are_sent(rules: Json, value: object) -> None:
    """A value that the declaration, or the definition that it refers to, allows is unchanged."""
    resource = net("a", tags="[parameters('P')]")
    declared = {"definitions": DEFINITIONS, "parameters": {"p": rules}}
    assert bodies(evaluate(declared | {"resources": [resource]}, {"p": value})) == {
        "a": {"tags": value}
    }


@pytest.mark.parametrize(
    ("rules", "value", "message"),
    [
        ({"type": "string"}, None, "parameters.p: it has no default value: send a value"),
        ({"type": "string"}, 5, "parameters.p: its type is string, so it must be string, not int"),
        ({"type": "int"}, True, "must be int, not bool"),
        ({"type": "int"}, "5", "must be int, not string"),
        ({"type": "object"}, [], "must be object, not array"),
        ({"type": "text"}, "a", "is one of string, securestring, int, bool, object, secureobject"),
        ({}, "a", "a parameter needs a type"),
        ([], "a", "a parameter needs a type"),
        ({"type": "string", "allowedValues": ["a", "b"]}, "c", "its allowedValues: 'a', 'b'"),
        ({"type": "array", "allowedValues": [1]}, [1, True], "one of its allowedValues: 1"),
        ({"type": "string", "minLength": 2}, "a", "its minLength is 2"),
        ({"type": "array", "maxLength": 0}, ["a"], "its maxLength is 0"),
        ({"type": "int", "minValue": 2}, 1, "its minValue is 2"),
        ({"type": "int", "maxValue": 2}, 3, "its maxValue is 2"),
        ({"type": "int", "maxValue": "2"}, 3, "maxValue must be int, not string"),
        ({"type": "int", "allowedValues": 2}, 3, "allowedValues must be array, not int"),
        ({"type": "string", "defaultValue": "[parameters('p')]"}, None, "this refers to itself"),
        ({"type": "string", "defaultValue": "[no()]"}, None, "'no' is not supported"),
        ({"type": "securestring", "defaultValue": "[no()]"}, None, "(and is not shown)"),
        ({"$ref": "#/definitions/port"}, 0, "its minValue is 1"),
        ({"$ref": "#/definitions/none"}, 1, "which are: port, disk, loop"),
        ({"$ref": "#/definitions/loop"}, 1, "a parameter needs a type"),
        ({"$ref": 5}, 1, "the name of a definition"),
    ],
)
def test_parameters_that_are_refused(rules: object, value: object, message: str) -> None:
    """The error names the parameter, or its part, and the allowed values."""
    template = {"definitions": DEFINITIONS, "parameters": {"p": rules}}
    assert message in refused(template, {} if value is None else {"p": value})


def test_parameters_must_be_declared_and_have_values() -> None:
    """An undeclared parameter is an error, and so is one without a value member."""
    assert "not declare these parameters: adminname" in refused({}, {"adminName": "me"})
    for parameter, message in (
        ("me", 'must be sent as {"value": ...}'),
        ({"reference": {"keyVault": {}}}, "secrets from a key vault are not supported"),
    ):
        properties = {
            "mode": "Incremental",
            "template": {"parameters": {"p": {"type": "string"}}},
            "parameters": {"p": parameter},
        }
        assert message in refusal(lambda sent=properties: Template(sent, SCOPE))  # type: ignore[misc]


@pytest.mark.parametrize(
    "more",
    [
        {"parameters": {"p": {"type": "int"}}},
        {"parameters": {"p": {"type": "securestring", "maxLength": 3}}},
        {"parameters": {"p": {"type": "securestring", "allowedValues": ["hunter3"]}}},
        {"parameters": {"p": {"type": "securestring", "allowedValues": ["hunter2x"]}}},
        {"variables": {"a": "[int(parameters('p'))]"}},
        {"variables": {"a": "[fail(parameters('p'))]"}},
        {"variables": {"a": "[variables(parameters('p'))]"}},
        {"variables": {"a": "[resourceGroup()[parameters('p')]]"}},
        {"variables": {"a": "[resourceId(parameters('p'), parameters('p'))]"}},
        {"resources": [net("a", "[parameters('p')]")]},
        {"resources": [net("[parameters('p')]"), net("[parameters('p')]")]},
        {"resources": [net("[parameters('p')]", "[parameters('p')]")]},
        {"resources": [net("a", apiVersion="[parameters('p')]")]},
        {"resources": [net("a", type="[parameters('p')]")]},
        {"resources": [net("a", condition="[parameters('p')]")]},
    ],
)
def test_errors_do_not_show_secrets(more: Json) -> None:
    """No error contains the value of a secure string, wherever the template uses it."""
    template = {"parameters": {"p": {"type": "securestring"}}} | more
    assert "hunter" not in refused(template, {"p": "hunter2"})


def test_the_time_and_new_guids_are_only_for_defaults() -> None:
    """Elsewhere a template would have other values each time that it is evaluated."""
    declared = {
        "now": {"type": "string", "defaultValue": "[utcNow()]"},
        "day": {"type": "string", "defaultValue": "[utcNow('yyyy-MM-dd')]"},
        "id": {"type": "string", "defaultValue": "[newGuid()]"},
    }
    parameters = evaluate({"parameters": declared}).parameters()
    assert parameters["now"]["value"] == "20231114T221320Z"
    assert parameters["day"]["value"] == "2023-11-14"
    assert len(parameters["id"]["value"]) == 36
    for text in ("[utcNow()]", "[newGuid()]"):
        assert "only in the default value" in refused({"variables": {"v": text}})
