import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.template import RESOURCES, DeploymentScope, ReferenceNeeded, Template
from fairwarning.arm.templates.values import DEPTH
from fairwarning.core.errors import Refused

Json = dict[str, Any]
Value = Any

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/shop"
NETWORK = f"{GROUP}/providers/Microsoft.Network"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
SCOPE = DeploymentScope(
    subscription=SUBSCRIPTION, group="shop", location="westeurope", name="deploy_1"
)
KNOWN = {
    ("microsoft.network", "virtualnetworks"): ["2022-01-01", "2021-02-01"],
    ("microsoft.compute", "virtualmachinescalesets"): ["2026-04-01", "2024-11-01"],
}


def versions(namespace: str, kind: str) -> list[str]:
    """Return the versions of a resource type of these tests."""
    return KNOWN.get((namespace.lower(), kind.lower()), [])


def evaluate(template: Json, values: Json | None = None) -> Template:
    """Return a template with these values of its parameters."""
    parameters = {name: {"value": value} for name, value in (values or {}).items()}
    properties = {"mode": "Incremental", "template": template, "parameters": parameters}
    return Template(properties, SCOPE, versions)


def refusal(make: Callable[[], object]) -> str:
    """Return the error message of an invalid template."""
    with pytest.raises(Refused) as caught:
        make()
    assert caught.value.code == "InvalidTemplate"
    return caught.value.message


def refused(template: Json, values: Json | None = None) -> str:
    """Return the error message of an invalid template with these values."""
    return refusal(lambda: evaluate(template, values))


def net(name: str, *after: str, **more: object) -> Json:
    """Return a virtual network that depends on others."""
    kind = "Microsoft.Network/virtualNetworks"
    own = {"type": kind, "name": name, "apiVersion": "2022-01-01", "dependsOn": [*after]}
    return own | more


def names(*resources: Json) -> list[str]:
    """Return the names of resources in the order of deployment."""
    return [step.name for step in evaluate({"resources": [*resources]}).resources]


def output(text: object, values: Json | None = None, **sections: object) -> Value:
    """Return the value of an expression in an output."""
    declared = {name: {"type": _TYPES[type(value)]} for name, value in (values or {}).items()}
    wrapped = f"[createArray({text[1:-1]})]" if isinstance(text, str) else [text]
    outputs = {"result": {"type": "array", "value": wrapped}}
    template = {"parameters": declared, "outputs": outputs, **sections}
    return evaluate(template, values).outputs({})["result"]["value"][0]


_TYPES = {str: "string", int: "int", bool: "bool", list: "array", dict: "object"}


# --- Templates of the Azure CLI -----------------------------------------------------------------

