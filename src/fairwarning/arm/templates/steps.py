"""The resources of a template, in the order of their dependencies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from fairwarning.arm.templates.evaluation import Loops, Node, ValueBudget
from fairwarning.arm.templates.values import LISTED, TemplateError, at
from fairwarning.core.record import record

_SHOWN = 10_000  # dependencies: more would make documents that are too long to store
Resolve = Callable[[str], Sequence[str] | None]
"""Returns ids, in lower case, for an id, the end of an id, or a name; None for another text."""


@record
class TemplateStep:
    """A resource to deploy; its id, type and name are spelled as in the template."""

    place: str
    label: str  # its name in an error
    loops: Loops
    id: str = ""  # "" if its condition is false and its name cannot be evaluated
    type: str = ""
    name: str = ""
    version: str = ""
    body: Node = None
    enabled: bool = False  # the value of its condition; false for an existing resource
    depends_on: tuple[tuple[str, str], ...] = ()  # the text in the template, and its id or name
    after: tuple[str, ...] = ()  # names in references: they come first if the template has them
    template: object = None  # of a nested deployment

    @property
    def key(self) -> str:
        """The id in lower case."""
        return self.id.lower()


class StepOrder:
    """Steps after their dependencies, and otherwise in the template's order."""

    def __init__(
        self, steps: Sequence[TemplateStep], resolve: Resolve, budget: ValueBudget
    ) -> None:
        self._budget = budget
        self._numbers: dict[str, int | None] = dict.fromkeys(step.key for step in steps)
        self._enabled = {number: step for number, step in enumerate(steps) if step.enabled}
        self._resolve = resolve
        for number, step in self._enabled.items():
            other = self._numbers[step.key]
            if other is not None:
                label = self._enabled[other].label
                raise TemplateError(f"this is the same resource as {label}", step.place)
            self._numbers[step.key] = number
        self._before = {n: self._dependencies(step) for n, step in self._enabled.items()}

    def dependencies(self) -> Mapping[str, tuple[TemplateStep, ...]]:
        """Return the enabled steps before each step that has some, by the step's key.

        Of a template with very many dependencies, in which loops depend on loops, none are shown.
        """
        if sum(map(len, self._before.values())) > _SHOWN:
            return {}
        return {
            self._enabled[number].key: tuple(self._enabled[n] for n in sorted(before))
            for number, before in self._before.items()
            if before
        }

    def sorted(self) -> Iterator[TemplateStep]:
        """Yield the enabled steps in their order."""
        sorter = TopologicalSorter(self._before)
        try:
            sorter.prepare()
        except CycleError as error:
            labels = [self._enabled[number].label for number in error.args[1][1:]]
            more = f" and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
            cycle = f"{', '.join(labels[:LISTED])}{more}"
            raise TemplateError(f"these resources have circular dependencies: {cycle}") from None
        ready = sorted(sorter.get_ready())
        while ready:
            first = heappop(ready)
            yield self._enabled[first]
            sorter.done(first)
            for number in sorter.get_ready():
                heappush(ready, number)

    def _dependencies(self, step: TemplateStep) -> set[int]:
        """Return the numbers of the steps before this one; a disabled step has no number."""
        targets: list[str] = []
        for text, name in step.depends_on:
            with at(f"{step.place}.dependsOn"):
                resolved = self._resolve(name)
                if resolved is None or any(target not in self._numbers for target in resolved):
                    raise TemplateError(
                        f"{text} is not a resource of this template, or the name of several"
                    )
            self._budget.spend(len(resolved))
            targets += resolved
        for name in step.after:
            resolved = self._resolve(name) or ()
            self._budget.spend(len(resolved))
            targets += [target for target in resolved if target != step.key]
        numbers = (self._numbers.get(target) for target in targets)
        return {number for number in numbers if number is not None}
