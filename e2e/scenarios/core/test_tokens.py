"""Service account tokens are the tenant's own: minted by its API with a real lifetime, rotated, and refused when expired."""

import base64
import json
import time

from e2e import tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.poll import until
from e2e.tenants import Tenant

MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_item_12_16_a_pod_talks_to_its_own_api_with_its_token(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("caller", namespace=space))
    workloads.wait_running(alice.api, "caller", namespace=space)
    token = read(alice, space, "caller", "token")
    claims = decode(token)
    tenant = host.get("Tenant", alice.name)
    assert claims["iss"] == f"https://{tenant['metadata']['uid']}.kubernetes.default.svc"
    assert claims["kubernetes.io"]["pod"]["name"] == "caller"
    assert claims["kubernetes.io"]["namespace"] == space
    assert 0 < claims["exp"] - time.time() <= 24 * 3600
    assert tenants.who(tenants.with_token(alice.api, token)) == f"system:serviceaccount:{space}:default"
    assert read(alice, space, "caller", "namespace") == space
    assert "BEGIN CERTIFICATE" in read(alice, space, "caller", "ca.crt")


def test_the_token_means_nothing_to_the_host(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("caller", namespace=space))
    workloads.wait_running(alice.api, "caller", namespace=space)
    token = read(alice, space, "caller", "token")
    assert tenants.who(tenants.with_token(alice.api, token)) == f"system:serviceaccount:{space}:default"
    assert tenants.who(tenants.with_token(host, token)) == ""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert authenticated(alice.api.request("POST", path, body=review))
    assert not authenticated(host.request("POST", path, body=review))


def test_item_13_an_asked_for_lifetime_is_real_and_the_token_is_rotated(alice: Tenant, space: str) -> None:
    source = {"serviceAccountToken": {"path": "short", "expirationSeconds": 600, "audience": "vault.example.com"}}
    spec = workloads.pod_spec(volumes=[{"name": "short", "projected": {"sources": [source]}}])
    spec["containers"][0]["volumeMounts"] = [{"name": "short", "mountPath": "/short"}]
    alice.api.create(workloads.pod("short", spec, namespace=space))
    workloads.wait_running(alice.api, "short", namespace=space)
    outcome = kubectl(alice.kubeconfig, "-n", space, "exec", "short", "--", "cat", "/short/short")
    claims = decode(outcome.out)
    assert claims["aud"] == ["vault.example.com"]
    assert 540 <= claims["exp"] - claims["iat"] <= 660


def test_item_12_a_token_of_a_deleted_pod_is_refused(alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("caller", namespace=space))
    workloads.wait_running(alice.api, "caller", namespace=space)
    token = read(alice, space, "caller", "token")
    holder = tenants.with_token(alice.api, token)
    assert tenants.who(holder).startswith("system:serviceaccount")
    alice.api.delete("Pod", "caller", space, grace=0)
    workloads.wait_pod_gone(alice.api, "caller", namespace=space)

    def probe() -> None:
        workloads.expect(not tenants.who(holder).startswith("system:serviceaccount"), "the token is still accepted")

    until("the token of a pod that is gone to be refused", probe, seconds=60)


def read(tenant: Tenant, namespace: str, pod: str, file: str) -> str:
    return kubectl(tenant.kubeconfig, "-n", namespace, "exec", pod, "--", "cat", f"{MOUNT}/{file}").out.strip()


def decode(token: str) -> Obj:
    body = token.strip().split(".")[1]
    claims: Obj = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def authenticated(review: Obj | str) -> bool:
    return isinstance(review, dict) and bool(review.get("status", {}).get("authenticated"))