SCALE_SET: Json = {
    "$schema": "https://example.org/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "parameters": {"adminPassword": {"type": "securestring", "metadata": {"description": "x"}}},
    "variables": {},
    "resources": [
        {
            "type": "Microsoft.Compute/virtualMachineScaleSets",
            "name": "web",
            "apiVersion": "2026-04-01",
            "location": "westeurope",
            "tags": {"team": "shop"},
            "sku": {"name": "Standard_B1s", "capacity": 2},
            "zones": ["1"],
            "dependsOn": [
                "Microsoft.Network/virtualNetworks/webVNET",
                "Microsoft.Network/loadBalancers/webLB",
                "Microsoft.Network/networkSecurityGroups/webNSG",
            ],
            "properties": {
                "singlePlacementGroup": None,
                "virtualMachineProfile": {
                    "osProfile": {"adminPassword": "[parameters('adminPassword')]"},
                    "networkSecurityGroup": {
                        "id": "[resourceId('Microsoft.Network/networkSecurityGroups', 'webNSG')]"
                    },
                },
            },
        },
        {
            "type": "Microsoft.Network/virtualNetworks",
            "name": "webVNET",
            "apiVersion": "2022-01-01",
            "location": "westeurope",
            "dependsOn": [],
            "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}},
        },
        {
            "type": "Microsoft.Network/loadBalancers",
            "name": "webLB",
            "apiVersion": "2022-01-01",
            "dependsOn": [
                "Microsoft.Network/virtualNetworks/webVNET",
                "Microsoft.Network/publicIpAddresses/webLBPublicIP",
            ],
            "properties": {},
        },
        {
            "type": "Microsoft.Network/publicIPAddresses",
            "name": "webLBPublicIP",
            "apiVersion": "2022-01-01",
            "dependsOn": [],
            "properties": {},
        },
        {
            "type": "Microsoft.Network/networkSecurityGroups",
            "name": "webNSG",
            "apiVersion": "2015-06-15",
            "dependsOn": [],
            "properties": {},
        },
        {
            "type": "Microsoft.Network/loadBalancers/inboundNatRules",
            "name": "webLB/NatRule",
            "apiVersion": "2022-01-01",
            "dependsOn": ["[concat('Microsoft.Network/loadBalancers/', 'webLB')]"],
            "properties": {
                "frontendIPConfiguration": {
                    "id": "[concat(resourceId('Microsoft.Network/loadBalancers', 'webLB'), "
                    "'/frontendIPConfigurations/', 'front')]"
                },
                "frontendPortRangeStart": "50000",
            },
        },
    ],
    "outputs": {
        "VMSS": {
            "type": "object",
            "value": "[reference(resourceId('Microsoft.Compute/virtualMachineScaleSets', 'web'), "
            "providers('Microsoft.Compute', 'virtualMachineScaleSets').apiVersions[0])]",
        }
    },
}


def test_a_scale_set_as_the_azure_cli_sends_it() -> None:
    """Networks come before the scale set that depends on them; dependsOn is case-insensitive."""
    template = evaluate(SCALE_SET, {"adminPassword": "[hunter2]"})
    steps = {step.name: step for step in template.resources}
    assert [*steps] == ["webVNET", "webLBPublicIP", "webLB", "webNSG", "web", "webLB/NatRule"]
    rule = steps["webLB/NatRule"]
    assert rule.id == f"{NETWORK}/loadBalancers/webLB/inboundNatRules/NatRule"
    assert (rule.type, rule.version) == (
        "Microsoft.Network/loadBalancers/inboundNatRules",
        "2022-01-01",
    )
    front = f"{NETWORK}/loadBalancers/webLB/frontendIPConfigurations/front"
    assert template.resource(rule, {}) == {
        "properties": {
            "frontendIPConfiguration": {"id": front},
            "frontendPortRangeStart": "50000",
        }
    }
    assert template.resource(steps["web"], {}) == {
        "location": "westeurope",
        "tags": {"team": "shop"},
        "sku": {"name": "Standard_B1s", "capacity": 2},
        "zones": ["1"],
        "properties": {
            "singlePlacementGroup": None,
            "virtualMachineProfile": {
                "osProfile": {"adminPassword": "[hunter2]"},  # a value is never an expression
                "networkSecurityGroup": {"id": f"{NETWORK}/networkSecurityGroups/webNSG"},
            },
        },
    }
    scale_set = f"{COMPUTE}/virtualMachineScaleSets/web".lower()
    with pytest.raises(ReferenceNeeded) as reference:
        template.outputs({})
    assert reference.value.id == scale_set
    known = {scale_set: {"id": "x", "properties": {"provisioningState": "Succeeded"}}}
    value = {"provisioningState": "Succeeded"}
    assert template.outputs(known) == {"VMSS": {"type": "object", "value": value}}


