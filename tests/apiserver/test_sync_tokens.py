"""Service account tokens of pods: asked of one real API server, kept in a Secret of the other, renewed, taken away."""

import base64
import contextlib
import json
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from syncer.pods.tokens import RENEW_AT
from syncer.translate.tokens import MOST_TOKEN_BYTES, TokenNeed
from syncer.work import Again
from tests.kit.mutating import mutating
from tests.kit.syncerbed import SyncerBed, until


def with_token(bed: SyncerBed, name: str) -> Obj:
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    return bed.pod(name, serviceAccountName="default", volumes=[{"name": "t", "projected": {"sources": [source]}}])


def secret_of(host: Obj) -> str:
    volume = next(each for each in host["spec"]["volumes"] if each["name"] == "t")
    return str(volume["projected"]["sources"][0]["secret"]["name"])


async def there(bed: SyncerBed, name: str) -> Any:
    return name in {each["metadata"]["name"] for each in (await bed.host.list(SECRETS, bed.work)).items}


async def test_item_12_13_14_15_tokens_are_bound_short_lived_and_owned_by_the_pod(bed: SyncerBed) -> None:
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 1200, "audience": "vault"}}
    await bed.create(bed.pod("web", serviceAccountName="default", volumes=[{"name": "t", "projected": {"sources": [source]}}]))
    host = await bed.mirrored("web")
    virtual = await bed.virtual("web")
    assert virtual is not None
    assert "eyJ" not in json.dumps(host)
    assert not await there(bed, secret_of(host)), "a pod that waits for its node has no token"
    await bed.bind(host)
    await until(lambda: there(bed, secret_of(host)), "the tokens of a pod that has its node")
    secret = await bed.host.get(SECRETS, secret_of(host), bed.work)
    token = base64.b64decode(next(iter(secret["data"].values())))
    claims = json.loads(base64.urlsafe_b64decode(token.split(b".")[1] + b"=="))
    assert claims["aud"] == ["vault"]
    assert claims["exp"] - claims["iat"] == 1200
    assert claims["kubernetes.io"]["pod"]["uid"] == virtual["metadata"]["uid"]
    assert claims["kubernetes.io"]["node"]["name"] == bed.node

    async def owned() -> bool:
        found = await bed.host.get(SECRETS, secret_of(host), bed.work)
        return [each["uid"] for each in found["metadata"].get("ownerReferences", ())] == [host["metadata"]["uid"]]

    await until(owned, "secret owned by the host pod")


async def test_a_pod_says_that_there_is_no_quota_for_its_tokens(bed: SyncerBed) -> None:
    """The kubelet only says that a Secret is missing, of which the tenant knows nothing."""
    hard = {"secrets": "5"}
    await bed.host.create(RESOURCE_QUOTAS, {"metadata": {"name": "tenant-secrets"}, "spec": {"hard": hard}}, bed.work)
    status = {"status": {"hard": hard, "used": hard}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-secrets", status, bed.work, subresource="status")
    await bed.refuses(SECRETS, {"data": {"a": "MQ=="}})
    await bed.create(with_token(bed, "web"))
    host = await bed.mirrored("web")
    await bed.bind(host)
    event = await bed.event("web", "asked for 1 secrets, 5 of 5 are in use", reason="QuotaExceeded")
    assert event["message"].endswith("The pod's tokens are made when enough is free.")
    await bed.host.delete(RESOURCE_QUOTAS, "tenant-secrets", bed.work)
    await until(lambda: there(bed, secret_of(host)), "the tokens when there is room")


async def test_item_14_a_token_secret_that_lost_its_owner_gets_it_back_and_goes_when_there_is_no_pod(bed: SyncerBed) -> None:
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 1200}}
    await bed.create(bed.pod("web", serviceAccountName="default", volumes=[{"name": "t", "projected": {"sources": [source]}}]))
    await bed.bind(await bed.mirrored("web"))

    async def of_pod(pod: str) -> list[Obj]:
        found = (await bed.host.list(SECRETS, bed.work)).items
        return [each for each in found if each["metadata"]["annotations"].get(marks.VIRTUAL_NAME, "").startswith(f"{pod}.")]

    async def owned() -> Obj | None:
        return next((each for each in await of_pod("web") if each["metadata"].get("ownerReferences")), None)

    secret = await until(owned, "the pod's tokens")
    meta = secret["metadata"]
    await bed.host.patch(SECRETS, meta["name"], {"metadata": {"ownerReferences": None}}, bed.work)
    again = await until(owned, "their owner again")
    assert again["metadata"]["ownerReferences"] == meta["ownerReferences"]

    # The secret of a deleted pod, without an owner: nothing on the host would delete it.
    gone = json.loads(json.dumps(secret).replace("web.", "gone."))
    kept = {key: gone["metadata"][key] for key in ("labels", "annotations", "namespace")}
    kept["name"] = bed.host_name("PodToken", kept["annotations"][marks.VIRTUAL_NAME])
    await bed.host.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": kept})

    async def swept() -> bool:
        return not await of_pod("gone")

    await until(swept, "the Secret of no pod to be deleted")


