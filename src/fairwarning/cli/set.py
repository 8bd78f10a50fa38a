"""`fairwarning set ...`: scale sets, and the notice they give before a delete (T1 to T8)."""

from pathlib import Path

import click

from fairwarning.cli import client, completion, follow, machine, options, show
from fairwarning.cli.blocks import Block, FieldList, OutputTable
from fairwarning.cli.durations import Notice
from fairwarning.cli.show import Json

_EPILOG = show.examples(
    "set create web --capacity 3 --terminate-notice 5m",
    "set scale web 2 --wait",
    "set show web",
)

_NAME = click.argument("name", shell_complete=completion.sets)
_NOTICE = click.option(
    "--terminate-notice",
    type=Notice(),
    help="What instances are told before a delete: 5m to 15m (PT5M to PT15M), or none.",
)
_UPGRADE = click.option(
    "--upgrade",
    type=click.Choice(["Manual", "Automatic"], case_sensitive=False),
    help="How a changed model reaches instances: by `set upgrade`, or at once.",
)
_SCALE_IN = click.option(
    "--scale-in",
    type=click.Choice(["Default", "NewestVM", "OldestVM"], case_sensitive=False),
    help="Which instances leave first.",
)


@click.group("set", epilog=_EPILOG)
def command() -> None:
    """Scale sets: make them, resize them, and change what their instances are told."""


@command.command(
    "create",
    epilog=show.examples(
        "set create web --capacity 3 --terminate-notice 5m",
        "set create batch --capacity 9 --priority Spot --eviction Delete",
        "set create api --capacity 5 --upgrade automatic --tag env=prod",
    ),
)
@options.data
@click.argument("name")
@click.option("--capacity", type=click.IntRange(0), required=True, help="How many instances.")
@_NOTICE
@_UPGRADE
@_SCALE_IN
@machine.PRIORITY
@machine.EVICTION
@machine.SIZE
@machine.ZONE
@machine.GROUP
@machine.TAGS
@show.as_json
def create(*, data: Path, as_json: bool, **given: object) -> None:
    """Make a scale set. Its instances are called NAME_0, NAME_1 and so on."""
    body = {key: value for key, value in given.items() if value or key == "capacity"}
    with options.errors_reported():
        made = client.ask(data, "POST", "/api/sets", body)
    show.print_result(
        made, f"{made['name']}: created with {made['capacity']} instances", as_json=as_json
    )


@command.command("list", epilog=show.examples("set list", "set list --json", "set list --watch"))
@options.data
@show.as_json
@show.watched
def list_(data: Path, *, as_json: bool, watch: bool) -> None:
    """Every scale set, with the notice it gives."""
    with options.errors_reported():
        follow.listing(data, "sets", _table, as_json=as_json, watch_=watch)


def _table(sets: list[Json]) -> list[Block]:
    headings = ("set", "capacity", "notice", "upgrade", "model", "outdated")
    rows = [
        (
            f"{one['name']} (being deleted)" if one["deleting"] else one["name"],
            str(one["capacity"]),
            one["terminate_notice"] or "none",
            one["upgrade"],
            str(one["model"]),
            str(len(one["outdated"]) or ""),
        )
        for one in sets
    ]
    return show.first_rows(OutputTable(headings, rows), "scale sets")


@command.command("show", epilog=show.examples("set show web", "set show web --json"))
@options.data
@_NAME
@show.as_json
def show_(data: Path, name: str, *, as_json: bool) -> None:
    """Everything about one scale set."""
    with options.errors_reported():
        found = client.ask(data, "GET", f"/api/sets/{client.part(name)}")
    show.print_result(found, _facts(found), as_json=as_json)


def _facts(found: Json) -> FieldList:
    outdated = found["outdated"]
    more = f" and {len(outdated) - 10} more" if outdated[10:] else ""
    return FieldList(
        {
            "set": found["name"],
            "state": "being deleted" if found["deleting"] else "",
            "capacity": str(found["capacity"]),
            "delete notice": found["terminate_notice"] or "none",
            "upgrade": found["upgrade"],
            "scale-in": found["scale_in"],
            "model": str(found["model"]),
            "outdated": f"{', '.join(outdated[:10])}{more}; `set upgrade` mends it"
            if outdated
            else "",
            "priority": found["priority"],
            "eviction": found["eviction"] if found["priority"] == "Spot" else "",
            "scopes": ", ".join(found["scopes"]),
            "group": found["group"],
            "size": found["size"],
            "zone": found["zone"],
            "tags": show.tags(found["tags"]),
        }
    )


