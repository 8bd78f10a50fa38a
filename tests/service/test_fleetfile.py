import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.commands import Command, CreateScope, CreateSet, validate
from fairwarning.core.errors import Refused, Unavailable
from fairwarning.core.model import (
    EvictionPolicy,
    Machine,
    Priority,
    Rules,
    ScaleInRule,
    ScopeKind,
    UpgradeMode,
)
from fairwarning.service.config.fleet_file import ApplyResult, FleetFile, apply, read, sample
from fairwarning.service.config.settings import (
    CloudSettings,
    ClusterSettings,
    DriverKind,
    DriverSettings,
    JournalSettings,
    OperationSettings,
)
from tests.fixtures.fleet import FleetHarness

PAGE = Path(__file__).parents[2] / "docs" / "fleet-file.md"


def scopes(text: str) -> list[CreateScope]:
    """The scopes that a file creates."""
    return [command for command in read(text).commands if isinstance(command, CreateScope)]


def refusal(text: str) -> str:
    """The message with which a file is refused."""
    with pytest.raises(Refused) as caught:
        read(text, "my.toml")
    assert caught.value.code == "BadFleetFile"
    return caught.value.message


def test_the_example_in_the_documentation() -> None:
    """The page's complete example does what its comments claim."""
    file = read(PAGE.read_text("utf-8").split("```toml\n")[1].split("```")[0])
    assert (file.cloud.location, file.cloud.size) == ("westeurope", "Standard_D2s_v5")
    gateway, *batch, db, legacy, web = file.commands
    shared = Rules(enable_delay_seconds=2, reboot_seconds=300)
    assert gateway == CreateScope(
        scope="gateway",
        kind=ScopeKind.STANDALONE,
        machines=(
            Machine(
                name="gateway",
                host_name="gw",
                host="rack1",
                address="10.0.0.4",
                tags={"team": "network"},
            ),
        ),
        rules=shared,
    )
    assert [command.scope for command in batch if isinstance(command, CreateScope)] == [
        "batch_0", "batch_1", "batch_2"
    ]  # fmt: skip
    assert isinstance(db, CreateScope)
    assert [(machine.name, machine.update_domain) for machine in db.machines] == [
        ("db-a", 0),
        ("db-b", 1),
    ]
    assert isinstance(legacy, CreateScope)
    assert len(legacy.machines) == 3
    assert web == CreateSet(
        set="web",
        capacity=5,
        terminate_seconds=600,
        scale_in=ScaleInRule.OLDEST,
        subnet="10.0.1.0/24",
        rules=Rules(enable_delay_seconds=2, reboot_seconds=600),
    )


def test_defaults() -> None:
    """An empty file means an empty fleet; a machine with only a name has the defaults."""
    assert read("") == FleetFile(cloud=CloudSettings(), commands=())
    assert scopes('[[machine]]\nname = "vm"') == [
        CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(Machine(name="vm"),))
    ]
    (empty,) = read('[[scale_set]]\nname = "web"\ncapacity = 0').commands
    assert empty == CreateSet(set="web", capacity=0)


def test_every_key_of_a_scale_set() -> None:
    """Every key of a scale set is read."""
    (command,) = read(
        '[[scale_set]]\nname = "web"\ncapacity = 2\nprefix = "w"\nterminate_notice = "PT15M"\n'
        'upgrade = "Automatic"\nscale_in = "NewestVM"\npriority = "Spot"\neviction = "Delete"\n'
        'update_domains = 3\nfault_domains = 2\nsize = "Standard_F2"\nzones = ["1", "2"]\n'
        'tags = { team = "web" }\ngroup = "shop"\nrules = { approve_reboot = true }'
    ).commands
    assert command == CreateSet(
        set="web",
        capacity=2,
        prefix="w",
        terminate_seconds=900,
        upgrade=UpgradeMode.AUTOMATIC,
        scale_in=ScaleInRule.NEWEST,
        priority=Priority.SPOT,
        eviction=EvictionPolicy.DELETE,
        update_domains=3,
        fault_domains=2,
        size="Standard_F2",
        zones=("1", "2"),
        tags={"team": "web"},
        group="shop",
        rules=Rules(approve_reboot=True),
    )


