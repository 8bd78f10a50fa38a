"""Actions that do nothing to a machine, and those that are refused by name (C1, C2)."""

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from tests.arm.bodies import COMPUTE, VM, machine, refused
from tests.arm.everything import state
from tests.fixtures.arm import ArmHarness

pytestmark = pytest.mark.spec("C1")


def test_reapply() -> None:
    """`az vm reapply` is accepted and does nothing to the machine."""
    with ArmHarness() as arm:
        machine(arm)
        before = arm.scope("rg:vm")
        response = arm.post(f"{VM}/reapply")
        assert response.status == 202
        assert arm.ended(response)["status"] == "Succeeded"
        assert arm.scope("rg:vm").machines == before.machines
        assert arm.driver.impacts == []
        assert refused(arm.post(f"{VM}2/reapply")) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    "action",
    ["generalize", "capture", "assessPatches", "installPatches", "retrieveBootDiagnosticsData"],
)
def test_refused_actions(action: str) -> None:
    """`az vm generalize`, `az vm assess-patches` and others are refused by name."""
    with ArmHarness() as arm:
        machine(arm)
        before = state(arm)
        response = arm.post(f"{VM}/{action}", {})
        assert refused(response) == (409, "OperationNotAllowed")
        assert f"'{action.lower()}' is not supported" in response.error_message
        assert state(arm) == before


def test_metrics_are_refused() -> None:
    """`az monitor metrics list` says that there are no metrics of machines."""
    with ArmHarness() as arm:
        machine(arm)
        response = arm.get(f"{VM}/providers/Microsoft.Insights/metrics")
        assert refused(response) == (409, "OperationNotAllowed")
        assert "no metrics of machines" in response.error_message


@pytest.mark.parametrize("kind", ["RSA", "Ed25519", None])
def test_a_key_pair(kind: str | None) -> None:
    """`az sshkey create` gets a new key pair, of which only the public key is stored."""
    with ArmHarness() as arm:
        arm.group()
        path = f"{COMPUTE}/sshPublicKeys/key"
        assert arm.put(path, {"location": "local", "tags": {"a": "b"}}).status == 201
        response = arm.post(f"{path}/generateKeyPair", {"encryptionType": kind} if kind else None)
        pair = response.json
        private = pair["privateKey"].encode()
        key = (load_ssh_private_key if kind == "Ed25519" else load_pem_private_key)(private, None)
        assert key is not None
        assert pair["publicKey"].startswith("ssh-ed25519 " if kind == "Ed25519" else "ssh-rsa ")
        stored = arm.get(path).json
        assert stored["properties"]["publicKey"] == pair["publicKey"]
        assert stored["tags"] == {"a": "b"}
        assert "PRIVATE KEY" not in str(state(arm))
        assert [e["name"] for e in arm.get(f"{COMPUTE}/sshPublicKeys").json["value"]] == ["key"]


def test_a_bad_key_pair() -> None:
    """An unknown type of keys is refused with the types that exist."""
    with ArmHarness() as arm:
        arm.group()
        path = f"{COMPUTE}/sshPublicKeys/key"
        assert refused(arm.post(f"{path}/generateKeyPair")) == (404, "ResourceNotFound")
        arm.put(path, {"location": "local"})
        response = arm.post(f"{path}/generateKeyPair", {"encryptionType": "DSA"})
        assert refused(response) == (400, "InvalidParameter")
        assert "RSA, Ed25519" in response.error_message
