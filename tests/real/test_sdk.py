"""Azure's SDK for Python: login, authorization, errors, failures and restarts."""

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
    code_of,
    instance_ids,
    machine,
    scale_set,
    service_with_group,
    wait_for,
)

ALICE = Principal(name="alice", role=Role.TENANT, group=GROUP)


def log_in(service: SdkService, tenant: str, secret: str) -> ClientSecretCredential:
    """Return the credential of a service principal at our authority."""
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
    """A client secret works with AD FS and Entra; a token works on its own."""
    with service_with_group(tmp_path / "data") as (service, operator):
        wait_for(operator.virtual_machines.begin_create_or_update(GROUP, "vm", machine()))
        clients = [service.client(StaticToken(service.token_of(ALICE)))]
        with ExitStack() as credentials:
            for tenant in ("adfs", TENANT):
                credential = credentials.enter_context(
                    log_in(service, tenant, service.token_of(ALICE, "login"))
                )
                assert credential.get_token(f"{service.arm}/.default").token
                clients.append(service.client(credential))
            for client in clients:
                assert [item.name for item in client.virtual_machines.list(GROUP)] == ["vm"]


@pytest.mark.spec("C2", "C3")
def test_invalid_credentials(tmp_path: Path) -> None:
    """An invalid secret, an invalid token and an untrusted CA are errors."""
    with service_with_group(tmp_path / "data") as (service, _):
        for tenant in ("adfs", TENANT):
            with (
                log_in(service, tenant, service.token_of(ALICE)) as credential,  # no client secret
                pytest.raises(ClientAuthenticationError, match="not valid"),
            ):
                credential.get_token(f"{service.arm}/.default")
        unauthenticated = service.client(StaticToken("not.a.token"))
        with pytest.raises(ClientAuthenticationError) as error:
            unauthenticated.virtual_machines.get(GROUP, "vm")
        assert code_of(error.value) == "InvalidAuthenticationToken"
        assert "get a new one" in error.value.message
        with (
            ComputeManagementClient(
                StaticToken(service.ready["token"]),
                service.ready["subscription"],
                base_url=service.arm,
            ) as untrusting,
            pytest.raises(ServiceRequestError, match="certificate"),
        ):
            untrusting.virtual_machines.get(GROUP, "vm", retry_total=0)


@pytest.mark.spec("C2", "C3")
def test_authorization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader can read, a tenant can use its group; other requests change nothing."""
    with service_with_group(tmp_path / "data") as (service, operator):
        service.create_group(operator, "other")
        wait_for(operator.virtual_machines.begin_create_or_update(GROUP, "vm", machine()))
        assert service.event_states("vm") == {}
        reader, other = service.client_of(Role.READER), service.client_of(Role.TENANT, "other")
        assert reader.virtual_machines.get(GROUP, "vm").name == "vm"
        assert list(other.virtual_machines.list_all()) == []
        for forbidden in (
            lambda: reader.virtual_machines.begin_restart(GROUP, "vm"),
            lambda: other.virtual_machines.begin_restart(GROUP, "vm"),
            lambda: other.virtual_machines.get(GROUP, "vm"),
            lambda: list(other.virtual_machines.list(GROUP)),
        ):
            with pytest.raises(HttpResponseError) as error:
                forbidden()
            assert error.value.status_code == 403
            assert code_of(error.value) == "AuthorizationFailed"
            assert "'somebody' does not have authorization" in error.value.message
        assert service.event_states("vm") == {}

        monkeypatch.setenv("REQUESTS_CA_BUNDLE", service.ca)  # the other way to trust the authority
        credential = StaticToken(service.token_of(ALICE))
        with ComputeManagementClient(
            credential, service.ready["subscription"], base_url=service.arm
        ) as alice:
            restarting = alice.virtual_machines.begin_restart(GROUP, "vm")
            service.approve_for("vm")
            service.advance(60)
            wait_for(restarting)


@pytest.mark.spec("C1", "C2", "E5")
def test_errors_have_azure_s_codes(tmp_path: Path) -> None:
    """Each error is the SDK's exception for it, with Azure's code and a message."""
    with service_with_group(tmp_path / "data") as (service, client):
        machines, sets = client.virtual_machines, client.virtual_machine_scale_sets
        wait_for(machines.begin_create_or_update(GROUP, "vm", machine()))
        assert service.event_states("vm") == {}
        (first,) = wait_for(sets.begin_create_or_update(GROUP, "web", scale_set(0)))
        wait_for(sets.begin_create_or_update(GROUP, "web", scale_set(1)))

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
            sets.begin_delete_instances(GROUP, "web", instance_ids(7))
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
    """The poller raises the code and the reason of the operation's status."""
    script = "trap '' TERM; echo ready; sleep 600"  # the reboot waits for this process
    with service_with_group(tmp_path / "data") as (service, client):
        machines = client.virtual_machines
        wait_for(machines.begin_create_or_update(GROUP, "vm", machine()))
        words = ["exec", "--data", str(service.data), "--grace", str(LIMIT_SECONDS), "vm", "--"]
        with subprocess.Popen(
            [*PROGRAM, *words, "sh", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout is not None
            assert program.stderr is not None
            try:
                assert program.stdout.readline() == "ready\n"
                assert program.stderr.readline().startswith("The clock is stopped; ")
                restarting = machines.begin_restart(GROUP, "vm")
                assert program.stderr.readline() == "fairwarning: vm is rebooted\n"
            finally:  # a machine that is killed during its shutdown does not start again
                program.kill()
        with pytest.raises(HttpResponseError) as failed:
            restarting.result(LIMIT_SECONDS)
        assert restarting.status() == "Failed"
        assert code_of(failed.value) == "OperationFailed"
        assert "the program of vm disconnected" in failed.value.message
        again = machines.begin_restart(GROUP, "vm")  # it is not stuck
        service.advance(60)
        wait_for(again)


@pytest.mark.spec("E9", "C1", "C2")
def test_a_poller_survives_a_crash(tmp_path: Path) -> None:
    """After a kill and a restart, the service still knows the operation."""
    with SdkService(tmp_path / "data", "--console", "127.0.0.1:8170") as service:
        client = service.client()
        service.create_group(client)
        sets = client.virtual_machine_scale_sets
        wait_for(sets.begin_create_or_update(GROUP, "web", scale_set(2)))
        assert service.event_states("web_0") == {}
        deleting = sets.begin_delete_instances(GROUP, "web", instance_ids(1), retry_total=0)
        (event,) = service.events("web_0")
        token = deleting.continuation_token()
        service.kill()
        with pytest.raises(AzureError):
            deleting.result(LIMIT_SECONDS)
    with SdkService(tmp_path / "data", "--console", "127.0.0.1:8170") as service:
        assert service.events("web_0") == [event]
        sets = service.client().virtual_machine_scale_sets
        resumed = sets.begin_delete_instances(
            GROUP, "web", instance_ids(1), continuation_token=token
        )
        assert not resumed.done()
        service.approve_for("web_0", "web_1")
        service.advance(30)
        assert wait_for(resumed) == [None]
        assert resumed.status() == "Succeeded"
        assert service.names() == ["web_0"]
