"""`fairwarning set ...`: manage scale sets and their termination notice (T1 to T8)."""

import re
from functools import partial
from operator import itemgetter

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, add_list
from fairwarning.cli.commands.machine_actions import plan_table
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import confirm, follow, show
from fairwarning.cli.output.blocks import Block, FieldList
from fairwarning.cli.output.confirm import Confirmation, Plan
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import completion, machine_settings, options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.parameter_types import NOTICE, AnyCase, Integer
from fairwarning.core.errors import NotFound
from fairwarning.core.times import spoken

_EPILOG = show.examples(
    "set create shop --capacity 3 --terminate-notice 5m",
    "set scale web 2 --wait",
    "set show web",
)

_NAME = click.argument("name", shell_complete=completion.sets)
_NOTICE = click.option(
    "--terminate-notice",
    type=NOTICE,
    help="Notice before an instance is deleted: 5m to 15m (PT5M to PT15M), or none.  [new sets:"
    " none]",
)
_UPGRADE = click.option(
    "--upgrade",
    type=AnyCase("Manual", "Automatic"),
    help="How instances get a new model: with `set upgrade`, or immediately.  [new sets: Manual]",
)
_SCALE_IN = click.option(
    "--scale-in",
    type=AnyCase("Default", "NewestVM", "OldestVM"),
    help="Which instances are deleted first when scaling in.  [new sets: Default]",
)


_ZONES = click.option(
    "--zone",
    "zones",
    multiple=True,
    help="Availability zone; repeatable. Instances are spread over the zones.",
)


@click.group("set", cls=SuggestingGroup, epilog=_EPILOG)
def command() -> None:
    """Manage scale sets and their termination notice."""


@command.command(
    "create",
    epilog=show.examples(
        "set create shop --capacity 3 --terminate-notice 5m",
        "set create grid --capacity 9 --priority Spot --eviction Delete",
        "set create pool --capacity 5 --upgrade automatic --tag env=prod",
        "set create cache --capacity 3 --subnet 10.0.1.0/24",
        "set create store --capacity 6 --zone 1 --zone 2 --zone 3",
    ),
)
@click.argument("name")
@click.option("--capacity", type=Integer(0), required=True, help="Number of instances.")
@_NOTICE
@_UPGRADE
@_SCALE_IN
@machine_settings.PRIORITY
@machine_settings.EVICTION
@machine_settings.SIZE
@_ZONES
@machine_settings.SUBNET
@machine_settings.GROUP
@machine_settings.TAGS
@show.as_json
@options.service
def create(*, service: ServiceTarget, as_json: bool, **settings: object) -> None:
    """Create a scale set. Its instances are named NAME_0, NAME_1 and so on."""
    body = {key: value for key, value in settings.items() if value or key == "capacity"}
    scale_set = client.ask(service, "POST", "/api/sets", body)
    text = f"{scale_set['name']}: created with {scale_set['capacity']} instances"
    show.print_result(scale_set, text, as_json=as_json)


def _name(scale_set: Json) -> str:
    name: str = scale_set["name"]
    return f"{name} (deleting)" if scale_set["deleting"] else name


_SETS = Listing(
    "sets",
    "scale sets",
    (
        Column("set", _name),
        Column("capacity", lambda scale_set: str(scale_set["capacity"])),
        Column("notice", lambda scale_set: scale_set["terminate_notice"] or "none"),
        Column("upgrade", itemgetter("upgrade")),
        Column("model", lambda scale_set: str(scale_set["model"])),
        Column("outdated", lambda scale_set: str(len(scale_set["outdated"]) or "")),
        Column("leaving", lambda scale_set: str(scale_set["leaving"] or ""), wide=True),
        Column("priority", itemgetter("priority"), wide=True),
        Column("size", itemgetter("size"), wide=True),
        Column("zones", lambda scale_set: ", ".join(scale_set["zones"]), wide=True),
        Column("subnet", itemgetter("subnet"), wide=True),
        Column("group", itemgetter("group"), wide=True),
    ),
)


add_list(
    command,
    _SETS,
    "List scale sets.",
    "set list",
    "set list --sort -capacity",
    "set list -o name",
    "set list --watch",
)


