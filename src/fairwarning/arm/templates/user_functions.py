"""Functions that a template declares: `contoso.uniqueName('web')`."""

from collections.abc import Mapping
from functools import partial

from fairwarning.arm.templates.calls import (
    LIST_FUNCTIONS,
    FunctionCall,
    Functions,
    Node,
    TemplateFunction,
)
from fairwarning.arm.templates.evaluation import Evaluation
from fairwarning.arm.templates.expressions import parse_at
from fairwarning.arm.templates.parameters import section
from fairwarning.arm.templates.types import KINDS, Definitions, type_of
from fairwarning.arm.templates.values import TemplateError, Value, at, kind_of
from fairwarning.core.record import record


@record
class UserFunction:
    """A declared function: the names and types of its parameters, and its output."""

    parameters: Mapping[str, str]
    kind: str
    body: Node
    functions: Functions


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
    declared_parameters = section(raw, "parameters", list)
    parameters = dict(_parameter(part, definitions) for part in declared_parameters)
    own = {**functions, "parameters": TemplateFunction(_refuse_values, ("string",))}
    for name in ("variables", "reference", "references", LIST_FUNCTIONS):
        own.pop(name, None)  # not in a user function, as on Azure
    declared = UserFunction(
        parameters=parameters,
        kind=_kind(raw["output"], definitions),
        body=parse_at("output.value", raw["output"].get("value"), own),
        functions=own,
    )
    kinds = tuple(parameters.values()) or ("any",)
    count = len(parameters)
    return TemplateFunction(partial(_call, declared), kinds, count, count, lazy=True)


def _kind(rules: object, definitions: Definitions) -> str:
    """Return the JSON type of a parameter or output, or several: `string or null`."""
    resolved = definitions.resolve(rules, "a user function")
    return KINDS[type_of(resolved)] + (" or null" if resolved.get("nullable") is True else "")


def _parameter(raw: object, definitions: Definitions) -> tuple[str, str]:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        raise TemplateError("a parameter of a user function needs a name and a type")
    return raw["name"].lower(), _kind(raw, definitions)


def _refuse_values(_: str) -> Value:
    raise TemplateError("is not a parameter of this user function")


def _call(declared: UserFunction, evaluation: Evaluation, call: FunctionCall) -> Value:
    arguments = [evaluation.value(argument) for argument in call.arguments]
    evaluation.check(call, arguments)
    values = dict(zip(declared.parameters, arguments, strict=True))

    def parameter(name: str) -> Value:
        if name.lower() not in values:
            known = ", ".join(values) or "none"
            raise TemplateError(f"is not a parameter of this user function; it has: {known}")
        return values[name.lower()]

    own = {**declared.functions, "parameters": TemplateFunction(parameter, ("string",))}
    result = evaluation.with_functions(own).value(declared.body)
    if kind_of(result) not in declared.kind.split(" or "):
        raise TemplateError(f"{call} must return {declared.kind}, not {kind_of(result)}")
    return evaluation.copy(result)
