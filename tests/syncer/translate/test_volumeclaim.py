"""How large a claim may be, in the words that its owner reads."""

from dataclasses import replace

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import volumeclaim
from syncer.translate.reasons import Reason
from tests.kit import translationsamples as samples

VIEW = replace(samples.VIEW, most_per_claim="100Gi", storage_classes=frozenset({"ordinary"}))


def claim(size: str) -> Obj:
    meta = samples.pod()["metadata"] | {"name": "data"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "ordinary"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def test_a_claim_that_no_class_lets_be_is_told_what_it_asks_for_and_what_it_may() -> None:
    assert volumeclaim.to_host(claim("102400Mi"), VIEW)
    assert volumeclaim.to_host(claim("9Pi"), replace(VIEW, most_per_claim=""))
    with pytest.raises(Untranslatable, match="requests 101Gi of storage, and one claim may request at most 100Gi") as found:
        volumeclaim.to_host(claim("101Gi"), VIEW)
    assert found.value.reason is Reason.TOO_LARGE


def test_a_claim_stays_as_large_as_it_is_when_its_class_becomes_tighter_and_grows_no_more() -> None:
    own = claim("200Gi")
    there = volumeclaim.as_made(VIEW, own)
    assert volumeclaim.to_host(own, there)
    assert volumeclaim.to_host(claim("150Gi"), there)
    with pytest.raises(Untranslatable, match="at most 200Gi"):
        volumeclaim.to_host(claim("201Gi"), there)
    assert volumeclaim.as_made(VIEW, claim("1Gi")).most_per_claim == "100Gi"


@pytest.mark.parametrize(
    ("size", "has", "patched"),
    [("20Gi", "10Gi", True), ("10Gi", "10Gi", False), ("5Gi", "10Gi", False), ("20Gi", None, False), ("200Gi", "10Gi", True)],
)
def test_a_size_that_storage_could_not_give_is_taken_back_and_a_volume_never_shrinks(
    size: str, has: str | None, patched: bool
) -> None:
    there = volumeclaim.to_host(claim("100Gi"), VIEW)
    there["metadata"] |= {"uid": "host-uid"}
    if has is not None:
        there["status"] = {"phase": "Bound", "capacity": {"storage": has}}
    found = diff.object_patch(volumeclaim.to_host(claim(size), replace(VIEW, most_per_claim="")), there)
    assert (found is not None) == patched
    assert found is None or found.body["spec"] == {"resources": {"requests": {"storage": size}}}
