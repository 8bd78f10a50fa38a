"""`fairwarning az`: run the installed Azure CLI against a service.

The Azure CLI gets its own configuration in the data folder or, for a service on another host, in
the user's configuration folder, so the user's clouds, logins and
settings are neither read nor changed.
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
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn, TypedDict
from urllib.parse import urlsplit

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import LocalService, ServiceTarget
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.command_classes import SectionedCommand
from fairwarning.core.errors import NotFound, Unavailable, reason_of
from fairwarning.server import contexts
from fairwarning.server.ready import OPERATOR, read_ready
from fairwarning.service import keyfiles
from fairwarning.service.config.settings import TENANT

CLOUD = "Fairwarning"
# Not plain "azure": the CLI also reads any folder with the name of its configuration folder in the
# current folder and above.
FOLDER = "azure-cli"

_RENEW_SECONDS = 30 * 24 * 3600
_SECRET_SECONDS = 45 * 24 * 3600  # the lifetime of the client secret: well after its renewal
_STEP_SECONDS = 120  # timeout of one set-up command; a slow disk takes long to load the CLI
_OWNER_ONLY = 0o700
_DIGEST_CHARACTERS = 16

_STAMP = "fairwarning.json"
_PROFILE = "azureProfile.json"
_VERSIONS = "versionCheck.json"
# State that the CLI keeps per service; removed before the CLI is set up for another service.
_STATE_FILES = (
    "clouds.config",
    _PROFILE,
    "service_principal_entries.json",
    "msal_token_cache.json",
    "msal_http_cache.bin",
)

# Variables of the caller's environment that name another cloud, login or proxy.
_DROPPED_PREFIXES = ("AZURE", "ARM_", "IDENTITY_", "IMDS_", "MSAL_", "MSI_")
_DROPPED = {"ACC_CLOUD", "ALL_PROXY", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY"}
_SET = {
    "AZURE_CORE_COLLECT_TELEMETRY": "0",
    "AZURE_CORE_DISPLAY_REGION_IDENTIFIED": "false",  # a hint at cheaper regions
    "AZURE_CORE_FIRST_RUN": "yes",  # suppress the first-run message
    "AZURE_CORE_INSTANCE_DISCOVERY": "false",  # would ask Microsoft whether this cloud exists
    "AZURE_CORE_SURVEY_MESSAGE": "no",
    "AZURE_CORE_USE_MSAL_HTTP_CACHE": "no",  # would cache failures after they are fixed
    "AZURE_EXTENSION_USE_DYNAMIC_INSTALL": "no",  # would look up mistyped commands online
    "NETRC": os.devnull,  # its `default` entry would replace the access token
}

_EPILOG = """\b
Examples:
  fairwarning az vm list -o table
  fairwarning az vmss list-instances -g fairwarning -n web -o table
  fairwarning az vm restart -g fairwarning -n db_0 --no-wait
  fairwarning az vm simulate-eviction -g fairwarning -n batch_0
  fairwarning az vm --help