def test_three_ways_to_fill_an_availability_set() -> None:
    """A number, names, or tables; names and tables may be mixed."""
    number, names, tables = scopes(
        '[[availability_set]]\nname = "a"\nmachines = 2\n'
        '[[availability_set]]\nname = "b"\nmachines = ["x", "y"]\n'
        '[[availability_set]]\nname = "c"\nmachines = ["z", { name = "big", size = "Large" }]'
    )
    assert [machine.name for machine in number.machines] == ["a_0", "a_1"]
    assert [machine.name for machine in names.machines] == ["x", "y"]
    assert [(machine.name, machine.size) for machine in tables.machines] == [
        ("z", ""),
        ("big", "Large"),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        '[[availability_set]]\nname = "a"\nmachines = 7',
        '[[cloud_service]]\nname = "a"\nroles = { Web = 7 }',
    ],
)
def test_machines_are_spread_over_domains(entry: str) -> None:
    """Machines go to domains in turn; the number of update domains defaults to five."""
    (five,) = scopes(entry)
    assert [machine.update_domain for machine in five.machines] == [0, 1, 2, 3, 4, 0, 1]
    (few,) = scopes(f"{entry}\nupdate_domains = 3\nfault_domains = 2")
    assert [machine.update_domain for machine in few.machines] == [0, 1, 2, 0, 1, 2, 0]
    assert [machine.fault_domain for machine in few.machines] == [0, 1, 0, 1, 0, 1, 0]


def test_each_role_has_machines_in_every_domain() -> None:
    """Each role is spread separately."""
    (scope,) = scopes('[[cloud_service]]\nname = "s"\nroles = { Front = 2, Worker = 1 }')
    assert [(machine.name, machine.update_domain) for machine in scope.machines] == [
        ("Front_IN_0", 0),
        ("Front_IN_1", 1),
        ("Worker_IN_0", 0),
    ]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("10.0.0.4", "10.0.0.4"),
        ("FD00:0:0::4", "fd00::4"),
        ("::ffff:10.0.0.4", "10.0.0.4"),
    ],
)
def test_addresses_are_canonical(written: str, canonical: str) -> None:
    """An address is stored in the form that a connection has."""
    (scope,) = scopes(f'[[machine]]\nname = "vm"\naddress = "{written}"')
    assert scope.machines[0].address == canonical


def test_hosts_are_names_and_addresses() -> None:
    """A name may have an underscore, and be that of a container; `*.` is for Azure's API alone."""
    names = '["127.0.0.1", "FD00:0::4", "one", "Fleet_1.example"]'
    read_names = ("127.0.0.1", "fd00::4", "one", "fleet_1.example")
    file = read(f"[metadata]\nhosts = {names}\n[console]\nhosts = {names}")
    assert file.endpoint.hosts >= {"metadata.azure.internal", *read_names}
    assert file.console.hosts == read_names
    assert read("[arm]\nhosts = ['*.Example']").control_plane.hosts == ("*.example",)
    assert refusal("[console]\nhosts = ['*.example']")
    hooks = "[console]\nwebhook_hosts = ['*.Example', '[::1]:80']"
    assert read(hooks).console.webhook_hosts == ("*.example", "[::1]:80")


VM = '[[machine]]\nname = "vm"\n'
WEB = '[[scale_set]]\nname = "web"\ncapacity = 2\n'
DB = '[[availability_set]]\nname = "db"\n'
REFUSED = Path(__file__).with_name("refused_fleet_files.txt").read_text("utf-8").split("\n\n")


@pytest.mark.parametrize("case", REFUSED)
def test_errors_name_the_place_and_the_reason(case: str) -> None:
    """A refusal names the file, the place in it, the error and the allowed values."""
    text, message = case.rstrip().split("\n----\n")
    assert refusal(text) == message


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("x = ", "", "at line 1, column 5"),
        ("a = " + "[" * 5000, "", "thousands"),
        (VM + 'address = "10.0.0.4\\u0000"', 'machine 1 ("vm"), address', "address, not"),
        (VM + "size = 0x" + "f" * 9000, 'machine 1 ("vm"), size', "not a number of that size"),
        (VM.replace("vm", "x" * 200) + "count = 1", '")', "a name of 1 to 200"),
    ],
)
def test_errors_of_strange_files(text: str, place: str, reason: str) -> None:
    """They are as short, whatever the file contains."""
    message = refusal(text)
    assert message.startswith("my.toml: ")
    assert f"{place}: " in message
    assert reason in message
    assert len(message) < 500


def test_names_of_later_instances_are_not_reserved() -> None:
    """Only the initial instances count: `web_2` may exist next to a set of two."""
    assert len(read(WEB + DB + "machines = ['web_2']").commands) == 2


# --- Applying -----------------------------------------------------------------------------------


def applied(harness: FleetHarness, file: FleetFile) -> ApplyResult:
    """Apply a fleet file to the harness."""
    return harness.run(apply(file, harness.fleet.submit))


def test_applied_to_a_fleet() -> None:
    """The first time, everything is created; the second time, everything is kept unchanged."""
    with FleetHarness() as harness:
        assert applied(harness, sample()) == ApplyResult(created=4, kept=0)
        assert set(harness.machines("web/0")) == {"web_0", "web_1", "web_2"}
        assert harness.machines("batch_0")["batch_0"].priority is Priority.SPOT
        before = harness.scope("db")
        assert applied(harness, sample()) == ApplyResult(created=0, kept=4)
        assert harness.scope("db") == before


