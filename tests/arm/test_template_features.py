"""Copies, nested deployments, symbolic names, user functions and types of templates."""

import pytest

from fairwarning.arm.templates.names import ReferenceNeeded
from fairwarning.arm.templates.template import Template
from tests.arm.evaluation import (
    COMPUTE,
    GROUP,
    Json,
    bodies,
    evaluate,
    names,
    net,
    output,
    outputs,
    refusal,
    refused,
)
from tests.arm.templates import resource

pytestmark = pytest.mark.spec("C1")

NET = "Microsoft.Network/virtualNetworks"
DEPLOYMENT = "Microsoft.Resources/deployments"


def test_nested_resources_of_copies() -> None:
    """A nested resource is in the loop of its parent, and comes after it."""
    part = {"type": "subnets", "name": "[concat('s', copyIndex())]", "apiVersion": "2024-05-01"}
    parent = net("[concat('a', copyIndex())]", copy={"name": "nets", "count": 2}, resources=[part])
    assert names(evaluate({"resources": [parent]})) == ["a0", "a1", "a0/s0", "a1/s1"]


def symbolic(**resources: Json) -> Json:
    """Return a template with symbolic names, as Bicep writes it."""
    return {"languageVersion": "2.0", "contentVersion": "1.0.0.0", "resources": resources}


def test_existing_resources() -> None:
    """An existing resource is not deployed; references to it read it, also in another group."""
    template = evaluate(
        {
            **symbolic(
                old=net("a", existing=True),
                far=net("b", existing=True, resourceGroup="other"),
                new=net("c", properties={"size": "[reference('old').size]"}),
            ),
            "outputs": {"far": {"type": "string", "value": "[reference('far').x]"}},
        }
    )
    assert names(template) == ["c"]
    with pytest.raises(ReferenceNeeded) as reference:
        bodies(template)
    assert reference.value.id == f"{GROUP}/providers/{NET}/a".lower()
    with pytest.raises(ReferenceNeeded) as reference:
        outputs(template)
    assert "/resourcegroups/other/" in reference.value.id


def test_a_reference_by_name_is_a_dependency() -> None:
    """A resource comes after those that its body refers to by name or by symbol."""
    first = net("a", properties={"size": "[reference('b').size]"})
    assert names(evaluate({"resources": [first, net("b")]})) == ["b", "a"]
    many = net("[format('b{0}', copyIndex())]", copy={"name": "many", "count": 2})
    last = net("a", properties={"all": "[references('many')]"})
    assert names(evaluate(symbolic(last=last, many=many))) == ["b0", "b1", "a"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"resources": {"a": net("a")}}, "resources must be array, not object; symbolic names"),
        (symbolic(a=net("a", dependsOn=["b"])), "resources.a.dependsOn: 'b' is not a resource"),
        (symbolic(a=net("a", tags="[no()]")), "resources.a.tags: the function 'no'"),
        (symbolic(a=5), "resources.a: a resource must be an object"),  # type: ignore[arg-type]
        (symbolic(a=net("a"), b=net("a")), "resources.b: this is the same resource as resources.a"),
    ],
)
def test_symbolic_names_that_are_refused(template: Json, message: str) -> None:
    """Errors have the symbolic name as their place."""
    assert message in refused(template)


def test_a_machine_as_the_azure_cli_sends_it() -> None:
    """The role assignment is an extension resource: its type is part of the machine's type."""
    machine = "Microsoft.Compute/virtualMachines"
    path = f"{COMPUTE}/virtualMachines/gate"
    principal = f"[reference('{path}', '2019-07-01', 'Full').identity.principalId]"
    kind, name = f"{machine}/providers/roleAssignments", "gate/Microsoft.Authorization/7"
    role = resource(kind, name, f"{machine}/gate", properties={"principalId": principal})
    template = evaluate({"resources": [role, resource(machine, "gate")]})
    step = template.resources[1]
    assert step.id == f"{path}/providers/Microsoft.Authorization/roleAssignments/7"
    with pytest.raises(ReferenceNeeded) as reference:
        template.resource(step, {})
    known = {reference.value.id: {"identity": {"principalId": "me"}, "properties": {}}}
    assert template.resource(step, known)["properties"] == {"principalId": "me"}