Exits with the exit code of the Azure CLI; 1 if it could not be set up or started.
"""


@click.command(
    "az",
    cls=SectionedCommand,
    epilog=_EPILOG,
    no_args_is_help=True,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("args", metavar="ARGS...", nargs=-1, type=click.UNPROCESSED)
@options.service
def command(args: tuple[str, ...], service: ServiceTarget) -> None:
    """Run the Azure CLI against this service, as its operator.

    Only the Azure CLI needs to be installed. It is configured with the address and the certificate
    of the service, and logged in. Your own `az` configuration is not changed. Options after the
    first word are passed to the Azure CLI.
    """
    try:
        _run(service, args)
    except OSError as error:
        raise Unavailable("AzNotRun", f"cannot run the Azure CLI: {reason_of(error)}") from error


def _run(service: ServiceTarget, args: tuple[str, ...]) -> NoReturn:
    program = find()
    address = arm_address(service)
    folder = _cli_folder(service)
    az = AzureCli(program, folder, environment(os.environ, folder, address["ca"]))
    with _alone(folder):
        digest = digest_of(program, address)
        if not is_set_up(folder, digest, time.time()) or not _is_logged_in(folder, service):
            _set_up(az, service, address, digest)
    # Set here too, in case the user has run `az cloud set` since the set-up.
    variables = {**az.environment, "AZURE_CLOUD_NAME": CLOUD}
    os.execve(program, [program, *args], variables)  # noqa: S606  (the program the user asked for)


def find() -> str:
    """Return the path of the Azure CLI."""
    if program := shutil.which("az"):
        return program
    text = (
        "the Azure CLI (az) is not on the PATH; install your distribution's azure-cli package, "
        "or run `pip install azure-cli` in a separate virtual environment"
    )
    raise Unavailable("NoAz", text)


def environment(caller: Mapping[str, str], folder: Path, ca: str) -> dict[str, str]:
    """Return the caller's environment, changed so that the Azure CLI uses only this service."""
    kept = {name: value for name, value in caller.items() if not _is_dropped(name.upper())}
    return {**kept, **_SET, "AZURE_CONFIG_DIR": str(folder), "REQUESTS_CA_BUNDLE": ca}


def _is_dropped(name: str) -> bool:
    return name in _DROPPED or name.startswith(_DROPPED_PREFIXES)