def test_new_entries_of_the_file_are_added() -> None:
    """Applying a longer file creates the new entries and leaves the rest unchanged."""
    with FleetHarness() as harness:
        harness.availability_set("db", machines=3)
        file = read(VM + WEB + DB + "machines = 1")
        assert applied(harness, file) == ApplyResult(created=2, kept=1)
        assert len(harness.machines("db")) == 3


def test_names_that_differ_in_case_are_of_different_kinds_or_groups() -> None:
    """These are different resources, and all of them are created."""
    text = """
    [[machine]]
    name = "x"
    [[machine]]
    name = "X"
    group = "other"
    [[scale_set]]
    name = "xX"
    capacity = 1
    [[availability_set]]
    name = "Xx"
    machines = ["XX_0"]
    """
    with FleetHarness() as harness:
        assert applied(harness, read(text)) == ApplyResult(created=4, kept=0)


@pytest.mark.spec("M22")
def test_addresses_in_the_file_are_not_given_to_others() -> None:
    """Whatever the order of the entries: a set does not take the address of a later machine."""
    text = """
    [[scale_set]]
    name = "web"
    capacity = 2
    subnet = "10.0.0.0/24"
    [[machine]]
    name = "vm"
    address = "10.0.0.4"
    """
    with FleetHarness() as harness:
        assert applied(harness, read(text)) == ApplyResult(created=2, kept=0)
        given = [machine.address for machine in harness.machines("web/0").values()]
        assert given == ["10.0.0.5", "10.0.0.6"]
        assert harness.machines("vm")["vm"].address == "10.0.0.4"


def test_other_errors_are_raised() -> None:
    """Errors other than 'exists already' are raised."""

    async def submit(command: Command) -> None:
        raise Unavailable("Stopping", "try again later")

    with pytest.raises(Unavailable):
        asyncio.run(apply(sample(), submit))


# --- Random files -------------------------------------------------------------------------------

_TEXTS = st.sampled_from(["vm", "web", "PT5M", "Spot", "Delete", "", "a/b", "x" * 201]) | st.text(
    st.characters(codec="utf-8"), max_size=5
)
_LEAVES = (
    _TEXTS | st.booleans() | st.floats() | st.dates() | st.integers() | st.integers(-1, 5)
)  # fmt: skip
_KEYS = st.sampled_from(
    ["name", "count", "machines", "roles", "capacity", "terminate_notice", "tags", "rules", "size",
     "address", "group", "update_domains", "reboot_seconds", "upgrade", "priority", "oddity"]
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3)
)
_REQUIRED: dict[str, st.SearchStrategy[Any]] = {"name": _TEXTS | _VALUES}
_ENTRIES = st.fixed_dictionaries(
    _REQUIRED,
    optional={
        "machines": st.integers(-1, 3) | st.lists(_TEXTS, max_size=3) | _VALUES,
        "roles": st.dictionaries(_TEXTS, st.integers(0, 3), max_size=2) | _VALUES,
        "capacity": st.integers(-1, 3) | _VALUES,
        "count": st.integers(-1, 3) | _VALUES,
        "tags": _VALUES,
        "rules": _VALUES,
    },
)
_SECTIONS = ["cloud", "rules", "machine", "availability_set", "cloud_service", "scale_set", "other"]
_FILES = st.dictionaries(
    st.sampled_from(_SECTIONS), st.lists(_ENTRIES, max_size=3) | _VALUES, max_size=4
)


def toml(value: object) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower()


def outcome(text: str) -> str:
    """The refusal of a file; empty if it can be read."""
    try:
        for command in read(text).commands:
            validate(command)
    except Refused as refused:
        return str(refused)
    return ""


@given(_FILES)
def test_any_file_is_read_or_refused(file: dict[str, Any]) -> None:
    """Any values give valid commands, or a refusal that can be printed."""
    refused = outcome("\n".join(f"{key} = {toml(value)}" for key, value in file.items()))
    assert refused == "" or refused.startswith("BadFleetFile: ")
    assert "not TOML" not in refused
    refused.encode()


def test_driver_cluster_and_journal_settings() -> None:
    """Driver, cluster and journal settings are read; the default driver is simulated."""
    file = read(
        "[driver]\nkind = 'command'\nprogram = ['/bin/x', '-y']\ntimeout_seconds = 9\n"
        "boot_seconds = 0\n[cluster]\nstaleness_seconds = 7\n[journal]\nkeep_days = 90\n"
        "[operations]\nkeep_days = 3\n"
    )
    assert file.driver == DriverSettings(
        kind=DriverKind.COMMAND, program=("/bin/x", "-y"), timeout_seconds=9, boot_seconds=0
    )
    assert file.cluster == ClusterSettings(staleness_seconds=7, lease_seconds=3)
    assert file.journal == JournalSettings(keep_days=90)
    assert file.operations == OperationSettings(keep_days=3)
    assert (read("").journal.keep_days, read("").operations.keep_days) == (0, 7)
    assert read("").driver.kind is DriverKind.SIMULATED
