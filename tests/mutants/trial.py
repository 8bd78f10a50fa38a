"""Tries mutants against checks.

A mutant of a function replaces the code of that function in a forked process, which has imported
and collected everything. It is tried against the checks that reach its line. A mutant of what an
import runs is the source that a forked process imports. That process collects the tests itself and
tries all of them.
"""

import gc
import json
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import NoReturn, TypeVar

from tests.mutants.checks import SEEDS, TESTS, Checks, Reached, measure
from tests.mutants.mutations import CORE, Mutant
from tests.sim.plants import Patch, patch

SURVIVED = "survived"
_COLLECTING_SECONDS = 10.0


class Trial:
    """Says of each mutant which check caught it, or that it survived."""

    def __init__(
        self,
        report: Callable[[Mutant, str], None],
        tests: Sequence[str] = TESTS,
        seeds: int = SEEDS,
    ) -> None:
        self._report = report
        self._tests = tests
        self._seeds = seeds

    def run(self, mutants: Sequence[Mutant], jobs: int = 1) -> None:
        """Try mutants, in any order. Nothing of `fairwarning` may be imported before."""
        assert not any(name.startswith("fairwarning.") for name in sys.modules)
        [(_, measured)] = fork_each([()], lambda _: measure(self._tests, self._seeds))
        self._reached = Reached(**json.loads(measured))
        imported = [mutant for mutant in mutants if self._reached.is_imported(mutant)]
        others = [mutant for mutant in mutants if not self._reached.is_imported(mutant)]
        self._fork_each(imported, self._import, jobs)
        self._collect(lambda checks: self._exchange_each(checks, others, jobs))

    def _fork_each(
        self, mutants: Sequence[Mutant], work: Callable[[Mutant], str], jobs: int
    ) -> None:
        for mutant, result in fork_each(mutants, work, jobs):
            self._report(mutant, result or "a limit of time or memory")

    def _collect(self, work: Callable[[Checks], None]) -> None:
        Checks(self._tests, self._seeds, work).collect()

    def _import(self, mutant: Mutant) -> str:
        patch(Patch(f"core.{mutant.path.stem}", mutant.path.read_text("utf-8"), mutant.source()))
        Limits().begin(_COLLECTING_SECONDS)
        results: list[str] = []
        self._collect(lambda checks: results.append(self._try(mutant, checks)))
        return results[0] if results else "the import"

    def _exchange_each(self, checks: Checks, mutants: Sequence[Mutant], jobs: int) -> None:
        import tests.sim.run  # noqa: F401, PLC0415  (imports what the forked processes need)

        gc.unfreeze()  # what is frozen is not among the objects
        functions = [
            function
            for function in gc.get_objects()
            if type(function) is FunctionType
            and function.__code__.co_filename.startswith(str(CORE))
        ]

        def work(mutant: Mutant) -> str:
            if self._reached.checks_of(mutant):
                _exchange(mutant, functions)
            return self._try(mutant, checks)

        self._fork_each(mutants, work, jobs)

    def _try(self, mutant: Mutant, checks: Checks) -> str:
        limits = Limits()
        for name in self._reached.checks_of(mutant):
            limits.begin(self._reached.seconds[name])
            if checks.fails(name):
                return name
        return SURVIVED


def _exchange(mutant: Mutant, functions: Sequence[FunctionType]) -> None:
    """Let a function run the code of a mutant."""
    path = str(mutant.path)
    codes = dict(_codes(compile(mutant.source(), path, "exec", dont_inherit=True)))
    exchanged = 0
    for function in functions:
        code = function.__code__
        other = codes.get((code.co_qualname, code.co_firstlineno), code)
        if code.co_filename == path and code != other:
            if not other.co_freevars:  # without a `super()`, a function needs no `__class__`
                other = other.replace(co_freevars=code.co_freevars)
            function.__code__ = other
            exchanged += 1
    assert exchanged, f"no function is another one: {mutant}"


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Yield the code of all functions, by name and line."""
    yield (code.co_qualname, code.co_firstlineno), code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


# --- A forked process for each, a few at a time, with limits --------------------------------------


T = TypeVar("T")

_IDLE_SECONDS = 20.0
"""A process that does nothing for so long waits for ever."""
_MEMORY_BYTES = 4 << 30
_ERROR = "Traceback"


def fork_each(
    tasks: Iterable[T], work: Callable[[T], str], jobs: int = 1
) -> Iterator[tuple[T, str]]:
    """Do each task in a process of its own; yield its result, "" if the process was ended."""
    left = iter(tasks)
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < jobs and (task := next(left, None)) is not None:
                selector.register(_fork(task, work), selectors.EVENT_READ, task)
            if not selector.get_map():
                return
            for key, _ in selector.select():
                selector.unregister(key.fileobj)
                yield key.data, _read(key.fd)


def _fork(task: T, work: Callable[[T], str]) -> int:
    """Return the end of a pipe that the result can be read from."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        _work(task, work, writing)
    os.close(writing)
    return reading


def _work(task: T, work: Callable[[T], str], writing: int) -> NoReturn:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        silent = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):
            os.dup2(silent, output)
        result = work(task)
    except BaseException:  # noqa: BLE001  (nothing of the parent goes on in the child)
        result = traceback.format_exc()
    with os.fdopen(writing, "w") as pipe:
        pipe.write(result)
    os._exit(0)


def _read(reading: int) -> str:
    with os.fdopen(reading) as pipe:
        result = pipe.read()
    os.wait()
    if result.startswith(_ERROR):
        raise RuntimeError(result)
    return result


class Limits:
    """Ends this process if a check needs too much CPU time, or waits for ever."""

    def __init__(self) -> None:
        self._used = time.process_time()
        signal.signal(signal.SIGALRM, self._end_if_idle)
        signal.setitimer(signal.ITIMER_REAL, _IDLE_SECONDS, _IDLE_SECONDS)

    @staticmethod
    def begin(seconds: float) -> None:
        """Begin a check that needs so much CPU time if nothing is wrong."""
        signal.setitimer(signal.ITIMER_PROF, 3 + 5 * seconds)  # its signal ends the process

    def _end_if_idle(self, *_: object) -> None:
        before, self._used = self._used, time.process_time()
        if self._used - before < 0.05:
            signal.raise_signal(signal.SIGPROF)
