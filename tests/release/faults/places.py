"""Find where the shell waits, writes, spawns or reads foreign bytes, by the calls it makes.

A place is a module and a kind of call: `store/worker.py waits`. A call is known by its full name
where the module imports it (`os.fsync`), and by the name of the method otherwise (`.sendall`).
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src" / "fairwarning"

IMPORTED = {
    "waits": """
        asyncio.sleep asyncio.wait asyncio.wait_for asyncio.timeout asyncio.timeout_at
        asyncio.open_connection asyncio.open_unix_connection fcntl.flock http.client.HTTPConnection
        http.client.HTTPSConnection msvcrt.locking os.read os.waitid os.waitpid select.epoll
        select.poll select.select socket.create_connection socket.getaddrinfo
        socket.recv_fds ssl.get_server_certificate sys.stdin.read time.sleep""",
    "writes": """
        os.chmod os.fchmod os.fsync os.ftruncate os.link os.mkdir os.rename os.replace os.unlink
        os.write print shutil.rmtree socket.send_fds sqlite3.connect sys.stderr.write
        sys.stdout.write tempfile.NamedTemporaryFile tempfile.mkdtemp tempfile.mkstemp""",
    "spawns": """
        asyncio.create_subprocess_exec asyncio.create_task asyncio.ensure_future asyncio.to_thread
        concurrent.futures.ThreadPoolExecutor os.execve os.execvpe os.fork os.posix_spawn
        subprocess.Popen subprocess.run threading.Thread threading.Timer""",
    "foreign bytes": """
        base64.b64decode base64.urlsafe_b64decode httptools.HttpRequestParser json.load json.loads
        cryptography.hazmat.primitives.serialization.load_pem_private_key
        cryptography.x509.load_pem_x509_certificate lightkube.core.decoders.decode_list
        lightkube.core.decoders.decode_object lightkube.core.decoders.decode_status msgspec.convert
        msgspec.json.Decoder msgspec.json.decode psycopg.conninfo.conninfo_to_dict
        ssl.PEM_cert_to_DER_cert ssl.SSLContext ssl.create_default_context tomllib.load
        tomllib.loads urllib.parse.parse_qsl urllib.parse.unquote_plus urllib.parse.urlsplit
        xml.etree.ElementTree.fromstring yaml.safe_load""",
}
METHODS = {
    "waits": """
        accept acquire communicate connect drain getresponse readexactly readline readuntil recv
        recv_into recvfrom sock_accept sock_connect sock_recv wait wait_closed wait_for""",
    "writes": """
        chmod execute executemany executescript mkdir rename send sendall sendto sock_sendall
        symlink_to touch unlink write write_bytes write_text writelines""",
    "spawns": "create_task run_in_executor",
    "foreign bytes": "feed_data fromhex unpack unpack_from",
}
KINDS_BY_NAME = {name: kind for kind, names in IMPORTED.items() for name in names.split()}
KINDS_BY_METHOD = {name: kind for kind, names in METHODS.items() for name in names.split()}
# Modules that turn received text into numbers.
PARSERS = {
    "arm/http/listing.py",
    "console/api/endpoints.py",
    "console/api/routes.py",
    "console/page/request.py",
    "guest/http_message.py",
    "metadata/reader.py",
    "metadata/validation.py",
}


@cache
def places() -> set[str]:
    """Every place of the package outside the core, which does none of this."""
    modules = (path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
    return {
        f"{module} {kind}"
        for module in modules
        if not module.startswith("core/")
        for kind in kinds((SOURCE / module).read_text("utf-8"), parses=module in PARSERS)
    }


def kinds(source: str, *, parses: bool = False) -> Iterator[str]:
    """The kind of each such call in this source."""
    nodes = list(ast.walk(ast.parse(source)))
    names = dict(pair for node in nodes for pair in _imported(node))
    for node in nodes:
        if isinstance(node, ast.Call) and (kind := _kind(node, names, parses=parses)):
            yield kind


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _kind(call: ast.Call, names: dict[str, str], *, parses: bool) -> str | None:
    function, path = call.func, list[str]()
    while isinstance(function, ast.Attribute):
        path.insert(0, function.attr)
        function = function.value
    if isinstance(function, ast.Name) and (function.id in names or not path):
        name = ".".join([names.get(function.id, function.id), *path])
        if name == "int" and parses:
            return "foreign bytes"
        return _mode(call.args[1:]) if name == "open" else KINDS_BY_NAME.get(name)
    return _of_method(path[-1], call) if path else None


def _of_method(method: str, call: ast.Call) -> str | None:
    """By the method; of a method that other types have too, by its arguments."""
    limited = any(keyword.arg == "timeout" for keyword in call.keywords)
    match method, len(call.args):
        case ("get" | "join", 0):  # of a queue, a thread; those of a mapping and a text have one
            return "waits"
        case ("get" | "join" | "result", _) if limited:
            return "waits"
        case "result", 1:
            return "waits"
        case "replace", 1 if not call.keywords:  # of a path; that of a text has two
            return "writes"
        case "open", _:
            return _mode(call.args)
    return KINDS_BY_METHOD.get(method)


def _mode(arguments: list[ast.expr]) -> str | None:
    """Whether a file is opened for writing."""
    modes = (mode.value for mode in arguments if isinstance(mode, ast.Constant))
    writing = any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
    return "writes" if writing else None
