"""Measures in a new process: `python -m tests.bench.probes MODULE FUNCTION JSON` prints JSON."""

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tests.bench import fleets


def run(function: Callable[..., Any], how: Mapping[str, Any]) -> Any:  # noqa: ANN401  (its result)
    """Run a coroutine function in this process."""
    with fleets.runner() as loop:
        return loop.run(function(**how))


if __name__ == "__main__":
    module, name, how = sys.argv[1:]
    print(json.dumps(run(getattr(import_module(module), name), json.loads(how))))
