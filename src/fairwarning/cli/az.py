"""`fairwarning az`: the installed Azure CLI, set up by itself for the service of a data folder.

It has a configuration of its own there, so that a user's clouds, logins and settings are neither
read nor changed.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click

from fairwarning.cli import options
from fairwarning.core.errors import Unavailable
from fairwarning.server.ready import OPERATOR, ReadyLine, read_ready
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Tokens, signing_key

CLOUD = "Fairwarning"
# Not plainly "azure": the CLI also reads the folders of this name in and above the current one.
FOLDER = "azure-cli"

_RENEWED_SECONDS = 30 * 24 * 3600  # long before the secret ends
_STEP_SECONDS = 120  # a step of the set-up takes one; a slow disk has time to load the CLI
_OWNER_ONLY = 0o700

_STAMP = "fairwarning.json"
_PROFILE = "azureProfile.json"
_VERSIONS = "versionCheck.json"
# What the CLI remembers of a service; that of an earlier one must not show through.
_MEMORY = (
    "clouds.config",
    _PROFILE,
    "service_principal_entries.json",
    "msal_token_cache.json",
    "msal_http_cache.bin",
)

# Of the caller's environment: what names another cloud, another login or another way there.
_DROPPED_PREFIXES = ("AZURE", "ARM_", "IDENTITY_", "IMDS_", "MSAL_", "MSI_")
_DROPPED = {"ACC_CLOUD", "ALL_PROXY", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY"}
_SET = {
    "AZURE_CORE_COLLECT_TELEMETRY": "0",
    "AZURE_CORE_DISPLAY_REGION_IDENTIFIED": "false",  # a hint at cheaper regions
    "AZURE_CORE_FIRST_RUN": "yes",  # it has been: no greeting
    "AZURE_CORE_INSTANCE_DISCOVERY": "false",  # asks Microsoft whether we are a cloud
    "AZURE_CORE_SURVEY_MESSAGE": "no",
    "AZURE_CORE_USE_MSAL_HTTP_CACHE": "no",  # remembers failures, also when they are mended
    "AZURE_EXTENSION_USE_DYNAMIC_INSTALL": "no",  # looks a mistyped command up on the Internet
    "NETRC": os.devnull,  # whose `default` would go in place of our token
}

_EPILOG = """\b
Examples:
  fairwarning az vm list -o table
  fairwarning az vmss list-instances -g fairwarning -n web -o table
  fairwarning az vm restart -g fairwarning -n db_0 --no-wait
  fairwarning az vm simulate-eviction -g fairwarning -n spot_0
  fairwarning az vm --help

The exit code is the Azure CLI's own; 1 if it could not be set up or started.
"""


@click.command(
    "az",
    epilog=_EPILOG,
    no_args_is_help=True,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@options.data
@click.argument("args", metavar="ARGS...", nargs=-1, type=click.UNPROCESSED)
def command(args: tuple[str, ...], data: Path) -> None:
    """Run the Azure CLI against this service, as its operator.

    It has to be installed, and nothing else: it is told where the service is, trusts its
    certificate and is logged in. Your own `az` stays as it is. Options after the first word are
    the Azure CLI's.
    """
    with options.errors_reported():
        try:
            _run(data.resolve(), args)
        except OSError as error:
            raise Unavailable("AzNotRun", f"cannot run the Azure CLI: {error}") from error


def _run(data: Path, args: tuple[str, ...]) -> NoReturn:
    program = find()
    ready = read_ready(data)
    folder = data / FOLDER
    az = AzureCli(program, folder, environment(os.environ, folder, ready["ca"]))
    with _alone(folder):
        digest = digest_of(program, ready, signing_key(data))
        if not is_set_up(folder, digest, time.time()):
            _set_up(az, data, ready, digest)
    # Named here as well, whatever `az cloud set` may have been told since.
    named = {**az.environment, "AZURE_CLOUD_NAME": CLOUD}
    os.execve(program, [program, *args], named)  # noqa: S606  (the program that was asked for)


def find() -> str:
    """Where the Azure CLI is."""
    if found := shutil.which("az"):
        return found
    text = (
        "the Azure CLI (az) is not on the PATH; install your distribution's package azure-cli, "
        "or run `pip install azure-cli` in an environment of its own"
    )
    raise Unavailable("NoAz", text)


def environment(caller: Mapping[str, str], folder: Path, ca: str) -> dict[str, str]:
    """The caller's, with nothing in it that leads the Azure CLI anywhere but to this service."""
    kept = {name: value for name, value in caller.items() if not _is_dropped(name.upper())}
    return {**kept, **_SET, "AZURE_CONFIG_DIR": str(folder), "REQUESTS_CA_BUNDLE": ca}