def test_a_machine_as_the_azure_cli_sends_it() -> None:
    """The role assignment is an extension resource: its type is part of the machine's type."""
    vm = f"{COMPUTE}/virtualMachines/gate"
    resources = [
        {
            "type": "Microsoft.Compute/virtualMachines/providers/roleAssignments",
            "name": "gate/Microsoft.Authorization/7",
            "apiVersion": "2015-07-01",
            "dependsOn": ["Microsoft.Compute/virtualMachines/gate"],
            "properties": {
                "principalId": f"[reference('{vm}', '2019-07-01', 'Full').identity.principalId]"
            },
        },
        {
            "type": "Microsoft.Compute/virtualMachines",
            "name": "gate",
            "apiVersion": "2026-04-01",
            "dependsOn": ["Microsoft.Network/networkInterfaces/gateVMNic"],
            "properties": {"priority": "Spot"},
            "identity": {"type": "SystemAssigned"},
        },
        {
            "type": "Microsoft.Network/networkInterfaces",
            "name": "gateVMNic",
            "apiVersion": "2022-01-01",
            "dependsOn": [
                "Microsoft.Network/virtualNetworks/gateVNET",
                "Microsoft.Network/publicIpAddresses/gatePublicIP",
            ],
        },
        net("gateVNET"),
        {
            "type": "Microsoft.Network/publicIPAddresses",
            "name": "gatePublicIP",
            "apiVersion": "2022-01-01",
        },
    ]
    template = evaluate({"resources": resources, "outputs": {}})
    *networks, machine, role = template.resources
    assert [step.name for step in networks] == ["gateVNET", "gatePublicIP", "gateVMNic"]
    assert role.id == f"{vm}/providers/Microsoft.Authorization/roleAssignments/7"
    assert template.resource(machine, {})["identity"] == {"type": "SystemAssigned"}
    with pytest.raises(ReferenceNeeded) as reference:
        template.resource(role, {})
    known = {reference.value.id: {"identity": {"principalId": "me"}, "properties": {}}}
    assert template.resource(role, known) == {"properties": {"principalId": "me"}}


# --- Functions that depend on the deployment ----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[resourceGroup().id]", GROUP),
        ("[concat(resourceGroup().name, resourceGroup().location)]", "shopwesteurope"),
        ("[subscription().id]", f"/subscriptions/{SUBSCRIPTION}"),
        ("[subscription().subscriptionId]", SUBSCRIPTION),
        ("[empty(subscription().displayName)]", False),
        ("[deployment().name]", "deploy_1"),
        ("[providers('microsoft.network', 'VirtualNetworks').apiVersions[0]]", "2022-01-01"),
        ("[resourceId('A.B/c', 'd')]", f"{GROUP}/providers/A.B/c/d"),
        ("[resourceId('A.B/c/e', 'd', 'f')]", f"{GROUP}/providers/A.B/c/d/e/f"),
        (
            "[resourceId('other', 'A.B/c', 'd')]",
            f"/subscriptions/{SUBSCRIPTION}/resourceGroups/other/providers/A.B/c/d",
        ),
        (
            "[resourceId('sub', 'other', 'A.B/c', 'd')]",
            "/subscriptions/sub/resourceGroups/other/providers/A.B/c/d",
        ),
        (
            f"[resourceId('{OTHER}', 'A.B/c', 'd')]",
            f"/subscriptions/{OTHER}/resourceGroups/shop/providers/A.B/c/d",
        ),
    ],
)
def test_functions_of_the_deployment(text: str, expected: object) -> None:
    """Functions return ids, the group, the subscription, the deployment and api-versions."""
    assert output(text) == expected


def test_variables_may_refer_to_others_in_any_order() -> None:
    """Names of variables are case-insensitive, and their values may have any type."""
    variables = {"a": "[concat(variables('B').text, 'y')]", "b": {"text": "[parameters('P')]"}}
    assert output("[variables('A')]", {"p": "x"}, variables=variables) == "xy"


