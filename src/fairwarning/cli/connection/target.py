"""Which service a command talks to: one in a data folder of this host, or one at a URL (O13).

In this order: the options --server, --context and --data; the variables FAIRWARNING_URL,
FAIRWARNING_CONTEXT and FAIRWARNING_DATA; the current context; the default data folder.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from fairwarning.cli.connection.redaction import is_connection_string
from fairwarning.core.errors import Refused, Unavailable, reason_of
from fairwarning.server import contexts, hints, variables
from fairwarning.server.contexts import NamedService
from fairwarning.server.ready import read_ready

ANOTHER = "name another with --server URL, --context NAME or --data PATH"
_TOKEN = re.compile(r"[\x21-\x7e]+")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


class ConsoleAddress(NamedTuple):
    """How to reach a console: its URL, a token, and the certificates to trust."""

    url: str
    token: str
    ca: str = ""  # PEM; empty: trust the certificates that the system trusts
    pinned: bool = False  # whether `ca` is the console's own certificate, valid for any name


@dataclass(frozen=True)
class LocalService:
    """A service on this host, which writes its address and a token into its data folder."""

    folder: Path
    token: str = ""
    named: str = ""  # the option or variable that names the folder; empty: it is the default

    def address(self) -> ConsoleAddress:
        """Read the address of its console each time: the service renews the token."""
        try:
            ready = read_ready(self.folder)
        except Unavailable as error:
            text = f"{error.message}{self._looked()}; {self.next_step()}"
            raise Unavailable(error.code, text) from error
        url, token = ready["console"], self.token or ready["token"]
        if not url.startswith("https:"):
            return ConsoleAddress(url, token)
        if own := ready.get("certificate"):
            return ConsoleAddress(url, token, _first(read_certificates(own)), pinned=True)
        return ConsoleAddress(url, token, read_certificates(ready["ca"]))

    def _looked(self) -> str:
        """Return what else could have named a service."""
        if self.named:
            return f" ({self.named})"
        known = contexts.read().services
        context = f"no context is current of {', '.join(known)}" if known else "there is no context"
        unset = f"{variables.URL}, {variables.CONTEXT} and {variables.DATA} are not set"
        return f" (the default folder; {unset}; {context})"

    def command_line(self, command: str, *words: str) -> str:
        """Return another command on the same service, quoted for a shell."""
        return hints.command_line(self.folder, command, *words)

    def local_folder(self, _: str) -> Path:
        """Return the folder."""
        return self.folder

    def next_step(self) -> str:
        """Return how to start a service, or to find another."""
        return f"{hints.start_hint(self.folder)}, or {ANOTHER}"

    def with_token_step(self, problem: str) -> str:
        """Return the problem; the service renews its own token by itself."""
        own = "; without --token-file, the command uses the token of the data folder"
        return problem + (own if self.token else "")


@dataclass(frozen=True)
class RemoteService:
    """A service at a URL, with a token that the user has got from its operator."""

    service: NamedService
    named: str  # the option, variable or context that names it
    options: tuple[str, ...] = ()  # that name it in another command
    context: str = ""

    def address(self) -> ConsoleAddress:
        """Return the address of its console; the token may be empty."""
        return ConsoleAddress(self.service.server, self.service.token, self.service.ca)

    def command_line(self, command: str, *words: str) -> str:
        """Return another command on the same service."""
        return hints.with_options(self.options, command, *words)

    def local_folder(self, why: str) -> Path:
        """Refuse: its data folder may be on another host; say why it is needed."""
        text = (
            f"{why}, so it needs the data folder of a service on this host: give it with --data."
            f" {self.named} names the service at {self.service.server}"
        )
        raise click.UsageError(text)

    def next_step(self) -> str:
        """Return how to find another service."""
        return f"it is named by {self.named}; check that it runs and can be reached, or {ANOTHER}"

    def with_token_step(self, problem: str) -> str:
        """Return the problem, how to get a token, and where to put it."""
        create = "`fairwarning token create NAME --role operator`"
        put = f"give it with {variables.TOKEN} or --token-file"
        if self.context:
            put = f"store it with `fairwarning context add {self.context} --token-file FILE`"
        return f"{problem}; run {create} on the host of the service, and {put}"


ServiceTarget = LocalService | RemoteService
"""The service that a command talks to."""


# --- The choice -----------------------------------------------------------------------------------


class ServiceOptions(NamedTuple):
    """The options of a command that name its service; None if they are not given."""

    data: Path | None = None
    server: str | None = None
    context: str | None = None
    token_file: Path | None = None
    ca: Path | None = None


def choose(given: ServiceOptions) -> ServiceTarget:
    """Return the service that the options, the environment and the contexts name."""
    names = {"--server": given.server, "--context": given.context, "--data": given.data}
    several = [option for option, value in names.items() if value is not None]
    if len(several) > 1:
        raise click.UsageError(f"{' and '.join(several)} each name a service; give one of them")
    environ = {} if several else os.environ
    if url := given.server or environ.get(variables.URL):
        return _by_url(url, given)
    if name := given.context or environ.get(variables.CONTEXT):
        words = ("--context", name) if given.context else ()
        return _by_context(name, f"the context {name!r}", words, given)
    token = read_token(given.token_file) if given.token_file else ""
    if given.data is not None:
        return LocalService(_folder(given.data), token, "named by --data")
    if environ.get(variables.DATA):
        return LocalService(_folder(hints.default_folder()), token, f"named by {variables.DATA}")
    if name := contexts.read().current:
        return _by_context(name, f"the current context {name!r}", (), given)
    return LocalService(hints.default_folder(), token)


def _by_url(url: str, given: ServiceOptions) -> RemoteService:
    option = given.server is not None
    ca = given.ca or os.environ.get(variables.CA)
    service = NamedService(check_url(url), given_token(given), read_certificates(ca) if ca else "")
    words = ("--server", url) if option else ()
    return RemoteService(service, "--server" if option else variables.URL, words + _files(given))


def _by_context(
    name: str, source: str, words: tuple[str, ...], given: ServiceOptions
) -> RemoteService:
    service = contexts.read().get(name)
    if given.token_file:
        service = replace(service, token=read_token(given.token_file))
    if given.ca:
        service = replace(service, ca=read_certificates(given.ca))
    return RemoteService(service, source, words + _files(given), name)


def _files(given: ServiceOptions) -> tuple[str, ...]:
    """Return the options that name files, for another command."""
    token = ("--token-file", str(given.token_file)) if given.token_file else ()
    return token + (("--ca", str(given.ca)) if given.ca else ())


def _folder(path: Path) -> Path:
    if is_connection_string(str(path)):
        raise click.UsageError(
            "the data folder is the folder on the service's host, not a database: give the folder"
            " of `up --run`"
        )
    return path


# --- The values -----------------------------------------------------------------------------------


def check_url(url: str) -> str:
    """Return the URL of a console; an error does not repeat it, because it may contain a secret."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    extra = parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in {"http", "https"} or not parts.hostname or extra:
        raise click.UsageError(
            "the URL of a service is its scheme, host and port, such as https://fleet.example:8170;"
            " without a path, a user name or a key"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def given_token(given: ServiceOptions) -> str:
    """Return the token of --token-file or of the environment; empty if there is none."""
    if given.token_file:
        return read_token(given.token_file)
    if token := os.environ.get(variables.TOKEN):
        return check_token(token, variables.TOKEN)
    path = os.environ.get(variables.TOKEN_FILE)
    return read_token(Path(path)) if path else ""


def read_token(path: Path) -> str:
    """Return the token in a file."""
    try:
        return check_token(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read the token file {path}: {reason_of(error)}") from error


def check_token(text: str, source: str) -> str:
    """Return the token without white space around it; an error does not repeat it."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        what = "contains more than a token" if token else "contains no token"
        raise click.UsageError(f"{source} {what}: give the output of `fairwarning token create`")
    return token


def read_certificates(path: str | Path) -> str:
    """Return the certificates in a PEM file."""
    try:
        certificates = _CERTIFICATE.findall(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        text = f"cannot read the certificate file {path}: {reason_of(error)}"
        raise Refused("BadCertificateFile", text) from error
    if not certificates:
        raise Refused("BadCertificateFile", f"{path} contains no certificate in PEM format")
    return "".join(certificates)


def _first(certificates: str) -> str:
    """Return the server's own certificate, which is the first of its chain."""
    first = _CERTIFICATE.search(certificates)
    assert first is not None
    return first[0]
