"""Templates: functions of the deployment, the order of resources, outputs and properties."""

import pytest

from fairwarning.arm.templates.template import RESOURCES, ReferenceNeeded, Template
from tests.arm.evaluation import (
    GROUP,
    NETWORK,
    OTHER,
    SCOPE,
    SUBSCRIPTION,
    Json,
    Value,
    evaluate,
    names,
    net,
    order,
    output,
    refusal,
    refused,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[resourceGroup().id]", GROUP),
        ("[concat(resourceGroup().name, resourceGroup().location)]", "shopwesteurope"),
        ("[subscription().id]", f"/subscriptions/{SUBSCRIPTION}"),
        ("[subscription().subscriptionId]", SUBSCRIPTION),
        ("[empty(subscription().displayName)]", False),
        ("[deployment().name]", "deploy_1"),
        ("[deployment().properties.mode]", "Incremental"),
        ("[deployer().tenantId]", "the-tenant"),
        ("[tenant().tenantId]", "the-tenant"),
        ("[subscription().tenantId]", "the-tenant"),
        ("[resourceGroup().tags.team]", "web"),
        ("[environment().resourceManager]", "https://localhost:1/"),
        ("[environment().suffixes.storage]", "core.windows.net"),
        ("[pickZones('Microsoft.Compute', 'virtualMachines', 'westus2')]", ["1"]),
        ("[pickZones('Microsoft.Compute', 'virtualMachines', 'westus2', 2, 1)]", ["2", "3"]),
        ("[tenantResourceId('A.B/c', 'd')]", "/providers/A.B/c/d"),
        ("[extensionResourceId(resourceGroup().id, 'A.B/c', 'd')]", f"{GROUP}/providers/A.B/c/d"),
        (
            "[subscriptionResourceId('A.B/c', 'd')]",
            f"/subscriptions/{SUBSCRIPTION}/providers/A.B/c/d",
        ),
        ("[resourceId('A.B/c', '')]", f"{GROUP}/providers/A.B/c/"),
        ("[providers('microsoft.network', 'VirtualNetworks').apiVersions[0]]", "2026-03-01"),
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
    """Functions return ids of all scopes, the group, the tenant, the environment and zones."""
    assert output(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[reference('x')]", "variables.a: reference('x') is allowed only"),
        ("[listKeys('x', '1').k]", "variables.a: listKeys('x') is allowed only"),
        ("[variables('b')]", "variables.a: variables('b') is not declared"),
        ("[variables('a')]", "variables.a: this refers to itself"),
        ({"copy": [1]}, "variables.a.copy[0]: a copy needs"),
        ({"b": "[toLower(1)]"}, "variables.a.b: toLower() takes string"),
        ("[resourceId('Microsoft.Network', 'x')]", "a name must have a part"),
        ("[resourceId('A.B/c', 'x', 'y')]", "a name must have a part"),
        ("[resourceId('A.B/c/d', 'x/y')]", "without a '/'"),
    ],
)
def test_variables_that_are_refused(text: object, message: str) -> None:
    """An expression may not refer to a value that does not exist or is not available yet."""
    assert message in refused({"variables": {"a": text}})


def test_resources_keep_their_order_unless_one_depends_on_another() -> None:
    """Each resource comes after its dependencies, and otherwise in the template's order."""
    assert order(net("a"), net("b"), net("c")) == ["a", "b", "c"]
    assert order(net("a", "c"), net("b"), net("c")) == ["b", "c", "a"]
    assert order(net("a", "b", "B", "c"), net("b", "c"), net("c")) == ["c", "b", "a"]


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
    assert names(template) == ["net", "first"]


def test_a_disabled_resource_is_not_evaluated() -> None:
    """Its members may be wrong, as in a module whose optional part has no values."""
    missing = "[parameters('none').name]"
    wrong = net(
        missing,
        missing,
        apiVersion=missing,
        condition="[not(empty(parameters('none')))]",
        scope=missing,
        properties={"key": "[listKeys(parameters('none').id, '2022-01-01').keys[0]]"},
    )
    deployment = wrong | {"type": "Microsoft.Resources/deployments", "properties": missing}
    child = {"type": "subnets", "name": "s", "apiVersion": "2022-01-01"}
    template: Json = {
        "languageVersion": "2.0",
        "parameters": {"none": {"type": "object", "nullable": True}},
        "resources": {
            "wrong": wrong,
            "existing": wrong | {"existing": True, "resourceGroup": missing},
            "deployment": deployment,
            "loop": wrong | {"copy": {"name": "loop", "count": 2, "mode": "serial"}},
            "net": net("a", "wrong", "existing", "deployment", "loop"),
        },
    }
    assert names(evaluate(template)) == ["a"]
    assert order(*({**part, "condition": False} for part in (wrong, deployment)), net("a")) == ["a"]
    parent = wrong | {"condition": False, "resources": [child]}
    assert "resources[0].resources[0]: its parent has no name" in refused({"resources": [parent]})
    template["outputs"] = {"o": {"type": "object", "value": "[reference('wrong')]"}}
    assert "reference('wrong') names a resource whose condition is false" in refused(template)