def test_a_reference_is_to_an_id_or_to_a_name_in_the_template() -> None:
    """It returns the resource's properties, or with 'Full' the whole resource."""
    texts = {
        "id": "[reference(resourceId('Microsoft.Network/virtualNetworks', 'NET')).size]",
        "name": "[reference('Net').size]",
        "end": "[reference('Microsoft.Network/virtualNetworks/net').size]",
        "full": "[reference('net', '2022-01-01', 'full').location]",
    }
    outputs = {name: {"type": "string", "value": text} for name, text in texts.items()}
    template = evaluate({"resources": [net("net")], "outputs": outputs})
    document = {"location": "there", "properties": {"size": "16"}}
    values = template.outputs({f"{NETWORK}/virtualNetworks/net".lower(): document})
    assert [output["value"] for output in values.values()] == ["16", "16", "16", "there"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"variables": {"a": "[reference('x')]"}}, "variables.a: reference('x') is allowed only"),
        ({"resources": [net("[reference('x').y]")]}, "resources[0].name: reference('x') is allow"),
        ({"variables": {"a": "[variables('b')]"}}, "variables.a: variables('b') is not declared"),
        (
            {"variables": {"a": "[variables('b')]", "b": "[variables('a')]"}},
            "variables.a: this refers to itself",
        ),
        ({"variables": {"a": {"b": "[toLower(1)]"}}}, "variables.a.b: toLower() takes string"),
        ({"variables": {"a": "[providers('No.Such', 'x')]"}}, "names an unknown resource type"),
        ({"variables": {"a": "[resourceId('Microsoft.Network', 'x')]"}}, "a name must have a"),
        ({"variables": {"a": "[resourceId('A.B/c', 'x', 'y')]"}}, "a name must have a non-empty"),
        ({"variables": {"a": "[resourceId('A.B/c/d', 'x/y')]"}}, "without a '/'"),
    ],
)
def test_invalid_references(template: Json, message: str) -> None:
    """An expression may not refer to a value that does not exist or is not available yet."""
    assert message in refused(template)


def test_an_ambiguous_or_unknown_reference() -> None:
    """A name without a type must belong to exactly one resource of the template."""
    for text in ("reference('net')", "reference('other')", "reference('net', '', 'Some')"):
        other = net("net", type="Microsoft.Network/loadBalancers")
        outputs = {"result": {"type": "object", "value": f"[{text}]"}}
        template = evaluate({"resources": [net("net"), other], "outputs": outputs})
        message = refusal(lambda template=template: template.outputs({}))  # type: ignore[misc]
        assert "outputs.result.value: reference(" in message


# --- Parameters ---------------------------------------------------------------------------------


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
    ],
)
def test_parameters_have_the_values_that_are_sent(rules: Json, value: object) -> None:
    """A value that the declaration allows is used unchanged."""
    resource = net("a", tags="[parameters('P')]")
    template = evaluate({"parameters": {"p": rules}, "resources": [resource]}, {"p": value})
    assert template.resource(template.resources[0], {})["tags"] == value


def test_parameters_have_defaults() -> None:
    """A default may be an expression that refers to another parameter."""
    declared = {
        "a": {"type": "string", "defaultValue": "[concat(parameters('b'), '!')]"},
        "b": {"type": "string", "defaultValue": "[resourceGroup().location]"},
    }
    template = {"parameters": declared, "resources": [net("[parameters('a')]")]}
    assert evaluate(template).resources[0].name == "westeurope!"
    assert evaluate(template, {"B": "b"}).resources[0].name == "b!"


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
    ],
)
def test_parameters_that_are_refused(rules: object, value: object, message: str) -> None:
    """The error names the parameter and the allowed values."""
    assert message in refused({"parameters": {"p": rules}}, {} if value is None else {"p": value})


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
        assert message in refusal(lambda sent=properties: Template(sent, SCOPE, versions))  # type: ignore[misc]


