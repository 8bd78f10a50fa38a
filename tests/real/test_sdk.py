"""Azure's SDK for Python against the control plane: who gets in, what is refused, what fails."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.core.rest import HttpRequest
from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient

from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.service import PROGRAM
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.real.sdk import (
    GROUP,
    SdkService,
    StaticToken,
    cloud,
    code_of,
    ended,
    machine,
    scale_set,
    some,
)

ALICE = Principal(name="alice", role=Role.TENANT, group=GROUP)


# --- Logging in -----------------------------------------------------------------------------------


def log_in(service: SdkService, tenant: str, secret: str) -> ClientSecretCredential:
    """A service principal at our own authority."""
    return ClientSecretCredential(
        tenant,
        ALICE.name,
        secret,
        authority=service.arm,
        disable_instance_discovery=True,
        connection_verify=service.ca,
    )


@pytest.mark.spec("C2", "C3")
def test_ways_to_log_in(tmp_path: Path) -> None:
    """A client secret is good for AD FS and for Entra; a token by itself will do as well."""
    with cloud(tmp_path / "data") as (service, operator):
        ended(operator.virtual_machines.begin_create_or_update(GROUP, "vm", machine()))
        clients = [service.client(StaticToken(service.tokens.access(ALICE)))]
        with ExitStack() as credentials:
            for tenant in ("adfs", TENANT):
                credential = credentials.enter_context(
                    log_in(service, tenant, service.tokens.secret(ALICE))
                )
                assert (
                    service.tokens.read(credential.get_token(f"{service.arm}/.default").token)
                    == ALICE
                )
                clients.append(service.client(credential))
            for client in clients:
                assert [one.name for one in client.virtual_machines.list(GROUP)] == ["vm"]


@pytest.mark.spec("C2", "C3")
def test_who_is_not_let_in(tmp_path: Path) -> None:
    """No secret, no token; no good token, no answer; without our authority, no conversation."""
    with cloud(tmp_path / "data") as (service, _):
        for tenant in ("adfs", TENANT):
            with (
                log_in(
                    service, tenant, service.tokens.access(ALICE)
                ) as credential,  # no client secret
                pytest.raises(ClientAuthenticationError, match="not valid"),
            ):
                credential.get_token(f"{service.arm}/.default")
        stranger = service.client(StaticToken("not.a.token"))
        with pytest.raises(ClientAuthenticationError) as refused:
            stranger.virtual_machines.get(GROUP, "vm")
        assert code_of(refused.value) == "InvalidAuthenticationToken"
        assert "get a new one" in refused.value.message
        with (
            ComputeManagementClient(
                StaticToken(service.ready["token"]),
                service.ready["subscription"],
                base_url=service.arm,
            ) as careful,
            pytest.raises(ServiceRequestError, match="certificate"),
        ):
            careful.virtual_machines.get(GROUP, "vm", retry_total=0)


@pytest.mark.spec("C2", "C3")
def test_what_everybody_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader reads, a tenant has its own group; more is refused, and nothing happens."""
    with cloud(tmp_path / "data") as (service, operator):
        service.make_group(operator, "other")
        ended(operator.virtual_machines.begin_create_or_update(GROUP, "vm", machine()))
        assert service.seen("vm") == {}
        reader, other = service.client_of(Role.READER), service.client_of(Role.TENANT, "other")
        assert reader.virtual_machines.get(GROUP, "vm").name == "vm"
        assert list(other.virtual_machines.list_all()) == []
        for forbidden in (
            lambda: reader.virtual_machines.begin_restart(GROUP, "vm"),
            lambda: other.virtual_machines.begin_restart(GROUP, "vm"),
            lambda: other.virtual_machines.get(GROUP, "vm"),
            lambda: list(other.virtual_machines.list(GROUP)),
        ):
            with pytest.raises(HttpResponseError) as refused:
                forbidden()
            assert refused.value.status_code == 403
            assert code_of(refused.value) == "AuthorizationFailed"
            assert "'somebody' does not have authorization" in refused.value.message
        assert service.seen("vm") == {}

        monkeypatch.setenv("REQUESTS_CA_BUNDLE", service.ca)  # the other way to name the authority
        own = StaticToken(service.tokens.access(ALICE))
        with ComputeManagementClient(
            own, service.ready["subscription"], base_url=service.arm
        ) as alice:
            restarting = alice.virtual_machines.begin_restart(GROUP, "vm")
            service.approve_for("vm")
            service.advance(60)
            ended(restarting)


# --- Refusals, failures, and what outlives the service --------------------------------------------


