"""deploy/container: an image that is built of what is here, and two processes on one database."""

import os
import re
import tomllib
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from ruamel.yaml import YAML

from tests.deploy.files import (
    COMPOSE,
    CONTAINERFILE,
    ENTRYPOINT,
    composed,
    documents,
    healthcheck,
    image,
    instructions,
    lint,
    services,
)
from tests.docs.pages import DOCS, blocks
from tests.fixtures.programs import ROOT, run_program


def test_the_linter_takes_it() -> None:
    """Hadolint has nothing to say, down to matters of style."""
    lint("hadolint", "--failure-threshold", "style", CONTAINERFILE)


def test_compose_takes_its_file() -> None:
    """By the schema of the Compose Specification, and as YAML."""
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_podman_takes_both_files() -> None:
    """They use nothing that Docker has and Podman or podman-compose refuses or ignores."""
    (compose,) = documents(COMPOSE)
    assert "configs" not in compose
    assert [name for name, service in services().items() if "tmpfs" in service] == []
    assert "--start-interval" not in instructions("HEALTHCHECK")[0]


def copied() -> list[str]:
    """What the image takes from the clone."""
    lines = [one.split() for one in instructions("COPY") if not one.startswith("--from")]
    return [source for *sources, _ in lines for source in sources]


def test_what_is_copied_is_there() -> None:
    """In the clone, and not kept away by the list of what to leave out."""
    kept = re.findall(r"^!(.+)$", Path(f"{CONTAINERFILE}.dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied()) == sorted(kept)
    assert [one for one in copied() if not (ROOT / one).exists()] == []


def test_a_wheel_can_be_made_of_it() -> None:
    """What pyproject.toml names is among what is copied."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = {project["project"]["readme"], *project["project"]["license-files"]}
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert named <= set(copied())
    assert all(one.split("/")[0] in copied() for one in packages)
    assert {"server", "postgres"} <= project["project"]["optional-dependencies"].keys()
    assert "[server,postgres]" in CONTAINERFILE.read_text()


def test_it_is_nobody_in_particular() -> None:
    """A user by number that is not root, the same one wherever it is named."""
    (user,) = instructions("USER")
    number = user.split(":")[0]
    assert user == f"{number}:{number}"
    assert int(number) >= 10_000
    (compose,) = documents(COMPOSE)
    for name in services():
        options = compose["volumes"][name]["driver_opts"]
        assert options["type"] == "tmpfs"
        assert options["o"] == f"uid={number},gid={number},mode=0700"


def test_each_process_has_a_folder_of_its_own() -> None:
    """In memory, where the health check looks; the fleet file is the only other mount."""
    (compose,) = documents(COMPOSE)
    for name, service in services().items():
        fleet, own = service["volumes"]
        assert fleet == f"./fleet.toml:{composed()[0].words[1]}:ro"
        assert own == f"{name}:{healthcheck().option('--data')}"
    assert (COMPOSE.parent / "fleet.toml").is_file()
    assert services().keys() <= compose["volumes"].keys()


def test_the_base_is_pinned() -> None:
    """By a tag that says which Python on which Debian; both stages have the same."""
    (base,) = instructions("ARG")
    assert re.fullmatch(r"PYTHON=python:3\.\d+-slim-[a-z]+", base)
    assert [one.split()[0] for one in instructions("FROM")] == ["${PYTHON}", "${PYTHON}"]


def test_both_processes_are_equal() -> None:
    """But for where the host has them, and for their folders."""
    one, two = services().values()
    assert {**one, "ports": None, "volumes": None} == {**two, "ports": None, "volumes": None}
    ports = [port.split(":")[1] for process in (one, two) for port in process["ports"]]
    assert len(set(ports)) == len(ports)


def test_what_is_published_is_what_is_listened_on() -> None:
    """On the host's loopback only: the console has no TLS of its own."""
    exposed = set(map(int, instructions("EXPOSE")[0].split()))
    for command, one in zip(composed(), services().values(), strict=True):
        listens = {name: command.port(name) for name in ("--metadata", "--console", "--arm")}
        assert set(listens.values()) == exposed
        assert listens == {name: image().port(name) for name in listens}
        published = [port.split(":") for port in one["ports"]]
        assert {int(port) for _, _, port in published} == {listens["--console"], listens["--arm"]}
        assert {host for host, _, _ in published} == {"127.0.0.1"}


def test_the_healthcheck_looks_where_the_service_says_it_is() -> None:
    """In the data folder, and in that of `--run` where the data is in a database."""
    looks = healthcheck().option("--data")
    assert looks == image().option("--data") == instructions("WORKDIR")[-1]
    assert {command.option("--run") for command in composed()} == {looks}


def test_the_database_is_reached_by_the_name_it_has() -> None:
    """Its user and database as well."""
    (compose,) = documents(COMPOSE)
    made = compose["services"]["database"]["environment"]
    user, name = made["POSTGRES_USER"], made["POSTGRES_DB"]
    for one in services().values():
        assert one["environment"]["FAIRWARNING_DATA"] == f"postgresql://{user}@database/{name}"
        assert one["environment"]["PGPASSWORD"] == made["POSTGRES_PASSWORD"]


def test_the_page_shows_one_of_the_machines(tmp_path: Path) -> None:
    """What run-containers.md adds to the compose file gets an address and an endpoint of it."""
    (shown,) = [one.text for one in blocks(DOCS / "run-containers.md") if one.language == "yaml"]
    path = tmp_path / "mine.yaml"
    path.write_text(shown)
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", path)
    (machine,) = YAML(typ="safe").load(shown)["services"].values()
    fleet = tomllib.loads((COMPOSE.parent / "fleet.toml").read_text())
    (compose,) = documents(COMPOSE)
    (network,) = compose["networks"]["machines"]["ipam"]["config"]
    addresses = [ip_address(one["address"]) for one in fleet["machine"]]
    assert all(one in ip_network(network["subnet"]) for one in addresses)
    assert ip_address(machine["networks"]["machines"]["ipv4_address"]) in addresses
    endpoint = urlsplit(machine["environment"]["FAIRWARNING_ENDPOINT"])
    assert endpoint.hostname in fleet["metadata"]["hosts"]
    assert fleet["metadata"]["hosts"] == list(services())
    assert endpoint.port == image().port("--metadata")


@pytest.mark.parametrize(("word", "said"), [("up", ""), ("--version", "a token\n")])
def test_no_token_gets_into_the_log(word: str, said: str, tmp_path: Path) -> None:
    """Of what is said on stdout by `up`, nothing goes there; other commands are heard (IS3)."""
    program = tmp_path / "fairwarning"
    program.write_text('#!/bin/sh\necho a token\necho "$@" >&2\n')
    program.chmod(0o755)
    assert os.access(ENTRYPOINT, os.X_OK)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run_program(ENTRYPOINT, word, "--json", env=path, check=True)
    assert (done.stdout, done.stderr) == (said, f"{word} --json\n")