def test_list_functions_need_the_answer_of_an_action() -> None:
    """The caller posts to the action, and evaluates again with the answer."""
    text = "[listKeys('net', '2022-01-01').keys[0]]"
    sas = f"[listAccountSas('{NETWORK}/virtualNetworks/NET', '2022-01-01', createObject('a', 1)).b]"
    template = evaluate(
        {
            "resources": [net("a", properties={"key": text}), net("net")],
            "outputs": {"sas": {"type": "string", "value": sas}},
        }
    )
    last, first = template.resources[1], template.resources[0]
    assert (first.name, last.name) == ("net", "a")  # a list by name is a dependency
    with pytest.raises(ReferenceNeeded) as needed:
        template.resource(last, {})
    assert (needed.value.id, needed.value.action, needed.value.body) == (
        f"{NETWORK}/virtualNetworks/net".lower(), "listKeys", None
    )  # fmt: skip
    known = {needed.value.key: {"keys": ["k"]}}
    assert template.resource(last, known) == {"properties": {"key": "k"}}
    with pytest.raises(ReferenceNeeded) as needed:
        template.outputs(known)
    assert (needed.value.action, needed.value.body) == ("listAccountSas", {"a": 1})
    assert template.outputs({needed.value.key: {"b": "c"}})["sas"]["value"] == "c"


def test_nested_resources() -> None:
    """Their types and names start with those of their parents, and they come after them."""
    prefix = {"type": "prefixes", "name": "p", "apiVersion": "2022-01-01"}
    subnet = {"type": "subnets", "name": "s", "apiVersion": "2022-01-01", "resources": [prefix]}
    parent = net("net", "last", resources=[subnet], comments="not of the body")
    template = evaluate({"resources": [parent, net("last", condition=True)]})
    assert names(template) == ["last", "net", "net/s", "net/s/p"]
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
        ([net("[reference('x').y]")], "resources[0].name: reference('x') is allowed only"),
        ([net("a", type=5)], "a resource needs a type"),
        ([net("a", type="virtualNetworks")], "a name must have a part for each part of the"),
        ([net("a/")], "a name may not have an empty part"),
        ([net("a/b")], "a name must have a part"),
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
    """Another resource is refused, even if it is nested or a copy."""
    chain = [net(f"n{n}", *([f"n{n + 1}"] if n < RESOURCES - 1 else [])) for n in range(RESOURCES)]
    assert order(*chain)[0] == f"n{RESOURCES - 1}"
    within = net("a", type="subnets")
    copies = net("[string(copyIndex())]", copy={"name": "nets", "count": RESOURCES})
    for resources in ([*chain[:-1], chain[-1] | {"resources": [within]}], [net("a"), copies]):
        assert "may have 800 resources" in refused({"resources": resources})


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
        ({"type": "int", "value": "[reference('two')]"}, "a name that only one resource of this"),
        ({"type": "int", "value": "[reference('none')]"}, "outputs.o.value: reference('none') tak"),
        ({"type": "int", "value": "[reference('x', '', 'So')]"}, "takes 'Full' or nothing as its"),
    ],
)
def test_outputs_that_are_refused(declared: object, message: str) -> None:
    """The error names the output. A name without a type must be that of one resource."""
    resources = [net("x"), net("two"), net("two", type="Microsoft.Network/loadBalancers")]
    assert message in refused({"resources": resources, "outputs": {"o": declared}})


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ([], "a deployment needs properties"),
        ({}, "mode must be 'Incremental'"),
        ({"mode": "Complete", "template": {}}, "mode must be 'Incremental'"),
        ({"mode": "Incremental"}, "template must be an object, not null"),
        ({"mode": "incremental", "templateLink": {"uri": "x"}}, "send template instead, with"),
        ({"mode": "incremental", "parametersLink": {"uri": "x"}}, "send parameters instead"),
        ({"mode": "Incremental", "template": {"imports": {}}}, "'imports' is not supported"),
        ({"mode": "Incremental", "template": {"functions": [{}]}}, "user functions need a name"),
        ({"mode": "Incremental", "onErrorDeployment": {}}, "onErrorDeployment is not supported"),
        ({"mode": "Incremental", "template": {"variables": []}}, "variables must be object"),
        ({"mode": "Incremental", "template": {}, "parameters": []}, "parameters must be object"),
    ],
)
def test_properties_that_are_refused(properties: Value, message: str) -> None:
    """A deployment with an unsupported or invalid property is refused as a whole."""
    assert message in refusal(lambda: Template(properties, SCOPE))
