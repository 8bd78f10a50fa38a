"""The resources of a template, in the order of their dependencies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from fairwarning.arm.templates.functions import Node
from fairwarning.arm.templates.parameters import LISTED
from fairwarning.arm.templates.values import TemplateError, at
from fairwarning.core.record import record

Resolve = Callable[[str], str | None]
"""Returns the id, in lower case, for an id, the end of an id, or a name."""


@record
class TemplateStep:
    """A resource to deploy; its id, type and name are spelled as in the template."""

    id: str
    type: str
    name: str
    version: str
    place: str
    label: str  # its name in an error
    body: Node
    enabled: bool  # the value of its condition
    depends_on: tuple[tuple[str, str], ...]  # the text in the template, and its id or name

    @property
    def key(self) -> str:
        """The id in lower case."""
        return self.id.lower()


def sort_steps(steps: Sequence[TemplateStep], resolve: Resolve) -> Iterator[TemplateStep]:
    """Yield the enabled steps after their dependencies, and otherwise in the template's order."""
    numbers: dict[str | None, int | None] = dict.fromkeys(step.key for step in steps)
    enabled = {number: step for number, step in enumerate(steps) if step.enabled}
    for number, step in enabled.items():
        other = numbers[step.key]
        if other is not None:
            raise TemplateError(f"this is the same resource as {enabled[other].label}", step.place)
        numbers[step.key] = number
    sorter = TopologicalSorter({n: _dependencies(enabled[n], numbers, resolve) for n in enabled})
    try:
        sorter.prepare()
    except CycleError as error:
        labels = [enabled[number].label for number in error.args[1][1:]]
        more = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
        cycle = f"{', '.join(labels[:LISTED])}{more}"
        raise TemplateError(f"these resources have circular dependencies: {cycle}") from None
    ready = sorted(sorter.get_ready())
    while ready:
        first = heappop(ready)
        yield enabled[first]
        sorter.done(first)
        for number in sorter.get_ready():
            heappush(ready, number)


def _dependencies(
    step: TemplateStep, numbers: Mapping[str | None, int | None], resolve: Resolve
) -> set[int]:
    """Return the numbers of the steps before this one; a disabled step has no number."""
    dependencies = set()
    for text, name in step.depends_on:
        with at(f"{step.place}.dependsOn"):
            target = resolve(name)
            if target not in numbers:
                raise TemplateError(
                    f"{text} is not a resource of this template, or the name of several"
                )
        if (number := numbers[target]) is not None:
            dependencies.add(number)
    return dependencies
