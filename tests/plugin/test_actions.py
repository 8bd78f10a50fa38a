"""Every interface has every action on a machine; `CONTRIBUTING.md` says where to add one."""

import inspect

import pytest

from fairwarning.cli.commands import machine
from fairwarning.console.api.machines import ACTIONS
from fairwarning.testing.handles import MachineHandle, OperationHandle
from fairwarning.testing.scenarios import actions

COMMANDS = {
    name
    for name, command in machine.command.commands.items()
    if any(parameter.name == "machines" for parameter in command.params)
}
SCENARIO_ACTIONS = {
    name for name, action in actions.ACTIONS.items() if action.begins and "machine" in action.keys
}
METHODS = {
    name
    for name, method in inspect.getmembers(MachineHandle, inspect.isfunction)
    if not name.startswith("_") and inspect.signature(method).return_annotation is OperationHandle
}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(COMMANDS, id="cli/commands/machine_actions.py"),
        pytest.param(SCENARIO_ACTIONS, id="testing/scenarios/actions.py"),
        pytest.param(METHODS, id="testing/handles.py"),
    ],
)
def test_an_interface_has_the_actions_of_the_api(names: set[str]) -> None:
    """No action is missing, and none is missing in the API."""
    assert names == ACTIONS.keys()