@pytest.mark.spec("C1", "C2", "E5")
def test_refusals_have_azures_codes(tmp_path: Path) -> None:
    """Each is the exception that the SDK has for it, with a code, and says what to do."""
    with cloud(tmp_path / "data") as (service, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        ended(machines.begin_create_or_update(GROUP, "vm", machine()))
        assert service.seen("vm") == {}
        (first,) = ended(sets.begin_create_or_update(GROUP, "web", scale_set(0)))
        ended(sets.begin_create_or_update(GROUP, "web", scale_set(1)))

        with pytest.raises(ResourceNotFoundError) as missing:
            machines.begin_restart(GROUP, "nobody")
        assert code_of(missing.value) == "ResourceNotFound"
        assert "'Microsoft.Compute/virtualMachines/nobody'" in missing.value.message
        with pytest.raises(ResourceNotFoundError) as nowhere:
            machines.begin_create_or_update("nowhere", "vm", machine())
        assert code_of(nowhere.value) == "ResourceGroupNotFound"
        with pytest.raises(ResourceExistsError) as regular:
            machines.simulate_eviction(GROUP, "vm")
        assert code_of(regular.value) == "OperationNotAllowed"
        assert "this is for Spot machines" in regular.value.message
        with pytest.raises(HttpResponseError) as unknown:
            sets.begin_delete_instances(GROUP, "web", some(7))
        assert code_of(unknown.value) == "InvalidParameter"
        assert unknown.value.status_code == 400
        with pytest.raises(ResourceModifiedError):
            sets.begin_create_or_update(
                GROUP,
                "web",
                scale_set(2),
                etag=first.etag,
                match_condition=MatchConditions.IfNotModified,
            )

        machines.begin_restart(GROUP, "vm", polling=False)
        (event,) = service.events("vm")
        with pytest.raises(ResourceExistsError) as busy:
            machines.begin_redeploy(GROUP, "vm")
        assert code_of(busy.value) == "Conflict"
        assert f"unfinished reboot (event {event['EventId']})" in busy.value.message
        assert service.events("vm") == [event]

        url = f"{service.arm}/subscriptions/{service.ready['subscription']}/resourcegroups/{GROUP}"
        unversioned = client.send_request(HttpRequest("GET", url))
        assert unversioned.status_code == 400
        assert unversioned.json()["error"]["code"] == "MissingApiVersionParameter"


@needs_namespaces
@pytest.mark.spec("C1", "C2")
def test_an_operation_that_fails(tmp_path: Path) -> None:
    """The poller raises what the operation's own status says: a code, and the reason."""
    stubborn = "trap '' TERM; echo ready; sleep 600"  # the reboot waits for it
    with cloud(tmp_path / "data") as (service, client):
        machines = client.virtual_machines
        ended(machines.begin_create_or_update(GROUP, "vm", machine()))
        words = ["exec", "--data", str(service.data), "--grace", str(LIMIT_SECONDS), "vm", "--"]
        with subprocess.Popen(
            [*PROGRAM, *words, "sh", "-c", stubborn],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout is not None
            assert program.stderr is not None
            assert program.stdout.readline() == "ready\n"
            restarting = machines.begin_restart(GROUP, "vm")
            assert program.stderr.readline() == "fairwarning: vm is rebooted\n"
            program.kill()  # a machine that dies while it goes down does not come up again
        with pytest.raises(HttpResponseError) as failed:
            restarting.result(LIMIT_SECONDS)
        assert restarting.status() == "Failed"
        assert code_of(failed.value) == "OperationFailed"
        assert "the program of vm disconnected" in failed.value.message
        again = machines.begin_restart(GROUP, "vm")  # it is not stuck
        service.advance(60)
        ended(again)


@pytest.mark.spec("E9", "C1", "C2")
def test_a_poller_outlives_the_service(tmp_path: Path) -> None:
    """Killed and started again on the same data, the service knows the operation by its URL."""
    with SdkService(tmp_path / "data", "--console", "127.0.0.1:8170") as service:
        client = service.client()
        service.make_group(client)
        sets = client.virtual_machine_scale_sets
        ended(sets.begin_create_or_update(GROUP, "web", scale_set(2)))
        assert service.seen("web_0") == {}
        deleting = sets.begin_delete_instances(GROUP, "web", some(1), retry_total=0)
        (event,) = service.events("web_0")
        token = deleting.continuation_token()
        service.kill()
        with pytest.raises(AzureError):
            deleting.result(LIMIT_SECONDS)
    with SdkService(tmp_path / "data", "--console", "127.0.0.1:8170") as service:
        assert service.events("web_0") == [event]
        sets = service.client().virtual_machine_scale_sets
        resumed = sets.begin_delete_instances(GROUP, "web", some(1), continuation_token=token)
        assert not resumed.done()
        service.approve_for("web_0", "web_1")
        service.advance(30)
        assert ended(resumed) == [None]
        assert resumed.status() == "Succeeded"
        assert service.names() == ["web_0"]
