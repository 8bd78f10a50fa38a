"""deploy/container: an image built from this repository, and two processes on one database."""

import os
import re
import signal
import subprocess
import tomllib
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from ruamel.yaml import YAML

from tests.docs.pages import DOCS, blocks
from tests.fixtures.programs import ROOT, run_program
from tests.fixtures.service import PROGRAM, run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.release.deploy.files import (
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


def test_the_linter_accepts_the_containerfile() -> None:
    """Hadolint reports nothing, not even style."""
    lint("hadolint", "--failure-threshold", "style", CONTAINERFILE)


def test_the_compose_file_is_valid() -> None:
    """It is valid YAML and follows the schema of the Compose Specification."""
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)


def copied() -> list[str]:
    """Return the paths that the image copies from the repository."""
    lines = [value.split() for value in instructions("COPY") if not value.startswith("--from")]
    return [source for *sources, _ in lines for source in sources]


def test_copied_files_exist() -> None:
    """They are in the repository and not excluded by .dockerignore."""
    kept = re.findall(r"^!(.+)$", Path(f"{CONTAINERFILE}.dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied()) == sorted(kept)
    assert [path for path in copied() if not (ROOT / path).exists()] == []


def test_it_runs_as_an_unprivileged_user() -> None:
    """A numeric user id that is not root, the same one in all files."""
    (user,) = instructions("USER")
    number = user.split(":")[0]
    assert user == f"{number}:{number}"
    assert int(number) >= 10_000
    (compose,) = documents(COMPOSE)
    for name in services():
        options = compose["volumes"][name]["driver_opts"]
        assert options["type"] == "tmpfs"
        assert options["o"] == f"uid={number},gid={number},mode=0700"


def test_each_process_has_its_own_folder() -> None:
    """In memory, where the health check looks; the fleet file is the only other mount."""
    (compose,) = documents(COMPOSE)
    for name, service in services().items():
        fleet, own = service["volumes"]
        assert fleet == f"./fleet.toml:{composed()[0].words[1]}:ro"
        assert own == f"{name}:{healthcheck().option('--data')}"
    assert (COMPOSE.parent / "fleet.toml").is_file()
    assert services().keys() <= compose["volumes"].keys()


def test_the_base_image_is_pinned() -> None:
    """By a tag with the versions of Python and Debian, the same in both stages."""
    (base,) = instructions("ARG")
    assert re.fullmatch(r"PYTHON=python:3\.\d+-slim-[a-z]+", base)
    assert [value.split()[0] for value in instructions("FROM")] == ["${PYTHON}", "${PYTHON}"]


def test_published_ports_are_listened_on() -> None:
    """On the host's loopback only, as the console has no TLS."""
    exposed = set(map(int, instructions("EXPOSE")[0].split()))
    for command, service in zip(composed(), services().values(), strict=True):
        listens = {name: command.port(name) for name in ("--metadata", "--console", "--arm")}
        assert set(listens.values()) == exposed
        assert listens == {name: image().port(name) for name in listens}
        published = [port.split(":") for port in service["ports"]]
        assert {int(port) for _, _, port in published} == {listens["--console"], listens["--arm"]}
        assert {host for host, _, _ in published} == {"127.0.0.1"}


def test_the_healthcheck_looks_in_the_right_folder() -> None:
    """The data folder, or the folder of `--run` if the data is in a database."""
    folder = healthcheck().option("--data")
    assert folder == image().option("--data") == instructions("WORKDIR")[-1]
    assert {command.option("--run") for command in composed()} == {folder}


def test_the_database_url_matches_the_database() -> None:
    """In host, user and database name."""
    (compose,) = documents(COMPOSE)
    database = compose["services"]["database"]["environment"]
    user, name = database["POSTGRES_USER"], database["POSTGRES_DB"]
    for service in services().values():
        environment = service["environment"]
        assert environment["FAIRWARNING_DATA"] == f"postgresql://{user}@database/{name}"
        assert environment["PGPASSWORD"] == database["POSTGRES_PASSWORD"]


def test_the_page_shows_a_machine_of_the_fleet(tmp_path: Path) -> None:
    """The service that run-containers.md adds has an address and an endpoint of the fleet."""
    (shown,) = [
        block.text for block in blocks(DOCS / "run-containers.md") if block.language == "yaml"
    ]
    path = tmp_path / "mine.yaml"
    path.write_text(shown)
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", path)
    (machine,) = YAML(typ="safe").load(shown)["services"].values()
    fleet = tomllib.loads((COMPOSE.parent / "fleet.toml").read_text())
    (compose,) = documents(COMPOSE)
    (network,) = compose["networks"]["machines"]["ipam"]["config"]
    addresses = [ip_address(member["address"]) for member in fleet["machine"]]
    assert all(address in ip_network(network["subnet"]) for address in addresses)
    assert ip_address(machine["networks"]["machines"]["ipv4_address"]) in addresses
    endpoint = urlsplit(machine["environment"]["FAIRWARNING_ENDPOINT"])
    assert endpoint.hostname in fleet["metadata"]["hosts"]
    assert fleet["metadata"]["hosts"] == list(services())
    assert endpoint.port == image().port("--metadata")


@pytest.mark.parametrize(("word", "output"), [("up", ""), ("--version", "a token\n")])
def test_no_token_gets_into_the_log(word: str, output: str, tmp_path: Path) -> None:
    """The stdout of `up` is discarded; that of other commands is not (IS3)."""
    program = tmp_path / "fairwarning"
    program.write_text('#!/bin/sh\necho a token\necho "$@" >&2\n')
    program.chmod(0o755)
    assert os.access(ENTRYPOINT, os.X_OK)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run_program(ENTRYPOINT, word, "--json", env=path, check=True)
    assert (done.stdout, done.stderr) == (output, f"{word} --json\n")


def test_the_service_of_the_image_is_healthy(tmp_path: Path) -> None:
    """By the commands of the Containerfile, but for ports and folder; SIGTERM stops it."""
    folder = image().option("--data")
    words = [word.replace(folder, str(tmp_path / "data")) for word in image().words]
    for name in ("metadata", "console", "arm"):
        words = [word.replace(f":{image().port(f'--{name}')}", ":0") for word in words]
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL)
    try:
        ready = tmp_path / "data" / "up.json"
        wait_until(lambda: ready.exists() or process.poll() is not None, "the service is up")
        assert process.poll() is None
        check = [word.replace(folder, str(tmp_path / "data")) for word in healthcheck().words]
        # As Podman, try again: on a busy host the console may not load in time for the first one.
        wait_until(lambda: run_command(*check).returncode == 0, "the service is healthy")
        done = run_command(*check)
        assert (done.returncode, done.stderr) == (0, "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
