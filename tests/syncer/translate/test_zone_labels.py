"""Zone and region of a bound pod: the host sets them itself, so they cost no write and are selected as they are."""

from syncer.translate import diff, metadata
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples

ZONE = "topology.kubernetes.io/zone"
OTHER = "topology.kubernetes.io/rack"


def test_what_the_binding_set_above_changes_nothing_below() -> None:
    before = KINDS["Pod"].to_host(samples.pod(), samples.VIEW)
    host = before | {"metadata": before["metadata"] | {"uid": "h", "labels": before["metadata"]["labels"] | {ZONE: "zone-a"}}}
    bound = KINDS["Pod"].to_host(samples.pod(metadata={"labels": {ZONE: "zone-a"}}), samples.VIEW)
    assert diff.pod_patches(bound, host) == ()


def test_a_tenant_sets_no_zone_on_the_host() -> None:
    found = KINDS["Pod"].to_host(samples.pod(metadata={"labels": {ZONE: "elsewhere", OTHER: "r1"}}), samples.VIEW)
    assert ZONE not in found["metadata"]["labels"]
    assert metadata.host_label_key(OTHER, "") in found["metadata"]["labels"]


def test_selectors_by_zone_mean_the_hosts_own_label() -> None:
    assert metadata.host_label_key(ZONE, "") == ZONE
    assert metadata.host_label_key(OTHER, "") != OTHER