def _is_dropped(name: str) -> bool:
    return name in _DROPPED or name.startswith(_DROPPED_PREFIXES)


@dataclass(frozen=True)
class AzureCli:
    """An Azure CLI, with the folder that it remembers things in."""

    program: str
    folder: Path
    environment: Mapping[str, str]

    def do(self, *words: str, given: str = "") -> str:
        """What it prints; what it says otherwise is for us only, unless it fails."""
        command = [self.program, *words]
        try:
            done = subprocess.run(  # noqa: S603  (the program that the user asked for)
                command,
                input=given,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=_STEP_SECONDS,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise _failed(words, (error.stderr or error.stdout).strip()) from error
        except subprocess.TimeoutExpired as error:
            raise _failed(words, f"no end after {_STEP_SECONDS} seconds") from error
        return done.stdout


def _failed(words: tuple[str, ...], why: str) -> Unavailable:
    step = " ".join(words[:2]).partition(" -")[0]
    return Unavailable("AzNotSetUp", f"the Azure CLI cannot be set up: `az {step}` says:\n{why}")


# --- The set-up, once a service ---------------------------------------------------------------


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """The folder, which nobody else sets up meanwhile."""
    folder.mkdir(_OWNER_ONLY, exist_ok=True)
    lock = os.open(folder / "fairwarning.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def digest_of(program: str, ready: ReadyLine, key: bytes) -> str:
    """Changes with whatever the set-up depends on."""
    real = Path(program).resolve()
    parts = (
        ready["arm"],
        ready["subscription"],
        hashlib.sha256(key).hexdigest(),
        hashlib.sha256(Path(ready["ca"]).read_bytes()).hexdigest(),
        str(real),
        str(real.stat().st_mtime_ns),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_set_up(folder: Path, digest: str, now: float) -> bool:
    """Whether it was, for this very service, not too long ago, and nobody has logged out since."""
    try:
        stamp = json.loads((folder / _STAMP).read_text("utf-8"))
        profile = (folder / _PROFILE).read_text("utf-8")
    except (OSError, ValueError):
        return False
    fresh = 0 <= now - stamp["at"] < _RENEWED_SECONDS
    return stamp["digest"] == digest and fresh and f'"{CLOUD}"' in profile


def _set_up(az: AzureCli, data: Path, ready: ReadyLine, digest: str) -> None:
    if sys.stderr.isatty():
        click.echo("Setting up the Azure CLI for this service (once)", err=True)
    for name in (_STAMP, *_MEMORY):
        (az.folder / name).unlink(missing_ok=True)
    note_version(az)
    az.do("cloud", "register", "--name", CLOUD, "--endpoint-resource-manager", ready["arm"])
    az.do("cloud", "set", "--name", CLOUD)
    _log_in(az, data)
    made = {"digest": digest, "at": time.time()}
    (az.folder / _STAMP).write_text(json.dumps(made), "utf-8")


def note_version(az: AzureCli) -> None:
    """Tell the Azure CLI that it is the newest there is, or it would go and ask."""
    _write_version(az.folder, "0")  # any that it is not keeps it from asking this once
    _write_version(az.folder, json.loads(az.do("version", "--output", "json"))["azure-cli"])


def _write_version(folder: Path, version: str) -> None:
    known = {name: {"local": version} for name in ("azure-cli", "core")}
    text = json.dumps({"versions": known, "update_time": "2099-01-01 00:00:00.000000"})
    (folder / _VERSIONS).write_text(text, "utf-8")


def _log_in(az: AzureCli, data: Path) -> None:
    secret = Tokens(signing_key(data), TENANT).secret(OPERATOR)
    who = ("--username", OPERATOR.name, "--tenant", TENANT)
    # From stdin: what stands in a command line, every user of this system can read.
    az.do("login", "--service-principal", *who, "--password", "@-", given=secret)
