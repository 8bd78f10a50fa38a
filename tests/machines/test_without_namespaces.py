"""`fairwarning exec` where there are no namespaces: the program is an ordinary child process.

docs/exec.md shows the lines that it prints first.
"""

import json
import os
import signal
import sys

import pytest

from tests.fixtures.programs import ROOT, run_program
from tests.fixtures.requirements import needs_namespaces, needs_unshare
from tests.fixtures.waiting import wait_until_async
from tests.machines.process_harness import EXEC, NONE, ProcessHarness, with_process_harness
from tests.machines.test_terminal import at_terminal

pytestmark = pytest.mark.spec("O3", "O12")

IN_BOTH_WAYS = pytest.mark.parametrize("options", [pytest.param((), marks=needs_namespaces), NONE])

# Asks by Azure's URL, through the proxy of the environment and never without it.
ASK_BY_PROXY = """
import urllib.request
assert urllib.request.getproxies()["http"].startswith("http://127.0.0.1:")
assert not urllib.request.proxy_bypass("169.254.169.254")
print(urllib.request.urlopen("http://169.254.169.254/").read().decode())
"""

# Asks by the URL in a variable, without a proxy.
ASK_BY_VARIABLE = """
import os, sys, urllib.request
url = os.environ[sys.argv[1]]
assert url.startswith("http://127.0.0.1:")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(url).read().decode())
"""

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"

# A kernel that refuses namespaces to one program, by the limits of a user namespace of its own.
REFUSING = (
    "unshare",
    "-Ur",
    "sh",
    "-c",
    'for kind in user net; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done && exec "$@"',
    "sh",
)


# --- The endpoint ---------------------------------------------------------------------------------


@with_process_harness
async def test_the_endpoint_answers_as_the_machine(harness: ProcessHarness) -> None:
    """By Azure's URL for clients that use a proxy, and by FAIRWARNING_ENDPOINT."""
    by_variable = (sys.executable, "-c", ASK_BY_VARIABLE, "FAIRWARNING_ENDPOINT")
    programs = [
        harness.start(sys.executable, "-c", ASK_BY_PROXY, machine="web_0", options=NONE),
        harness.start(*by_variable, machine="web_1", options=NONE),
    ]
    assert [await harness.exit_code(program) for program in programs] == [0, 0], harness.err()
    assert [harness.out(0), harness.out(1)] == ["web/web_0\n", "web/web_1\n"]


@with_process_harness
async def test_a_variable_of_the_program_gets_the_endpoint(harness: ProcessHarness) -> None:
    """For a handler whose endpoint can be configured."""
    printed = await harness.output(
        *(sys.executable, "-c", ASK_BY_VARIABLE, "IMDS_URL"),
        options=(*NONE, "--endpoint-variable", "IMDS_URL"),
    )
    assert printed == "web/web_0\n"


@with_process_harness
async def test_the_environment_of_a_child(harness: ProcessHarness) -> None:
    """Both spellings name the proxy; other proxies stay; nothing bypasses it for the endpoint."""
    outside = {
        "https_proxy": "http://proxy.example:3128",
        "HTTP_PROXY": "http://proxy.example:3128",
        "NO_PROXY": "db.example, 169.254.169.254",
        "FAIRWARNING_ENDPOINT": "http://127.1.0.1:8169",
    }
    seen = json.loads(
        await harness.output(
            sys.executable, "-c", SHOW, options=NONE, env={**os.environ, **outside}
        )
    )
    url = seen["FAIRWARNING_ENDPOINT"]
    assert url.startswith("http://127.0.0.1:")
    assert (seen["http_proxy"], seen["HTTP_PROXY"]) == (url, url)
    assert seen["https_proxy"] == "http://proxy.example:3128"
    assert seen["no_proxy"] == seen["NO_PROXY"]
    direct = seen["no_proxy"].split(",")
    assert {"localhost", "127.0.0.1", "db.example"} <= set(direct)
    assert "169.254.169.254" not in direct
    assert seen["FAIRWARNING_MACHINE"] == "web_0"
    assert seen["TMPDIR"] == str(harness.temporary)


# --- Impacts --------------------------------------------------------------------------------------


@pytest.mark.spec("O4")
@with_process_harness
async def test_a_rebooted_child_reaches_its_endpoint(harness: ProcessHarness) -> None:
    """At the same URL as before."""
    script = f"'{sys.executable}' -c \"$0\"; echo $http_proxy; exec sleep 1000"
    harness.start("sh", "-c", script, ASK_BY_PROXY, options=NONE)
    await wait_until_async(lambda: harness.out().count("\n") == 2, "it runs")
    before = harness.out()
    assert before.startswith("web/web_0\n")
    assert await harness.result(harness.submit("reboot")) == ""
    await wait_until_async(lambda: harness.out().count("\n") == 4, "it runs again")
    assert harness.out() == 2 * before, harness.err()


