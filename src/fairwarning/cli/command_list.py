"""The names and summaries of all commands. A list that imports nothing, for a quick --help."""

COMMANDS = {
    "Fleet commands": {
        "up": "Run the service.",
        "status": "Show the service, its fleet, what is due and what is wrong.",
        "machine": "Manage machines and trigger events on them.",
        "set": "Manage scale sets.",
        "event": "List, approve, cancel, explain and watch events.",
        "operation": "Show the progress of an operation.",
        "rollout": "Roll out host updates, one update domain at a time.",
        "clock": "Show the service's clock; control a virtual clock.",
        "webhook": "Manage webhooks.",
        "journal": "List who did what, when and why.",
    },
    "Handler commands": {
        "agent": "Run hooks inside a machine and approve events.",
        "exec": "Run a program as if it were inside a machine.",
        "certify": "Test an event handler against common failure cases.",
        "scenario": "Run scripted event scenarios and check the outcome.",
        "fault": "Inject faults into the metadata endpoint.",
    },
    "Other commands": {
        "az": "Run the Azure CLI against the service.",
        "context": "Give names to services, and choose the one to use.",
        "token": "Create, list and revoke tokens.",
        "bug": "List and release what is set aside because of a bug.",
        "healthcheck": "Check whether the service is ready.",
        "completion": "Print a shell completion script.",
        "version": "Print the version of this program.",
    },
}
"""Each name is a module in this package with a `command`; the summaries are those of --help."""

SUMMARIES = {name: summary for group in COMMANDS.values() for name, summary in group.items()}