@pytest.mark.parametrize(
    "more",
    [
        {"parameters": {"p": {"type": "int"}}},
        {"parameters": {"p": {"type": "securestring", "maxLength": 3}}},
        {"parameters": {"p": {"type": "securestring", "allowedValues": ["hunter3"]}}},
        {"parameters": {"p": {"type": "securestring", "allowedValues": ["hunter2x"]}}},
        {"variables": {"a": "[int(parameters('p'))]"}},
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


# --- Resources and their order ------------------------------------------------------------------


def test_resources_keep_their_order_unless_one_depends_on_another() -> None:
    """Each resource comes after its dependencies, and otherwise in the template's order."""
    assert names(net("a"), net("b"), net("c")) == ["a", "b", "c"]
    assert names(net("a", "c"), net("b"), net("c")) == ["b", "c", "a"]
    assert names(net("a", "b", "B", "c"), net("b", "c"), net("c")) == ["c", "b", "a"]


@pytest.mark.parametrize(
    "after",
    [
        "net",
        "NET",
        "Microsoft.Network/virtualNetworks/net",
        "microsoft.network/VIRTUALNETWORKS/Net/",
        f"{NETWORK}/virtualNetworks/net",
        f"{NETWORK}/virtualNetworks/net".upper(),
        "[resourceId('Microsoft.Network/virtualNetworks', 'net')]",
        "[concat('Microsoft.Network/virtualNetworks/', variables('n'))]",
    ],
)
def test_a_dependency_is_an_id_or_its_end_or_a_name(after: str) -> None:
    """Dependencies are case-insensitive."""
    resources = [net("first", after), net("net")]
    template = evaluate({"variables": {"n": "net"}, "resources": resources})
    assert [step.name for step in template.resources] == ["net", "first"]


def test_a_condition_disables_a_resource() -> None:
    """No resource waits for a disabled one, and another may have its name."""
    out = net("out", "a", condition="[not(parameters('on'))]")
    same = net("out", condition="[parameters('on')]", tags={"which": "same"})
    declared = {"on": {"type": "bool", "defaultValue": True}}
    template = {"parameters": declared, "resources": [net("a", "out", condition=True), out]}
    assert [step.name for step in evaluate(template).resources] == ["a"]
    both = evaluate(template | {"resources": [out, same]})
    assert both.resource(both.resources[0], {}) == {"tags": {"which": "same"}}


def test_nested_resources() -> None:
    """Their types and names start with those of their parents, and they come after them."""
    prefix = {"type": "prefixes", "name": "p", "apiVersion": "2022-01-01"}
    subnet = {"type": "subnets", "name": "s", "apiVersion": "2022-01-01", "resources": [prefix]}
    parent = net("net", "last", resources=[subnet], comments="not of the body")
    template = evaluate({"resources": [parent, net("last", condition=True)]})
    assert [step.name for step in template.resources] == ["last", "net", "net/s", "net/s/p"]
    deepest = template.resources[-1]
    assert deepest.id == f"{NETWORK}/virtualNetworks/net/subnets/s/prefixes/p"
    assert deepest.type == "Microsoft.Network/virtualNetworks/subnets/prefixes"
    assert template.resource(template.resources[1], {}) == {}


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({}, "resources must be array, not object"),
        (["a"], "resources[0]: a resource must be an object, not string"),
        ([{"type": "A.B/c"}], "resources[0]: a resource needs a name"),
        ([net("")], "a resource needs a name"),
        ([net("a", type=5)], "a resource needs a type"),
        ([net("a", type="virtualNetworks")], "a name must have a non-empty part for each part of"),
        ([net("a/b")], "a name must have a non-empty part"),
        ([net("a", apiVersion="latest")], "apiVersion must be a date such as 2024-11-01"),
        ([net("a", dependsOn="b")], "resources[0]: dependsOn must be array, not string"),
        ([net("a", dependsOn=[5])], "resources[0]: dependsOn must hold ids and names, not int"),
        ([net("a"), net("b", "c")], "resources[1].dependsOn: 'c' is not a resource of this templ"),
        ([net("a", "A.B//c")], "resources[0].dependsOn: "),
        ([net("a"), net("A")], "resources[1]: this is the same resource as resources[0] ('a')"),
        ([net("a", "a")], "circular dependencies: resources[0] ('a')"),
        ([net("a", condition="yes")], "condition must be true or false, not string"),
        ([net("a", copy={"count": 2})], "resources[0].copy: name must be a non-empty string"),
        ([net("a", copy={"name": "n"})], "resources[0].copy: the copy of a resource needs a name"),
        ([net("a", copy=[])], "resources[0].copy: the copy of a resource needs a name"),
        ([net("a", copy={"name": "n", "count": 801})], "an int from 0 to 800, not 801"),
        ([net("a", copy={"name": "n", "count": "2"})], "an int from 0 to 800, not string"),
        ([net("a", copy={"name": "n", "count": 2})], "the same resource as resources[0] ('a')"),
        ([net("a", copy={"name": "n", "count": 2, "mode": "Both"})], "mode must be 'Serial' or"),
        ([net("a", copy={"name": "n", "count": 2, "batchSize": 0})], "batchSize must be an int"),
        ([net("a", properties={"copy": [1]})], "resources[0].properties.copy[0]: a copy needs"),
        ([net("a", existing="yes")], "existing must be true or false, not string"),
        ([net("a", scope="/")], "scope must be the id of a resource"),
        ([net("a", extension="k8s")], "extension is not supported"),
        ([net("a", resourceGroup="other")], "only to the group of the deployment"),
        ([net("a", type="Microsoft.Resources/Deployments")], "a nested deployment needs propert"),
        ([net("a", tags=["[no()]"])], "resources[0].tags[0]: the function 'no' is not supported"),
        ([net("a", resources=[net("b", type="c", tags="[no()]")])], "resources[0].resources[0].ta"),
    ],
)
def test_resources_that_are_refused(resources: object, message: str) -> None:
    """The error names the resource and what is allowed."""
    assert message in refused({"resources": resources})


