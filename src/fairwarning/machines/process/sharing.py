"""The namespaces that the programs of a machine share: the first one creates them, others join."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fairwarning.core.errors import Unavailable
from fairwarning.machines.process.program import AttachedProgram, Key

CREATE_SECONDS = 30.0  # how long a program may take to create its namespaces


class SharedNamespaces:
    """The programs of each machine, in the order in which they asked for its namespaces."""

    def __init__(self) -> None:
        self._programs: dict[Key, list[AttachedProgram]] = {}

    @contextmanager
    def member(self, program: AttachedProgram) -> Iterator[None]:
        """Count a program among those of its machine."""
        programs = self._programs.setdefault(program.key, [])
        programs.append(program)
        try:
            yield
        finally:
            program.namespaces.discard()
            programs.remove(program)
            if not programs:
                self._programs.pop(program.key, None)

    async def to_join(self, program: AttachedProgram) -> Sequence[int]:
        """Return the descriptors of the namespaces to join; none if the program creates them.

        A program waits for those before it, so that two that start at once share namespaces.
        Raises Unavailable if one of them takes too long.
        """
        programs = self._programs[program.key]
        for other in programs[: programs.index(program)]:
            try:
                await asyncio.wait_for(other.namespaces.known.wait(), CREATE_SECONDS)
            except TimeoutError:
                text = f"another program is still starting in {program.key[1]}; try again"
                raise Unavailable("Starting", text) from None
            if other.namespaces.descriptors:
                return other.namespaces.descriptors
        return ()