@command.command(
    "update",
    epilog=show.examples(
        "set update web --terminate-notice 10m",
        "set update web --terminate-notice none",
        "set update web --upgrade automatic --tag env=prod",
    ),
)
@options.data
@_NAME
@_NOTICE
@_UPGRADE
@_SCALE_IN
@machine.SIZE
@machine.TAGS
@show.as_json
def update(
    *, data: Path, name: str, terminate_notice: str | None, as_json: bool, **given: object
) -> None:
    """Change the model. With upgrade Manual, `set upgrade` brings it to the instances."""
    body = {key: value for key, value in given.items() if value}
    if terminate_notice is not None:
        body["terminate_notice"] = terminate_notice or None
    if not body:
        raise click.UsageError("say what to change; `fairwarning set update --help` lists it")
    with options.errors_reported():
        found = client.ask(data, "PATCH", f"/api/sets/{client.part(name)}", body)
    _told(found, as_json=as_json)


@command.command(
    "upgrade",
    epilog=show.examples("set upgrade web", "set upgrade web 0 2", "set upgrade web web_0"),
)
@options.data
@_NAME
@click.argument("instances", nargs=-1, shell_complete=completion.machines)
@show.as_json
def upgrade(data: Path, name: str, instances: tuple[str, ...], *, as_json: bool) -> None:
    """Bring instances to the newest model: these, or all."""
    body = {"instances": _numbers(name, instances)} if instances else {}
    with options.errors_reported():
        found = client.ask(data, "POST", f"/api/sets/{client.part(name)}/upgrade", body)
    _told(found, as_json=as_json)


def _told(found: Json, *, as_json: bool) -> None:
    """What a change has led to."""
    left = len(found["outdated"])
    text = "every instance is on it"
    if left:
        text = f"{left} instances are not on it; `fairwarning set upgrade {found['name']}`"
    show.print_result(found, f"{found['name']}: model {found['model']}; {text}", as_json=as_json)


def _numbers(name: str, given: tuple[str, ...]) -> list[int]:
    """Instances by number, or by the name that `machine list` shows."""
    found = []
    for one in given:
        number = one.removeprefix(f"{name}_")
        if not number.isascii() or not number.isdigit():
            allowed = f"a number such as 3, or {name}_3"
            raise click.UsageError(f"{one!r} is not an instance of {name}: write {allowed}")
        found.append(int(number))
    return found


# --- What leads to operations --------------------------------------------------------------------


@command.command("scale", epilog=show.examples("set scale web 5", "set scale web 2 --wait"))
@options.data
@_NAME
@click.argument("capacity", type=click.IntRange(0))
@show.waits
@show.as_json
def scale(data: Path, name: str, capacity: int, *, wait: bool, as_json: bool) -> None:
    """Have so many instances. Those that leave get their notice first."""
    _act(
        data,
        "POST",
        f"{client.part(name)}/scale",
        {"capacity": capacity},
        wait=wait,
        as_json=as_json,
    )


@command.command(
    "delete-instances",
    epilog=show.examples(
        "set delete-instances web 0", "set delete-instances web web_0 web_2 --wait"
    ),
)
@options.data
@_NAME
@click.argument("instances", nargs=-1, required=True, shell_complete=completion.machines)
@show.waits
@show.as_json
def delete_instances(
    data: Path, name: str, instances: tuple[str, ...], *, wait: bool, as_json: bool
) -> None:
    """Delete these instances, after their notice. Name them by number or by name."""
    body = {"instances": _numbers(name, instances)}
    _act(data, "POST", f"{client.part(name)}/delete", body, wait=wait, as_json=as_json)


@command.command("delete", epilog=show.examples("set delete web", "set delete web --wait"))
@options.data
@_NAME
@show.waits
@show.as_json
def delete(data: Path, name: str, *, wait: bool, as_json: bool) -> None:
    """Delete a scale set. Its instances get their notice first."""
    _act(data, "DELETE", client.part(name), None, wait=wait, as_json=as_json)


def _act(data: Path, method: str, path: str, body: object, *, wait: bool, as_json: bool) -> None:
    with options.errors_reported():
        answer = client.ask(data, method, f"/api/sets/{path}", body)
        if not as_json:
            _tell_accepted(answer)
        follow.accepted(data, [answer], as_json=as_json, wait=wait, single=True)


def _tell_accepted(answer: Json) -> None:
    events = answer["events"]
    blocks: list[Block] = [f"accepted, operation {answer['operation']['id']}"]
    if events:
        blocks.append(show.events(events[: show.SHOWN]))
    show.print_blocks(*blocks)
