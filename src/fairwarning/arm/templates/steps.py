"""The resources that a template asks for, each after what it depends on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from fairwarning.arm.templates.functions import Node
from fairwarning.arm.templates.parameters import LISTED
from fairwarning.arm.templates.values import TemplateError, at
from fairwarning.core.record import record

Resolve = Callable[[str], str | None]
"""The id, in lower case, that is meant by an id, a part of one, or a name."""


@record
class TemplateStep:
    """A resource to deploy; its id, type and name are spelled as in the template."""

    id: str
    type: str
    name: str
    version: str
    place: str
    label: str  # what a refusal calls it
    body: Node
    wanted: bool
    after: tuple[tuple[str, str], ...]  # as the template puts it, and the id or name that it gives

    @property
    def key(self) -> str:
        """What it is found by."""
        return self.id.lower()


def ordered(steps: Sequence[TemplateStep], resolved: Resolve) -> Iterator[TemplateStep]:
    """In the template's order, as far as everything comes after what it depends on."""
    numbers: dict[str | None, int | None] = dict.fromkeys(step.key for step in steps)
    wanted = {number: step for number, step in enumerate(steps) if step.wanted}
    for number, step in wanted.items():
        other = numbers[step.key]
        if other is not None:
            raise TemplateError(f"this is the same resource as {wanted[other].label}", step.place)
        numbers[step.key] = number
    sorter = TopologicalSorter({n: _before(wanted[n], numbers, resolved) for n in wanted})
    try:
        sorter.prepare()
    except CycleError as error:
        labels = [wanted[number].label for number in error.args[1][1:]]
        more = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
        circle = f"{', '.join(labels[:LISTED])}{more}"
        raise TemplateError(f"these resources depend on each other in a circle: {circle}") from None
    ready = sorted(sorter.get_ready())
    while ready:
        first = heappop(ready)
        yield wanted[first]
        sorter.done(first)
        for number in sorter.get_ready():
            heappush(ready, number)


def _before(
    step: TemplateStep, numbers: Mapping[str | None, int | None], resolved: Resolve
) -> set[int]:
    """What this step comes after; what is left out has no number and does not count."""
    before = set()
    for text, name in step.after:
        with at(f"{step.place}.dependsOn"):
            target = resolved(name)
            if target not in numbers:
                raise TemplateError(
                    f"{text} is no resource of this template, or the name of several"
                )
        if (number := numbers[target]) is not None:
            before.add(number)
    return before