@pytest.mark.spec("O4")
@with_process_harness
async def test_a_deleted_child_ends_with_all_that_it_started(harness: ProcessHarness) -> None:
    """Also processes that ignore SIGTERM and that it has left to another parent."""
    script = "(trap '' TERM; while :; do sleep 0.1; done) & echo ready; exec sleep 1000"
    program = harness.start("sh", "-c", script, options=(*NONE, "--grace", "0.2"))
    await harness.printed("ready\n")
    assert await harness.result(harness.submit("delete")) == ""
    assert await harness.exit_code(program) == 128 + signal.SIGTERM
    await wait_until_async(lambda: not harness.processes_inside(), "all have ended")


# --- Processes ------------------------------------------------------------------------------------


@with_process_harness
async def test_a_killed_exec_takes_its_child_with_it(harness: ProcessHarness) -> None:
    """Nothing is left behind, and the machine goes on without a program."""
    program = await harness.start_counter(options=NONE)
    program.kill()
    await wait_until_async(lambda: not harness.remaining_processes(), "all have ended")
    await wait_until_async(lambda: not harness.driver.is_attached("web", "web_0"), "detached")


@needs_namespaces
@with_process_harness
async def test_a_child_and_a_program_in_namespaces_as_one_machine(
    harness: ProcessHarness,
) -> None:
    """Neither waits for the namespaces of the other, also after a restart of the service."""
    await harness.start_counter(options=NONE)
    await harness.driver.close()
    await harness.start_service()
    await wait_until_async(lambda: harness.listeners.open == ["web_0"], "it is back")
    await harness.start_counter(options=("--isolation", "namespaces"))
    await harness.start_counter(options=NONE)
    assert harness.listeners.open == ["web_0"] * 3


@IN_BOTH_WAYS
@with_process_harness
async def test_a_program_has_the_terminal(
    harness: ProcessHarness, options: tuple[str, ...]
) -> None:
    """Ctrl-C reaches the program once each time, and exec ends with its exit code."""
    program, keyboard = at_terminal(harness, options=options)
    await harness.printed("foreground\n")
    os.write(keyboard, b"\x03")
    await wait_until_async(lambda: harness.out().endswith("interrupted\n"), "it is interrupted")
    os.write(keyboard, b"\x03")
    assert await harness.exit_code(program) == 9
    assert harness.out() == "foreground\ninterrupted\ninterrupted interrupted\n"
    os.close(keyboard)


@pytest.mark.spec("O4")
@IN_BOTH_WAYS
@with_process_harness
async def test_a_rebooted_program_starts_again(
    harness: ProcessHarness, options: tuple[str, ...]
) -> None:
    """It is asked to end, does so, and is started again; exec keeps running."""
    program = await harness.start_counter(options=options)
    assert await harness.result(harness.submit("reboot")) == ""
    await harness.logged("started", "ended", "started")
    assert harness.listeners.open == ["web_0"]
    assert program.poll() is None
    assert harness.messages()[-1] == "fairwarning: web_0 is rebooted"
    program.send_signal(signal.SIGTERM)
    assert await harness.exit_code(program) == 0


# --- The choice -----------------------------------------------------------------------------------


@with_process_harness
async def test_it_says_at_once_what_a_child_cannot_show(harness: ProcessHarness) -> None:
    """Two lines on stderr before the program runs; none with --quiet."""
    for options in (NONE, (*NONE, "--quiet")):
        program = harness.start("sh", "-c", "echo here >&2", options=options)
        assert await harness.exit_code(program) == 0
    first, second, here = harness.err(0).splitlines()
    page = (ROOT / "docs" / "exec.md").read_text("utf-8")
    assert f"\n{first}\n{second}\n" in page
    assert here == "here"
    assert harness.err(1) == "here\n"


@needs_unshare
@needs_namespaces
@with_process_harness
async def test_a_kernel_that_refuses_namespaces(harness: ProcessHarness) -> None:
    """The program runs without them, by itself; the first line says why."""
    assert (
        await harness.output(sys.executable, "-c", ASK_BY_PROXY, before=REFUSING) == "web/web_0\n"
    )
    assert "web_0 runs without namespaces (the limit user.max_" in harness.err()


@with_process_harness
async def test_a_port_that_need_not_be_forwarded(harness: ProcessHarness) -> None:
    """The program has the host's own ports."""
    options = (*NONE, "--forward", "6443")
    assert await harness.exit_code(harness.start("true", options=options)) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--isolation", "some"), "'some' is not one of 'auto', 'namespaces', 'none'"),
        (("--endpoint-variable", "A B"), "'A B' is not the name of an environment variable"),
        (("--grace", "soon"), "Usage:"),
        *((("--forward", port), "such as 6443") for port in ("", "x", "0", "65536", "host:")),
        *((("--forward", port), "a name or an IPv4 address") for port in ("[::1]:80", "a b:80")),
        (("--forward", "169.254.169.254:80"), "a name or an IPv4 address"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], message: str) -> None:
    """The error says what is allowed."""
    ended = run_program(*EXEC, *words, "web_0", "--", "true")
    assert ended.returncode == 2
    assert message in ended.stderr