async def test_item_13_a_token_that_is_due_is_renewed_even_after_a_restart(bed: SyncerBed) -> None:
    host = await bed.running("web", with_token(bed, "web"))
    name = secret_of(host)

    async def owner() -> list[str]:
        # It comes after the binding, beside the statuses.
        with contextlib.suppress(NotFound):
            found = await bed.host.get(SECRETS, name, bed.work)
            return [each["uid"] for each in found["metadata"].get("ownerReferences", ())]
        return []

    async def owned() -> bool:
        return await owner() == [host["metadata"]["uid"]]

    await until(owned, "secret owned by the host pod")
    await bed.stop()
    old = (await bed.host.get(SECRETS, name, bed.work))["data"]
    # The host's policies refuse a renewal that drops what others have noted there.
    await bed.host.patch(SECRETS, name, {"metadata": {"annotations": {RENEW_AT: "1", "example.org/noted": "x"}}}, bed.work)
    await bed.start()

    async def renewed() -> bool:
        found = await bed.host.get(SECRETS, name, bed.work)
        return found["data"] != old and found["data"].keys() == old.keys() and found["metadata"]["annotations"][RENEW_AT] != "1"

    await until(renewed, "a new token")
    assert await owned()
    assert (await bed.host.get(SECRETS, name, bed.work))["metadata"]["annotations"]["example.org/noted"] == "x"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_item_14_the_tokens_of_a_pod_that_has_ended_go_and_those_of_others_stay(bed: SyncerBed, phase: str) -> None:
    done, runs = await bed.running("done", with_token(bed, "done")), await bed.running("runs", with_token(bed, "runs"))
    await until(lambda: there(bed, secret_of(done)), "the tokens of a pod that runs")
    await until(lambda: there(bed, secret_of(runs)), "the tokens of another")
    await bed.run(done, phase=phase)

    async def gone() -> bool:
        return not await there(bed, secret_of(done))

    await until(gone, "no tokens of a pod that has ended")
    await bed.patrolled()
    assert await bed.mirror("done"), "the pod itself stays as long as the tenant keeps it"
    assert await there(bed, secret_of(runs))
    # Nor are they made again by a syncer that knows nothing of it.
    await bed.stop()
    await bed.start()
    await bed.patrolled()
    assert not await there(bed, secret_of(done))
    assert await there(bed, secret_of(runs))


async def test_item_14_a_pod_that_ended_while_the_syncer_was_away_keeps_no_tokens(bed: SyncerBed) -> None:
    host = await bed.running("done", with_token(bed, "done"))
    await until(lambda: there(bed, secret_of(host)), "the tokens of a pod that runs")
    await bed.stop()
    await bed.run(host, phase="Succeeded")
    await bed.start()

    async def gone() -> bool:
        return not await there(bed, secret_of(host))

    await until(gone, "no tokens of a pod that has ended")


async def test_a_token_that_the_tenants_own_admission_made_large_stays_in_the_plane(
    bed: SyncerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D12. Admission of the plane may ask for more in a token than the pod does, and each pod's would be a MiB on the host."""
    assert bed.session is not None
    tokens, refused = bed.session.tokens, list[str]()
    asked = tokens._request

    async def noted(virtual: Obj, need: TokenNeed) -> tuple[str, float]:
        try:
            return await asked(virtual, need)
        except Again as why:
            refused.append(str(why))
            raise

    monkeypatch.setattr(tokens, "_request", noted)
    name = f"enlarges-{bed.tenant}"
    larger = f"[JSONPatch{{op: 'add', path: '/spec/audiences', value: ['{'a' * 9000}']}}]"
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": larger}}
    policy, binding = mutating(name, bed.space, operation="CREATE", resources=["serviceaccounts/token"], mutation=mutation)
    small = await bed.running("small", with_token(bed, "small"))
    await until(lambda: there(bed, secret_of(small)), "the control: tokens of a pod from before")
    await bed.plane.create(MUTATING_ADMISSION_POLICIES, policy)
    await bed.plane.create(MUTATING_ADMISSION_POLICY_BINDINGS, binding)
    try:

        async def in_force() -> bool:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["x"]}}
            made = await bed.plane.create_subresource(SERVICE_ACCOUNTS, "default", "token", body, bed.space)
            return len(made["status"]["token"]) > MOST_TOKEN_BYTES

        await until(in_force, "the policy to be in force")
        large = await bed.running("large", with_token(bed, "large"))

        async def tried() -> bool:
            return bool(refused)

        await until(tried, "the syncer to ask for the token")
        assert "the plane made a token of" in refused[0]
        assert not await there(bed, secret_of(large))
        assert await there(bed, secret_of(small))
    finally:
        for kind in (MUTATING_ADMISSION_POLICY_BINDINGS, MUTATING_ADMISSION_POLICIES):
            await bed.plane.delete(kind, name)