def test_circular_dependencies_are_refused() -> None:
    """The error names only the resources of the cycle, and not all of a large one."""
    message = refused({"resources": [net("a"), net("b", "d"), net("c", "b"), net("d", "c", "a")]})
    assert all(f"('{name}')" in message for name in "bcd")
    assert "('a')" not in message
    ring = [net(f"n{number}", f"n{(number + 1) % 50}") for number in range(50)]
    assert "and 40 more" in refused({"resources": ring})


def test_a_template_has_at_most_800_resources() -> None:
    """Another resource is refused, even if it is nested."""
    chain = [net(f"n{n}", *([f"n{n + 1}"] if n < RESOURCES - 1 else [])) for n in range(RESOURCES)]
    assert names(*chain)[0] == f"n{RESOURCES - 1}"
    within = net("a", type="subnets")
    chain[-1] = chain[-1] | {"resources": [within]}
    assert "may have 800 resources" in refused({"resources": chain})


# --- Outputs and properties ---------------------------------------------------------------------


def test_outputs() -> None:
    """Outputs have their declared types; secure outputs have no value."""
    outputs = {
        "text": {"type": "String", "value": "[concat('a', 'b')]", "metadata": {}},
        "secret": {"type": "secureString", "value": "hunter2"},
        "none": {"type": "int", "value": "[int('x')]", "condition": "[equals(1, 2)]"},
    }
    assert evaluate({"outputs": outputs}).outputs({}) == {
        "text": {"type": "String", "value": "ab"},
        "secret": {"type": "secureString"},
    }


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("a", "outputs.o: an output needs a value, and one of the types string"),
        ({"type": "string", "copy": {}}, "outputs.o.copy: the copy of an output needs a count"),
        ({"type": "float", "value": 1}, "outputs.o: an output needs a value"),
        ({"type": "int", "value": "[no()]"}, "outputs.o.value: the function 'no' is not"),
        ({"type": "int", "value": "1"}, "outputs.o.value: its type is int, so it must be int"),
        ({"type": "int", "value": 1, "condition": 1}, "condition must be true or false, not int"),
    ],
)
def test_outputs_that_are_refused(declared: object, message: str) -> None:
    """The error names the output."""
    assert message in refusal(lambda: evaluate({"outputs": {"o": declared}}).outputs({}))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ([], "a deployment needs properties"),
        ({}, "mode must be 'Incremental'"),
        ({"mode": "Complete", "template": {}}, "mode must be 'Incremental'"),
        ({"mode": "Incremental"}, "template must be an object, not null"),
        ({"mode": "incremental", "templateLink": {"uri": "x"}}, "send template instead"),
        ({"mode": "incremental", "parametersLink": {"uri": "x"}}, "send parameters instead"),
        ({"mode": "Incremental", "template": {"imports": {}}}, "'imports' is not supported"),
        ({"mode": "Incremental", "template": {"functions": [{}]}}, "user functions need a name"),
        ({"mode": "Incremental", "onErrorDeployment": {}}, "onErrorDeployment is not supported"),
        ({"mode": "Incremental", "template": {"variables": []}}, "variables must be object"),
        (
            {"mode": "Incremental", "template": {"variables": {"copy": [1]}}},
            "copy[0]: a copy needs",
        ),
        ({"mode": "Incremental", "template": {}, "parameters": []}, "parameters must be object"),
    ],
)
def test_properties_that_are_refused(properties: Value, message: str) -> None:
    """A deployment with an unsupported or invalid property is refused as a whole."""
    assert message in refusal(lambda: Template(properties, SCOPE, versions))


