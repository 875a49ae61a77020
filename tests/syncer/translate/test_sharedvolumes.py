"""Claims of shared volumes: called on the host as in the plane, mounted as their names say, and never a tenant's to make."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import names
from bulkhead.api.objects import Obj
from syncer.translate import Untranslatable
from syncer.translate.kinds import volumeclaim
from syncer.translate.reasons import Reason
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples

NAMES = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?\Z")


def mounted(claim: str, **more: object) -> Obj:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim, **more}}]
    (volume,) = KINDS["Pod"].to_host(samples.pod({"volumes": volumes}), samples.VIEW)["spec"]["volumes"]
    source: Obj = volume["persistentVolumeClaim"]
    return source


@pytest.mark.parametrize("asked", [{}, {"readOnly": False}, {"readOnly": True}])
def test_item_92_what_is_shared_read_only_is_mounted_so_whatever_the_pod_says(asked: Obj) -> None:
    assert mounted("shared.ro.data", **asked) == {"claimName": "shared.ro.data", "readOnly": True}


def test_item_92_what_may_be_written_to_is_mounted_as_the_pod_says() -> None:
    assert mounted("shared.rw.data") == {"claimName": "shared.rw.data"}
    assert mounted("shared.rw.data", readOnly=True) == {"claimName": "shared.rw.data", "readOnly": True}


@given(NAMES)
def test_item_92_no_claim_of_a_tenants_own_meets_a_shared_one(name: str) -> None:
    host = names.host_name(samples.VIEW.tenant_uid, "PersistentVolumeClaim", "team", name)
    assert not names.is_shared_claim(host)
    assert re.fullmatch(r"[a-z][-a-z0-9]*", host)


@pytest.mark.parametrize("name", ["shared.ro.data", "shared.rw.data"])
def test_item_92_a_tenants_own_claim_of_that_name_is_refused(name: str) -> None:
    meta = samples.pod()["metadata"] | {"name": name}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    with pytest.raises(Untranslatable, match="those of shared volumes") as found:
        volumeclaim.to_host({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}, samples.VIEW)
    assert found.value.reason is Reason.NOT_ALLOWED
