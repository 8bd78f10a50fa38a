"""Copies, nested deployments, symbolic names, user functions and types of templates."""

import pytest

from fairwarning.arm.templates.names import ReferenceNeeded
from fairwarning.arm.templates.template import Template
from tests.arm.evaluation import (
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

pytestmark = pytest.mark.spec("C1")

NET = "Microsoft.Network/virtualNetworks"
DEPLOYMENT = "Microsoft.Resources/deployments"


# --- Copy loops -----------------------------------------------------------------------------------


def test_copies_of_a_resource() -> None:
    """Each copy has its number in its name, condition, dependencies and body."""
    loop = {"name": "nets", "count": "[length(variables('sizes'))]"}
    resources = [
        net(
            "[concat('a', copyIndex(1))]",
            copy=loop,
            tags={"n": "[variables('sizes')[copyIndex()]]"},
        ),
        net(
            "[format('b{0}', copyIndex('others'))]",
            copy={"name": "others", "count": 2},
            dependsOn=["[concat('a', copyIndex(1))]"],
            condition="[equals(copyIndex(), 1)]",
        ),
        net("last", dependsOn=["nets"]),
        net("never", dependsOn=["none"]),
        net("[string(copyIndex())]", copy={"name": "none", "count": 0}),
    ]
    template = evaluate({"variables": {"sizes": ["x", "y"]}, "resources": resources})
    assert names(template) == ["a1", "a2", "b1", "last", "never"]
    assert bodies(template)["a2"] == {"tags": {"n": "y"}}


def test_copies_of_properties_variables_and_outputs() -> None:
    """A loop of properties has a name; it may be inside a loop of the resource."""
    disks = {
        "name": "disks",
        "count": 2,
        "input": "[format('{0}-{1}', copyIndex(), copyIndex('disks'))]",
    }
    template = evaluate(
        {
            "variables": {
                "copy": [{"name": "ports", "count": 2, "input": "[add(80, copyIndex('ports'))]"}],
                "inside": {"copy": [{"name": "x", "count": 1, "input": "[copyIndex('x', 7)]"}]},
            },
            "resources": [
                net(
                    "[concat('a', copyIndex())]",
                    copy={"name": "nets", "count": 2},
                    properties={"copy": [disks]},
                )
            ],
            "outputs": {
                "ports": {"type": "array", "value": "[variables('ports')]"},
                "inside": {"type": "object", "value": "[variables('inside')]"},
                "ids": {
                    "type": "array",
                    "copy": {"count": 2, "input": "[concat('a', copyIndex())]"},
                },
            },
        }
    )
    assert bodies(template)["a1"] == {"properties": {"disks": ["1-0", "1-1"]}}
    expected = {"ports": [80, 81], "inside": {"x": [7]}, "ids": ["a0", "a1"]}
    assert outputs(template) == expected


def test_nested_resources_of_copies() -> None:
    """A nested resource is in the loop of its parent, and comes after it."""
    part = {"type": "subnets", "name": "[concat('s', copyIndex())]", "apiVersion": "2024-05-01"}
    parent = net("[concat('a', copyIndex())]", copy={"name": "nets", "count": 2}, resources=[part])
    assert names(evaluate({"resources": [parent]})) == ["a0", "a1", "a0/s0", "a1/s1"]


# --- Symbolic names -------------------------------------------------------------------------------


def symbolic(**resources: Json) -> Json:
    """Return a template with symbolic names, as Bicep writes it."""
    return {"languageVersion": "2.0", "contentVersion": "1.0.0.0", "resources": resources}


def test_symbolic_names() -> None:
    """Dependencies and references use symbolic names, of one resource or of a loop."""
    template = evaluate(
        {
            **symbolic(
                last=net("c", dependsOn=["many", "[format('many[{0}]', 1)]"]),
                many=net(
                    "[format('b{0}', copyIndex())]",
                    copy={"name": "many", "count": 2},
                    dependsOn=["one"],
                ),
                one=net("a"),
            ),
            "outputs": {
                "one": {"type": "int", "value": "[reference('one').size]"},
                "second": {"type": "int", "value": "[reference('many[1]').size]"},
                "all": {
                    "type": "array",
                    "value": "[map(references('many'), lambda('n', lambdaVariables('n').size))]",
                },
                "full": {"type": "string", "value": "[references('many', 'full')[0].location]"},
                "info": {"type": "string", "value": "[resourceInfo('one').id]"},
            },
        }
    )
    assert names(template) == ["a", "b0", "b1", "c"]
    known = {
        f"{GROUP}/providers/{NET}/{name}".lower(): {"location": name, "properties": {"size": size}}
        for name, size in (("a", 1), ("b0", 2), ("b1", 3))
    }
    assert outputs(template, known) == {
        "one": 1, "second": 3, "all": [2, 3], "full": "b0", "info": f"{GROUP}/providers/{NET}/a"
    }  # fmt: skip


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


def test_extension_resources() -> None:
    """The scope of a resource is the id of another resource, or the end of one."""
    lock = {"type": "Microsoft.Authorization/locks", "name": "l", "apiVersion": "2020-05-01"}
    expected = f"{GROUP}/providers/{NET}/a/providers/Microsoft.Authorization/locks/l"
    for scope in (f"[resourceId('{NET}', 'a')]", f"{NET}/a"):
        template = evaluate({"resources": [net("a"), {**lock, "scope": scope}]})
        assert template.resources[1].id == expected
    template = evaluate({"resources": [{**lock, "scope": "[resourceGroup().id]"}]})
    assert template.resources[0].id == f"{GROUP}/providers/Microsoft.Authorization/locks/l"


# --- Nested deployments ---------------------------------------------------------------------------


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


def test_a_nested_deployment_with_outer_scope() -> None:
    """Its expressions use the parameters, variables and loops around it."""
    inside = {"resources": [net("[variables('name')]", tags={"n": "[string(copyIndex())]"})]}
    outer = {
        "variables": {"name": "outer"},
        "resources": [
            nested(inside)
            | {"copy": {"name": "loop", "count": 2}, "name": "[concat('n', copyIndex())]"}
        ],
    }
    template = evaluate(outer)
    assert names(template) == ["n0", "n1"]
    assert bodies(child(template)) == {"outer": {"tags": {"n": "1"}}}


def test_a_nested_deployment_with_inner_scope() -> None:
    """It has parameters and variables of its own, and its own name."""
    inside = {
        "parameters": {"name": {"type": "string"}},
        "variables": {"suffix": "inner"},
        "resources": [net("[concat(parameters('name'), '-', variables('suffix'))]")],
        "outputs": {"name": {"type": "string", "value": "[deployment().name]"}},
    }
    parameters = {"name": {"value": "[reference('first').size]"}}
    step = nested(inside, inner=True, parameters=parameters)
    template = evaluate({"variables": {"suffix": "outer"}, "resources": [step, net("first")]})
    assert names(template) == ["first", "nested"]
    with pytest.raises(ReferenceNeeded) as reference:
        child(template)
    inner = child(template, {reference.value.id: {"properties": {"size": "s"}}})
    assert (names(inner), outputs(inner)) == (["s-inner"], {"name": "nested"})


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


# --- User functions -------------------------------------------------------------------------------


def function(value: object, *parameters: str, kind: str = "string") -> Json:
    """Return a user function whose parameters are strings."""
    declared = [{"name": name, "type": "string"} for name in parameters]
    return {"parameters": declared, "output": {"type": kind, "value": value}}


def test_user_functions() -> None:
    """A user function sees only its own parameters, and may call those before it."""
    members = {
        "hello": function("[concat('hello ', parameters('who'))]", "who"),
        "twice": function("[concat(my.hello(parameters('A')), my.hello(parameters('a')))]", "a"),
        "none": function("x"),
    }
    functions = [{"namespace": "my", "members": members}]
    text = "[concat(My.Twice('you'), my.none())]"
    result = output(text, functions=functions, variables={"who": "all"})
    assert result == "hello youhello youx"


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


def test_user_functions_that_double_each_other_are_refused() -> None:
    """Calls of user functions count for the limit on values."""
    members = {"f0": function("x")}
    for number in range(1, 20):
        call = f"my.f{number - 1}()"
        members[f"f{number}"] = function(f"[if(empty({call}), {call}, {call})]")
    functions = [{"namespace": "my", "members": members}]
    message = refused({"functions": functions, "variables": {"v": "[my.f19()]"}})
    assert "create more than" in message