@dataclass(frozen=True)
class AzureCli:
    """An Azure CLI, with its configuration folder and environment."""

    program: str
    folder: Path
    environment: Mapping[str, str]

    def run(self, *words: str, stdin: str = "") -> str:
        """Run a command and return its output; raise `Unavailable` with its error if it fails."""
        command = [self.program, *words]
        try:
            done = subprocess.run(  # noqa: S603  (the program that the user asked for)
                command,
                input=stdin,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=_STEP_SECONDS,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise _failed(words, (error.stderr or error.stdout).strip()) from error
        except subprocess.TimeoutExpired as error:
            raise _failed(words, f"timed out after {_STEP_SECONDS} seconds") from error
        return done.stdout


def _failed(words: tuple[str, ...], why: str) -> Unavailable:
    step = " ".join(words[:2]).partition(" -")[0]
    return Unavailable("AzNotSetUp", f"cannot set up the Azure CLI: `az {step}` failed:\n{why}")


# --- Where the API of a service is, and the CA to trust ----------------------------------------


class ArmAddress(TypedDict):
    """What a client of the API needs; `ca` is the path of a file on this host."""

    arm: str
    subscription: str
    ca: str


def arm_address(service: ServiceTarget) -> ArmAddress:
    """Return the address of the API; store the CA of a service on another host."""
    address = service.address()
    if isinstance(service, LocalService):
        return read_ready(service.folder)
    about = client.ask(service, "GET", "/api/service")
    path = contexts.file_path().parent / "ca" / f"{_digest(about['ca'])}.pem"
    if not path.exists():
        keyfiles.write(path, about["ca"].encode())
    arm = _reachable(about["arm"], address.url)
    return {"arm": arm, "subscription": about["subscription"], "ca": str(path)}


def _cli_folder(service: ServiceTarget) -> Path:
    """Return the folder for the Azure CLI's configuration for this service."""
    if isinstance(service, LocalService):
        return service.folder.resolve() / FOLDER
    return contexts.file_path().parent / FOLDER / _digest(service.address().url)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _reachable(arm: str, console: str) -> str:
    """Return the URL as it can be reached from here, by the host of the console."""
    bound, host = urlsplit(arm), urlsplit(console).hostname or ""
    if _is(bound.hostname, "is_unspecified"):
        shown = f"[{host}]" if ":" in host else host
        return f"https://{shown}:{bound.port}"
    if _is(bound.hostname, "is_loopback") and not _is(host, "is_loopback"):
        text = (
            f"the service at {console} listens for Azure's tools on {bound.hostname} only; start it"
            f" with `--arm 0.0.0.0:{bound.port}` and the name {host} in [arm] hosts"
        )
        raise Unavailable("ArmOnLoopback", text)
    return arm


def _is(host: str | None, kind: str) -> bool:
    if host == "localhost":
        return kind == "is_loopback"
    try:
        return bool(getattr(ip_address(host or ""), kind))
    except ValueError:
        return False


# --- Set-up, once per service -----------------------------------------------------------------


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Create the folder and lock it against other processes."""
    folder.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
    lock = os.open(folder / "fairwarning.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def digest_of(program: str, address: ArmAddress) -> str:
    """Return a digest of everything the set-up depends on."""
    real = Path(program).resolve()
    parts = (
        address["arm"],
        address["subscription"],
        hashlib.sha256(Path(address["ca"]).read_bytes()).hexdigest(),
        str(real),
        str(real.stat().st_mtime_ns),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_set_up(folder: Path, digest: str, now: float) -> bool:
    """Return whether the CLI is set up for this service, recently, and was not logged out."""
    try:
        stamp = json.loads((folder / _STAMP).read_text("utf-8"))
        profile = (folder / _PROFILE).read_text("utf-8")
        fresh = 0 <= now - stamp["at"] < _RENEW_SECONDS
        return stamp["digest"] == digest and fresh and f'"{CLOUD}"' in profile
    except (OSError, ValueError, TypeError, LookupError):
        return False


def _is_logged_in(folder: Path, service: ServiceTarget) -> bool:
    """Return whether the service still accepts the client secret of the set-up."""
    stamp = json.loads((folder / _STAMP).read_text("utf-8"))
    try:
        secret = client.ask(service, "GET", client.api_path("tokens", stamp["secret_id"]))
    except NotFound:  # issued with another key, or by a service that kept its fleet in memory
        return False
    except Unavailable:  # leave it to the Azure CLI to report this, if it needs the service
        return True
    return secret["revoked_at"] is None


def _set_up(az: AzureCli, service: ServiceTarget, address: ArmAddress, digest: str) -> None:
    if sys.stderr.isatty():
        click.echo("Setting up the Azure CLI for this service (only once)", err=True)
    for name in (_STAMP, *_STATE_FILES):
        (az.folder / name).unlink(missing_ok=True)
    record_version(az)
    az.run("cloud", "register", "--name", CLOUD, "--endpoint-resource-manager", address["arm"])
    az.run("cloud", "set", "--name", CLOUD)
    secret_id = _log_in(az, service)
    stamp = {"digest": digest, "at": time.time(), "secret_id": secret_id}
    (az.folder / _STAMP).write_text(json.dumps(stamp), "utf-8")


def record_version(az: AzureCli) -> None:
    """Record the CLI's own version as the newest, so that it never checks for updates online."""
    _write_version(az.folder, "0")  # any other version prevents the check for this one call
    _write_version(az.folder, json.loads(az.run("version", "--output", "json"))["azure-cli"])


def _write_version(folder: Path, version: str) -> None:
    versions = {name: {"local": version} for name in ("azure-cli", "core")}
    text = json.dumps({"versions": versions, "update_time": "2099-01-01 00:00:00.000000"})
    (folder / _VERSIONS).write_text(text, "utf-8")


def _log_in(az: AzureCli, service: ServiceTarget) -> str:
    """Log the CLI in with a client secret of its own; return the id of the secret."""
    settings = {"name": OPERATOR.name, "role": OPERATOR.role, "use": "login"}
    created = client.ask(service, "POST", "/api/tokens", {**settings, "seconds": _SECRET_SECONDS})
    principal = ("--username", OPERATOR.name, "--tenant", TENANT)
    # Pass the secret on stdin: every user of this system can read command lines.
    words = ("login", "--service-principal", *principal, "--password", "@-")
    az.run(*words, stdin=created["token"])
    return str(created["info"]["id"])
