"""Functions that a template declares: `contoso.uniqueName('web')`."""

from collections.abc import Mapping

from fairwarning.arm.templates.calls import (
    LIST_FUNCTIONS,
    FunctionCall,
    Functions,
    TemplateFunction,
)
from fairwarning.arm.templates.evaluation import Evaluation
from fairwarning.arm.templates.expressions import parse_at
from fairwarning.arm.templates.types import Definitions, json_type
from fairwarning.arm.templates.values import TemplateError, Value, at, kind_of, section

_NOT_IN_USER_FUNCTIONS = {"variables", "reference", "references", LIST_FUNCTIONS}  # as on Azure


def declare(raw: object, functions: dict[str, TemplateFunction], definitions: Definitions) -> None:
    """Add the user functions of a template to its functions; each may call those before it."""
    if not isinstance(raw, list):
        raise TemplateError(f"functions must be array, not {kind_of(raw)}")
    for number, group in enumerate(raw):
        with at(f"functions[{number}]"):
            if not isinstance(group, dict) or not isinstance(group.get("namespace"), str):
                raise TemplateError("user functions need a namespace and members")
            for name, member in section(group, "members", dict).items():
                key = f"{group['namespace']}.{name}".lower()
                with at(f"members.{name[:60]}"):
                    functions[key] = _function(member, functions, definitions)


def _function(raw: object, functions: Functions, definitions: Definitions) -> TemplateFunction:
    if not isinstance(raw, dict) or not isinstance(raw.get("output"), dict):
        raise TemplateError("a user function needs an output with a type and a value")
    declared = section(raw, "parameters", list)
    parameters = dict(_parameter(part, definitions) for part in declared)
    kind = _kind(raw["output"], definitions)
    own = {name: functions[name] for name in functions if name not in _NOT_IN_USER_FUNCTIONS}
    own["parameters"] = _parameters({})
    body = parse_at("output.value", raw["output"].get("value"), own)

    def invoke(evaluation: Evaluation, call: FunctionCall) -> Value:
        arguments = [evaluation.value(argument) for argument in call.arguments]
        evaluation.check(call, arguments)
        values = _parameters(dict(zip(parameters, arguments, strict=True)))
        result = evaluation.with_functions({**own, "parameters": values}).value(body)
        if kind_of(result) not in kind.split(" or "):
            raise TemplateError(f"{call} must return {kind}, not {kind_of(result)}")
        return evaluation.deep_copy(result)

    count = len(parameters)
    return TemplateFunction(
        invoke, (*parameters.values(), "any")[: count or 1], count, count, lazy=True
    )


def _parameters(values: Mapping[str, Value]) -> TemplateFunction:
    """Return the function parameters() inside a user function."""

    def parameter(name: str) -> Value:
        if name.lower() not in values:
            known = ", ".join(values) or "none"
            raise TemplateError(f"is not a parameter of this user function; it has: {known}")
        return values[name.lower()]

    return TemplateFunction(parameter, ("string",))


def _kind(rules: object, definitions: Definitions) -> str:
    """Return the JSON type of a parameter or output, or several: `string or null`."""
    resolved = definitions.resolve(rules, "a user function")
    return json_type(resolved) + (" or null" if resolved.get("nullable") is True else "")


def _parameter(raw: object, definitions: Definitions) -> tuple[str, str]:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        raise TemplateError("a parameter of a user function needs a name and a type")
    return raw["name"].lower(), _kind(raw, definitions)
