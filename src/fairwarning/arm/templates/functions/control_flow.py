"""Functions that decide what is evaluated: conditions, loops, lambdas and failure."""

from collections.abc import Iterator
from typing import NoReturn

from fairwarning.arm.templates.evaluation import (
    UNLIMITED,
    Evaluation,
    FunctionCall,
    Functions,
    TemplateFunction,
)
from fairwarning.arm.templates.values import Lambda, TemplateError, Value, kind_of


def _if(evaluation: Evaluation, call: FunctionCall) -> Value:
    """Evaluate one branch; the other may refer to a resource that is left out."""
    flag = evaluation.value(call.arguments[0])
    evaluation.check(call, [flag])
    return evaluation.value(call.arguments[1 if flag else 2])


def _flags(evaluation: Evaluation, call: FunctionCall) -> Iterator[bool]:
    """Yield the arguments one by one: once the result is clear, the rest is not evaluated."""
    for number, argument in enumerate(call.arguments):
        flag = evaluation.value(argument)
        if not isinstance(flag, bool):
            actual = kind_of(flag)
            raise TemplateError(f"{call} takes bool as its argument {number + 1}, not {actual}")
        yield flag


def _coalesce(evaluation: Evaluation, call: FunctionCall) -> Value:
    values = (evaluation.value(argument) for argument in call.arguments)
    return next((value for value in values if value is not None), None)


def _lambda(evaluation: Evaluation, call: FunctionCall) -> Lambda:
    """Return a function of the variables that the first arguments name."""
    *names, body = call.arguments
    if not all(isinstance(name, str) for name in names):
        raise TemplateError("lambda() takes the names of its variables as strings")
    outer = evaluation.lambda_variables

    def invoke(*arguments: Value) -> Value:
        own = {name.lower(): value for name, value in zip(names, arguments, strict=False)}
        if len(own) < len(names):
            raise TemplateError(
                f"takes a lambda of at most {len(arguments)} variables, not {len(names)}"
            )
        return evaluation.with_variables({**outer, **own}).value(body)

    return Lambda(invoke)


def _lambda_variable(evaluation: Evaluation, call: FunctionCall) -> Value:
    name = evaluation.value(call.arguments[0])
    evaluation.check(call, [name])
    if name.lower() not in evaluation.lambda_variables:
        raise TemplateError(f"{call} is not a variable of a lambda around it")
    return evaluation.deep_copy(evaluation.lambda_variables[name.lower()])  # counts what is read


def _copy_index(evaluation: Evaluation, call: FunctionCall) -> int:
    """Return the current number of a loop: the named one, or that of the resource."""
    arguments = [evaluation.value(argument) for argument in call.arguments]
    evaluation.check(call, arguments)
    name = arguments.pop(0) if arguments and isinstance(arguments[0], str) else ""
    offset = arguments.pop(0) if arguments else 0
    if arguments or isinstance(offset, str):
        raise TemplateError(f"{call} takes the name of a loop, an offset as int, or both")
    if name.lower() not in evaluation.loops:
        known = ", ".join(repr(loop) for loop in evaluation.loops if loop) or "none"
        loop = "is not inside this loop" if name else "is not inside the copy of a resource"
        raise TemplateError(f"{call} {loop}; the loops around it are: {known}")
    if kind_of(offset) != "int":
        raise TemplateError(f"{call} takes an int as its offset")
    return int(evaluation.loops[name.lower()] + offset)


def _fail(_: Evaluation, call: FunctionCall) -> NoReturn:
    """Stop with a message, which is shown if it is literal: a computed one may have a secret."""
    message = call.arguments[0]
    shown = message[:500] if isinstance(message, str) else "(a computed message is not shown)"
    raise TemplateError(f"fail() stops the deployment: {shown}")


CONTROL_FLOW: Functions = {
    "and": TemplateFunction(
        lambda evaluation, call: all(_flags(evaluation, call)), ("bool",), 2, UNLIMITED, lazy=True
    ),
    "coalesce": TemplateFunction(_coalesce, ("any",), 1, UNLIMITED, lazy=True),
    "copyindex": TemplateFunction(_copy_index, ("string or int",), 0, 2, lazy=True),
    "fail": TemplateFunction(_fail, ("string",), lazy=True),
    "if": TemplateFunction(_if, ("bool", "any", "any"), lazy=True),
    "lambda": TemplateFunction(_lambda, ("any",), 1, UNLIMITED, lazy=True),
    "lambdavariables": TemplateFunction(_lambda_variable, ("string",), lazy=True),
    "or": TemplateFunction(
        lambda evaluation, call: any(_flags(evaluation, call)), ("bool",), 2, UNLIMITED, lazy=True
    ),
}
