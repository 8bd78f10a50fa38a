"""Probes of header lines: Host, required headers, and headers that proxies add."""

from tests.hostile.probes import VALUES, Probe, malformed, refused, served
from tests.hostile.wire import GOOD, HOST, METADATA, TARGET, approval, get, head, post

_OLD_POST = "/metadata/scheduledevents?api-version=2017-03-01"


def _repeated(name: str, data: bytes) -> Probe:
    return refused(name, 400, "repeated-header", data)


def _no_metadata(name: str, data: bytes, *, closed: bool = False) -> Probe:
    return refused(name, 400, "metadata-header", data, closed=closed)


def _forwarded(name: str, data: bytes, *, closed: bool = False) -> Probe:
    return refused(name, 400, "forwarded", data, closed=closed)


def _too_long(name: str, data: bytes) -> Probe:
    """Return a probe that exceeds a size: it closes, so the response is the same in any packets."""
    return refused(name, 431, "headers", data, closed=True)


_OURS = ("169.254.169.254", "127.0.0.1:8080", "localhost", "METADATA.azure.internal:80", "[::1]:80")

HOSTS = [
    refused("host-missing", 400, "host", head("GET", TARGET, METADATA)),
    _repeated("host-twice-same", get(HOST)),
    _repeated("host-twice-foreign-last", get("Host: evil.example")),
    _repeated("host-twice-foreign-first", head("GET", TARGET, "Host: evil.example", *GOOD)),
    _repeated("host-twice-by-case", get("hOST: 169.254.169.254")),
    *(
        refused(f"host-{name}", 400, "host", head("GET", TARGET, f"Host: {host}", METADATA))
        for name, host in VALUES["hosts"].items()
    ),
    *(
        served(f"host-ours-{host}", head("GET", TARGET, f"Host: {host}", METADATA))
        for host in _OURS
    ),
    served("host-missing-http10", head("GET", TARGET, METADATA, version="HTTP/1.0"), closed=True),
    refused(
        "host-foreign-http10",
        400,
        "host",
        head("GET", TARGET, "Host: evil.example", METADATA, version="HTTP/1.0"),
        closed=True,
    ),
]

METADATAS = [
    _no_metadata("metadata-missing", head("GET", TARGET, HOST)),
    _no_metadata(
        "metadata-missing-post",
        head("POST", TARGET, HOST, f"Content-Length: {len(approval('x'))}") + approval("x"),
        closed=True,
    ),
    _no_metadata("metadata-by-underscore", head("GET", TARGET, HOST, "Meta_data: true")),
    *(
        _no_metadata(f"metadata-{name}", head("GET", TARGET, HOST, f"Metadata: {text}"))
        for name, text in VALUES["metadata"].items()
    ),
    *(
        _repeated(
            f"metadata-twice-{first}-{second}",
            head("GET", TARGET, HOST, f"Metadata: {first}", f"Metadata: {second}"),
        )
        for first in ("true", "false")
        for second in ("true", "false")
    ),
    _repeated("metadata-twice-by-case", get("METADATA: true")),
    _no_metadata(
        "metadata-false-old-post",
        head("POST", _OLD_POST, HOST, "Metadata: false", "Content-Length: 0"),
    ),
    _no_metadata("metadata-missing-old-get", head("GET", _OLD_POST, HOST)),
    served("metadata-upper-case", head("GET", TARGET, HOST, "METADATA: TRUE")),
    served("metadata-spaces", head("GET", TARGET, HOST, "Metadata:  \t true \t ")),
    served("metadata-no-space", head("GET", TARGET, HOST, "Metadata:true")),
]

_FORWARDING = (
    "X-Forwarded-For", "x-forwarded-for", "X-FORWARDED-FOR", "X_Forwarded_For", "X-Forwarded_For",
    "x_forwarded-for", "Forwarded", "FORWARDED", "Forwarded-For", "X-Forwarded", "X-Forwarded-Host",
    "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server", "X_Forwarded_Host",
    "X-Original-Forwarded-For", "X-Real-IP", "x_real_ip", "Via", "X-Client-IP", "True-Client-IP",
    "X-Cluster-Client-IP",
)  # fmt: skip

FORWARDED = [
    *(_forwarded(f"forwarded-{name}", get(f"{name}: 10.0.0.9")) for name in _FORWARDING),
    *(
        _forwarded(f"forwarded-empty-{name}", get(f"{name}:"))
        for name in ("X-Forwarded-For", "X_Forwarded_For", "Forwarded", "X-Real-IP")
    ),
    _forwarded("forwarded-first", head("GET", TARGET, "X-Forwarded-For: ::1", *GOOD)),
    _forwarded("forwarded-twice", get("X-Forwarded-For: 10.0.0.9", "X-Forwarded-For:")),
    _forwarded(
        "forwarded-old-post",
        post(approval("x"), "X-Forwarded-For: 10.0.0.9", target=_OLD_POST),
        closed=True,
    ),
    _forwarded(
        "forwarded-instance",
        get("X-Forwarded-For:", target="/metadata/instance?api-version=2021-02-01"),
    ),
]

FIELDS = [
    *(malformed(f"field-{name}", get(line)) for name, line in VALUES["fields"].items()),
    malformed("field-folded-metadata", head("GET", TARGET, HOST, "Metadata:\r\n true")),
    malformed("field-folded-first", head("GET", TARGET, f" {HOST}", *GOOD)),
    malformed("field-bare-lf", get().replace(b"\r\n", b"\n")),
    malformed("field-bare-lf-at-end", get().removesuffix(b"\r\n") + b"\n"),
    malformed("field-space-before-colon", head("GET", TARGET, HOST, "Metadata : true")),
    served("field-non-ascii-value", get("X-One: \xd6")),
    served("field-empty-value", get("X-One:")),
    served("field-repeated-unknown", get("X-One: 1", "X-One: 2")),
]

_PAD = "a" * 90
_FILL = [f"X-{n}: {_PAD}" for n in range(1_998)]

SIZES = [
    _too_long("size-65-headers", get(*(f"X-{n}: 1" for n in range(63)))),
    served("size-64-headers", get(*(f"X-{n}: 1" for n in range(62)))),
    _too_long("size-2000-headers", get(*_FILL)),
    _too_long("size-100-kb-header", get("X-One: " + "a" * 100_000)),
    _too_long("size-100-kb-name", get("a" * 100_000 + ": 1")),
    _too_long("size-100-kb-unfinished", get().removesuffix(b"\r\n") + b"X: " + b"a" * 100_000),
    _too_long("size-17-kib-of-headers", get("X-One: " + "a" * 17 * 1024)),
    served("size-15-kib-of-headers", get("X-One: " + "a" * 15 * 1024)),
    _too_long("size-long-target", get(target=TARGET + "&x=" + "a" * 17 * 1024)),
    _too_long("size-unending-target", b"GET /" + b"a" * 100_000),
    malformed("size-unending-method", b"G" * 100_000),
]

HEADS = [*HOSTS, *METADATAS, *FORWARDED, *FIELDS, *SIZES]