# --- Hostile templates --------------------------------------------------------------------------


def test_variables_that_double_each_other_are_refused() -> None:
    """Strings, arrays, objects and nesting levels do not grow without limit."""
    for pattern in (
        "[concat(variables('v{0}'), variables('v{0}'))]",
        "[createArray(variables('v{0}'), variables('v{0}'))]",
        {"a": "[variables('v{0}')]", "b": "[variables('v{0}')]"},
        ["[variables('v{0}')]"],
    ):
        values = [json.loads(json.dumps(pattern).replace("{0}", str(n))) for n in range(100)]
        variables = {"v0": "seed"} | {f"v{n + 1}": value for n, value in enumerate(values)}
        message = refused({"variables": variables})
        assert "create more than" in message or "levels deep" in message


def test_deep_nesting_is_refused() -> None:
    """Values that are nested thousands of levels deep are refused, without a RecursionError."""
    deep: Any = "x"
    within: Any = []
    for _ in range(20_000):
        deep = {"a": [deep]}
    for _ in range(700):
        within = [net("a", type="b", resources=within)]
    declared = {"type": "array", "allowedValues": [deep]}
    chain = {f"v{n}": f"[variables('v{n + 1}')]" for n in range(200)}
    for template, values in (
        ({"variables": {"a": deep}}, {}),
        ({"variables": chain}, {}),
        ({"resources": [net("a", properties=deep)]}, {}),
        ({"resources": [net("a", resources=within)]}, {}),
        ({"resources": [net("a", dependsOn=[deep])]}, {}),
        ({"parameters": {"p": {"type": "object"}}}, {"p": deep}),
        ({"parameters": {"p": declared}}, {"p": ["x"]}),
        ({"parameters": {"p": {"type": deep}}}, {"p": "x"}),
        ({"outputs": {"it": {"type": deep, "value": deep}}}, {}),
        ({"outputs": {"it": {"type": "object", "value": deep}}}, {}),
    ):
        refused(template, values)


def test_numbers_that_are_too_large_are_refused() -> None:
    """This includes numbers that Python refuses to format."""
    huge = 10**5000
    for template, values in (
        ({"variables": {"a": huge}}, {}),
        ({"parameters": {"p": {"type": "int"}}}, {"p": huge}),
        ({"parameters": {"p": {"type": huge}}}, {"p": 1}),
        ({"parameters": {"p": {"type": "int", "allowedValues": [huge]}}}, {"p": 1}),
        ({"resources": [net("a", dependsOn=[huge])]}, {}),
        ({"resources": [net("a") | {"name": huge}]}, {}),
        ({"outputs": {"it": {"type": huge, "value": 1}}}, {}),
    ):
        refused(template, values)


def test_the_deepest_template_that_is_allowed() -> None:
    """The limit on levels is well below the limit of Python's stack."""
    calls = DEPTH - 1
    texts = f"[{'createArray(' * calls}1{')' * calls}]"
    lists: Any = 1
    for _ in range(calls):
        lists = [lists]
    outputs = {n: {"type": "array", "value": v} for n, v in (("a", texts), ("b", lists))}
    results = evaluate({"outputs": outputs}).outputs({})
    assert results["a"] == results["b"]


_FUNCTIONS = [*FUNCTIONS, "parameters", "variables", "reference", "providers", "resourceId"]
_FUNCTIONS += ["resourceGroup", "subscription", "deployment", "copyIndex", "if", "x.y"]
_ATOMS = st.sampled_from(
    ["'p'", "'v'", "'net'", "'A.B/c'", "'it''s'", "''", "0", "-1", "99999999999999999999", "'{0}'"]
)