@command.command("show", epilog=show.examples("set show web", "set show web --json"))
@_NAME
@show.as_json
@options.service
def show_(service: ServiceTarget, name: str, *, as_json: bool) -> None:
    """Show a scale set."""
    scale_set = client.ask(service, "GET", client.api_path("sets", name))
    upgrade_all = service.command_line("set upgrade", name)
    hint = f"To update the outdated instances, run `{upgrade_all}`."
    show.print_result(scale_set, _fields(scale_set), as_json=as_json)
    if scale_set["outdated"] and not as_json:
        show.note(hint)


def _fields(scale_set: Json) -> FieldList:
    outdated = scale_set["outdated"]
    more = f" and {len(outdated) - 10} more" if outdated[10:] else ""
    others = {
        "outdated": f"{', '.join(outdated[:10])}{more}",
        "scale-in": scale_set["scale_in"],
        "eviction": scale_set["eviction"] if scale_set["priority"] == "Spot" else "",
        "scopes": ", ".join(scale_set["scopes"]),
        "tags": show.tags(scale_set["tags"]),
    }
    return listing.fields(_SETS, scale_set, others)


@command.command(
    "update",
    epilog=show.examples(
        "set update web --terminate-notice 10m",
        "set update web --terminate-notice none",
        "set update web --upgrade automatic --tag env=prod",
    ),
)
@_NAME
@_NOTICE
@_UPGRADE
@_SCALE_IN
@machine_settings.SIZE
@machine_settings.TAGS
@show.as_json
@options.service
def update(
    *,
    service: ServiceTarget,
    name: str,
    terminate_notice: str | None,
    as_json: bool,
    **settings: object,
) -> None:
    """Change the model. In upgrade mode Manual, apply it with `set upgrade`."""
    body = {key: value for key, value in settings.items() if value}
    if terminate_notice is not None:
        body["terminate_notice"] = terminate_notice or None
    if not body:
        raise click.UsageError("nothing to change; give at least one option")
    scale_set = client.ask(service, "PATCH", client.api_path("sets", name), body)
    _print_model(service, scale_set, as_json=as_json)


@command.command(
    "upgrade",
    epilog=show.examples("set upgrade web", "set upgrade web 0 2", "set upgrade web web_0"),
)
@_NAME
@click.argument("instances", nargs=-1, shell_complete=completion.machines)
@show.as_json
@options.service
def upgrade(
    service: ServiceTarget, name: str, instances: tuple[str, ...], *, as_json: bool
) -> None:
    """Apply the current model to the given instances, or to all."""
    body = {"instances": _numbers(name, instances)} if instances else {}
    scale_set = client.ask(service, "POST", client.api_path("sets", name, "upgrade"), body)
    _print_model(service, scale_set, as_json=as_json)


def _print_model(service: ServiceTarget, scale_set: Json, *, as_json: bool) -> None:
    """Print the current model, and how many instances do not have it yet."""
    name, outdated = scale_set["name"], len(scale_set["outdated"])
    text = "all instances are up to date"
    if outdated:
        upgrade_all = service.command_line("set upgrade", name)
        text = f"{outdated} instances are outdated; run `{upgrade_all}`"
    show.print_result(scale_set, f"{name}: model {scale_set['model']}; {text}", as_json=as_json)


def _numbers(name: str, instances: tuple[str, ...]) -> list[int]:
    """Return instance numbers, given as numbers or as the names that `machine list` shows."""
    numbers = []
    for instance in instances:
        number = instance.removeprefix(f"{name}_")
        if not re.fullmatch("[0-9]{1,9}", number):
            allowed = f"a number such as 3, or {name}_3"
            raise click.UsageError(f"{instance!r} is not an instance of {name}; write {allowed}")
        numbers.append(int(number))
    return numbers


# --- Commands that start operations --------------------------------------------------------------