def nested(template: object, *, inner: bool = False, **more: object) -> Json:
    """Return a nested deployment."""
    options = {"expressionEvaluationOptions": {"scope": "inner"}} if inner else {}
    properties = {"mode": "Incremental", **options, "template": template, **more}
    return {
        "type": DEPLOYMENT,
        "name": "[concat('n', 'ested')]",
        "apiVersion": "2022-09-01",
        "properties": properties,
    }


def child(template: Template, known: Json | None = None) -> Template:
    """Return the template of the last resource, which is a nested deployment."""
    return template.nested(template.resources[-1], known or {})


def test_a_nested_template_in_a_variable() -> None:
    """Its expressions, which are escaped, are evaluated only in the nested template."""
    inside = {"variables": {"n": "inner"}, "resources": [net("[[variables('n')]")]}
    step = nested("[variables('file')]", inner=True)
    template = evaluate({"variables": {"file": inside, "n": "outer"}, "resources": [step]})
    assert names(child(template)) == ["inner"]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (nested({}, templateLink={"uri": "x"}), "resources[0]: templateLink is not supported"),
        (nested({}, parametersLink={"uri": "x"}), "send parameters instead"),
        (nested({}) | {"properties": 1}, "a nested deployment needs properties"),
        (nested({}) | {"resourceGroup": "other"}, "only to the group of the deployment"),
        (nested({}, mode="Complete"), "template: mode must be 'Incremental'"),
        (nested({}, expressionEvaluationOptions={"scope": "up"}), "must be 'inner' or 'outer'"),
        (nested({"resources": [net("[no()]")]}), "template: resources[0].name: the function 'no'"),
        (
            nested({"resources": [net("[parameters('p')]")]}, inner=True),
            "parameters('p') is not decl",
        ),
        (nested(5), "template must be an object, not int"),
    ],
)
def test_nested_deployments_that_are_refused(step: Json, message: str) -> None:
    """The error has the place in the nested template."""
    assert message in refusal(lambda: child(evaluate({"resources": [step]})))


def test_nesting_is_limited() -> None:
    """Deployments may be nested five levels deep."""
    template: Json = {"resources": [net("a")]}
    for _ in range(5):
        template = {"resources": [nested(template)]}
    current = evaluate(template)
    for _ in range(4):
        current = child(current)
    assert "nested 5 levels deep" in refusal(lambda: child(current))


def function(value: object, *parameters: str, kind: str = "string") -> Json:
    """Return a user function whose parameters are strings."""
    declared = [{"name": name, "type": "string"} for name in parameters]
    return {"parameters": declared, "output": {"type": kind, "value": value}}


@pytest.mark.parametrize(
    ("members", "text", "message"),
    [
        ({"f": function("[variables('v')]")}, "[my.f()]", "the function 'variables' is not supp"),
        ({"f": function("[reference('v')]")}, "[my.f()]", "the function 'reference' is not supp"),
        ({"f": function("[my.f()]")}, "[my.f()]", "functions[0].members.f.output.value: the funct"),
        ({"f": function("[parameters('b')]", "a")}, "[my.f('x')]", "it has: a"),
        ({"f": function("a", "a")}, "[my.f()]", "my.f() takes 1 arguments, not 0"),
        ({"f": function("a", "a")}, "[my.f(1)]", "takes string as its argument 1, not int"),
        ({"f": function(1)}, "[my.f()]", "my.f() must return string, not int"),
        ({"f": {}}, "[my.f()]", "a user function needs an output"),
        ({"f": {"output": {"value": 1}}}, "[my.f()]", "needs a type"),
    ],
)
def test_user_functions_that_are_refused(members: Json, text: str, message: str) -> None:
    """The error names the function."""
    functions = [{"namespace": "my", "members": members}]
    assert message in refusal(lambda: output(text, functions=functions))