def _call(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.sampled_from(["", "", "", ".id", "[0]", "['a']", ".apiVersions[0]", "[", ".", "]"])
    arguments = st.lists(inner, max_size=3).map(",".join)
    return st.builds("{}({}){}".format, st.sampled_from(_FUNCTIONS), arguments, parts)


_valid = st.recursive(_ATOMS, _call, max_leaves=6).map("[{}]".format)


@st.composite
def _mangled(draw: st.DrawFn) -> str:
    """An expression with a part replaced by other characters."""
    text = draw(_valid)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(st.text("[](),.'\\{} 0a\ud800", max_size=3)) + text[end:]


_texts = _valid | _mangled() | st.sampled_from(["net", "string", "array", "A.B/c", "2022-01-01"])
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400)
_json = st.recursive(
    _scalars | _texts | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "copy", "type", "value", "name"]) | st.text(max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def _usually(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(right, right, right, _json)


_resources = st.fixed_dictionaries(
    {
        "type": _usually(st.just("Microsoft.Network/virtualNetworks")),
        "name": _usually(st.sampled_from(["net", "[variables('v')]", "other"])),
        "apiVersion": _usually(st.just("2022-01-01")),
    },
    optional={
        "dependsOn": _usually(st.lists(st.sampled_from(["net", "other"]) | _texts, max_size=2)),
        "condition": _usually(st.booleans()),
        "properties": _json,
        "tags": _json,
        "resources": _usually(st.just([net("s", type="subnets")])),
    },
)
_parameters = st.fixed_dictionaries(
    {"type": _usually(st.sampled_from(["string", "array", "int", "secureObject"]))},
    optional={"defaultValue": _json, "allowedValues": _json, "minLength": _json},
)
_templates = st.fixed_dictionaries(
    {},
    optional={
        "parameters": _usually(st.dictionaries(st.just("p"), _usually(_parameters))),
        "variables": _usually(st.fixed_dictionaries({"v": _json, "w": _json})),
        "resources": _usually(st.lists(_usually(_resources), max_size=3)),
        "outputs": _usually(
            st.fixed_dictionaries({"it": st.fixed_dictionaries({"type": _texts, "value": _json})})
        ),
        "functions": _json,
        "metadata": _json,
    },
)
_properties = st.fixed_dictionaries(
    {"mode": _usually(st.just("Incremental")), "template": _usually(_templates)},
    optional={"parameters": _usually(st.fixed_dictionaries({"p": _usually(_json)}))},
)


def _attempt(work: Callable[[], object]) -> None:
    """Run the work; it may succeed, be refused or need a resource, and nothing else."""
    try:
        work()
    except (ReferenceNeeded, Refused) as error:
        caught = error
    else:
        return
    if isinstance(caught, ReferenceNeeded):
        assert caught.id == caught.id.lower()
    else:
        assert caught.code == "InvalidTemplate"


def _evaluate_all(properties: Value, known: Json) -> None:
    template = Template(properties, SCOPE, versions)
    for step in template.resources:
        _attempt(lambda step=step: template.resource(step, known))  # type: ignore[misc]
    _attempt(lambda: template.outputs(known))


@given(_properties | _json, _json)
def test_any_template_is_evaluated_or_refused(properties: Value, document: Value) -> None:
    """Any template, however mangled, has a result, is refused or needs a resource."""
    known = {f"{NETWORK}/virtualNetworks/net".lower(): {"properties": document}}
    _attempt(lambda: _evaluate_all(properties, known))


@given(_valid | _mangled())
def test_any_expression_is_evaluated_or_refused(text: str) -> None:
    """An expression in an otherwise valid template has a value or is refused."""
    template = {
        "parameters": {"p": {"type": "object", "defaultValue": {"a": [1]}}},
        "variables": {"v": ["a", {"id": None}]},
        "resources": [net("net", properties={"it": text})],
        "outputs": {"it": {"type": "string", "value": text}},
    }
    _attempt(lambda: _evaluate_all({"mode": "Incremental", "template": template}, {}))