@command.command(
    "scale",
    epilog=show.examples("set scale web 5", "set scale web 2 --wait", "set scale web 0 --dry-run"),
)
@_NAME
@click.argument("capacity", type=Integer(0))
@confirm.options
@show.waits
@show.as_json
@options.service
def scale(
    service: ServiceTarget,
    name: str,
    capacity: int,
    confirmation: Confirmation,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Set the number of instances. Deleted instances get their notice first.

    Asks before it deletes more than one instance, or one without notice.
    """
    path, body = client.api_path("sets", name, "scale"), {"capacity": capacity}
    if confirmation.dry_run or not confirmation.yes:
        plan = client.ask(service, "POST", f"{path}/plan", body)
        if confirmation.dry_run or plan["deleted"] > 1 or plan["without_notice"]:
            count = show.counted(plan["deleted"], "instance")
            question = f"Scale {name} to {capacity}, and delete {count}?"
            planned = Plan([_scale_fields(plan)], plan)
            confirm.ask(confirmation, question, lambda: planned, as_json=as_json)
    _act(service, "POST", path, body, wait=wait, as_json=as_json)


def _scale_fields(plan: Json) -> FieldList:
    more = plan["deleted"] - len(plan["instances"])
    notice = "none" if plan["notice_seconds"] is None else spoken(plan["notice_seconds"])
    without = plan["without_notice"]
    return FieldList(
        {
            "set": plan["set"],
            "capacity": str(plan["capacity"]),
            "deletes": str(plan["deleted"]),
            "instances": ", ".join(plan["instances"]) + (f" and {more} more" if more else ""),
            "notice": f"{notice}; none for {without}" if without and notice != "none" else notice,
        }
    )


@command.command(
    "delete-instances",
    epilog=show.examples(
        "set delete-instances web 0", "set delete-instances web web_1 web_2 --wait"
    ),
)
@_NAME
@click.argument("instances", nargs=-1, required=True, shell_complete=completion.machines)
@confirm.options
@show.waits
@show.as_json
@options.service
def delete_instances(
    service: ServiceTarget,
    name: str,
    instances: tuple[str, ...],
    confirmation: Confirmation,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Delete instances after their notice; asks first. Give them by number or by name."""
    numbers = _numbers(name, instances)
    question = f"Delete {show.counted(len(instances), 'instance')} of {name}?"
    plan = partial(_deletion_plan, service, name, numbers)
    confirm.ask(confirmation, question, plan, as_json=as_json)
    path, body = client.api_path("sets", name, "delete"), {"instances": numbers}
    _act(service, "POST", path, body, wait=wait, as_json=as_json)


def _deletion_plan(service: ServiceTarget, name: str, numbers: list[int]) -> Plan:
    scale_set = client.ask(service, "GET", client.api_path("sets", name))
    machines = {
        machine["instance"]: machine for machine in client.list_all(service, "machines", set=name)
    }
    for number in numbers:
        if number not in machines:  # as the service does
            raise NotFound("UnknownInstance", f"scale set {name!r} has no instance {number}")
    table = plan_table("delete", [machines[number] for number in numbers])
    return Plan([table], scale_set)


@command.command("delete", epilog=show.examples("set delete web", "set delete api --wait"))
@_NAME
@confirm.options
@show.waits
@show.as_json
@options.service
def delete(
    service: ServiceTarget, name: str, confirmation: Confirmation, *, wait: bool, as_json: bool
) -> None:
    """Delete a scale set; asks first. Its instances get their notice first."""

    def plan() -> Plan:
        scale_set = client.ask(service, "GET", client.api_path("sets", name))
        return Plan([_fields(scale_set)], scale_set)

    confirm.ask(confirmation, f"Delete {name} and its instances?", plan, as_json=as_json)
    _act(service, "DELETE", client.api_path("sets", name), None, wait=wait, as_json=as_json)


def _act(
    service: ServiceTarget, method: str, path: str, body: object, *, wait: bool, as_json: bool
) -> None:
    answer = client.ask(service, method, path, body)
    if not as_json:
        blocks: list[Block] = [f"accepted, operation {answer['operation']['id']}"]
        if events := answer["events"]:
            blocks.append(show.events(events[: listing.ROWS]))
        show.print_blocks(*blocks)
    follow.accepted(service, [answer], as_json=as_json, wait=wait, single=True)
