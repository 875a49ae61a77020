"""Behaviours 1 to 21 as far as a pure function shows them: names, labels, owners, tokens, environment."""

import json
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.serviceenv import ServiceEnv, ServicePort
from syncer.translate import Reason, Untranslatable, metadata, tokens
from syncer.translate.kinds import pod
from syncer.translate.podspec import downward
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples

FIELD_PATHS = {
    "metadata.name": "web-0",
    "metadata.namespace": "team",
    "metadata.uid": samples.POD["metadata"]["uid"],
    "spec.serviceAccountName": "robot",
    "metadata.labels['app']": "web",
    "metadata.labels": 'app="web"',
}


def to_host(spec: Any = None, meta: Any = None, **view: Any) -> Obj:
    return KINDS["Pod"].to_host(samples.pod(spec, meta), samples.view(view))


def main(host: Obj) -> Obj:
    found: Obj = host["spec"]["containers"][0]
    return found


def env_of(container: Obj) -> dict[str, str | None]:
    return {each["name"]: each.get("value") for each in container["env"]}


@pytest.mark.parametrize("kind", ["Pod", "ConfigMap", "Secret", "PersistentVolumeClaim", "Service"])
@pytest.mark.parametrize("name", ["a", "a" * 253, "web.example.com"])
def test_item_01_every_kind_has_a_fixed_short_name(kind: str, name: str) -> None:
    found = samples.VIEW.host_name(kind, "team", name)
    assert found == samples.VIEW.host_name(kind, "team", name)
    assert len(found) <= 63
    assert found != samples.VIEW.host_name(kind, "other", name)


@pytest.mark.parametrize(
    "key", ["release", marks.TENANT, marks.SYNCED, metadata.NAMESPACE_HASH, "app.kubernetes.io/managed-by"]
)
def test_item_05_a_reserved_label_of_a_tenant_gets_another_key(key: str) -> None:
    host = to_host(meta={"labels": {key: "mine"}})
    assert host["metadata"]["labels"].get(key) != "mine"
    assert host["metadata"]["labels"][metadata.host_label_key(key, "")] == "mine"


@pytest.mark.parametrize("key", ["kueue.x-k8s.io/queue-name", "scheduling.volcano.sh/queue-name", "istio-injection"])
def test_item_06_labels_that_steer_operators_of_the_host_do_not_reach_them(key: str) -> None:
    assert key not in to_host(meta={"labels": {key: "theirs"}})["metadata"]["labels"]


@pytest.mark.parametrize("key", ["k8s.v1.cni.cncf.io/networks", "sidecar.istio.io/inject", "cdi.k8s.io/x"])
def test_item_06_only_listed_annotations_go_down_and_none_comes_up(key: str) -> None:
    host = to_host(meta={"annotations": {key: "x", "kubectl.kubernetes.io/default-container": "main"}})
    assert key not in host["metadata"]["annotations"]
    assert host["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "main"


def test_item_07_owners_and_finalizers_stay_behind_and_are_noted() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
    meta = {"ownerReferences": [owner], "finalizers": ["example.com/x"], "generateName": "web-", "managedFields": [{}]}
    host = to_host(meta=meta)
    assert set(host["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert json.loads(host["metadata"]["annotations"][pod.OWNERS])[0]["kind"] == "DaemonSet"


@pytest.mark.parametrize(("kind", "evictable"), [("ReplicaSet", "true"), ("DaemonSet", "true"), (None, "false")])
def test_item_08_autoscalers_learn_whether_a_pod_comes_back(kind: str | None, evictable: str) -> None:
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "1", "controller": True}] if kind else []
    notes = to_host(meta={"ownerReferences": owners})["metadata"]["annotations"]
    assert notes["cluster-autoscaler.kubernetes.io/safe-to-evict"] == evictable
    assert notes.get("cluster-autoscaler.kubernetes.io/daemonset-pod") == ("true" if kind == "DaemonSet" else None)


def test_item_11_every_pod_runs_as_the_powerless_account() -> None:
    spec = to_host({"serviceAccountName": "admin", "automountServiceAccountToken": True, "enableServiceLinks": True})["spec"]
    assert spec["serviceAccountName"] == "workload"
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)


def test_item_12_a_token_is_asked_for_with_its_audience_and_lifetime() -> None:
    sources = [
        {"serviceAccountToken": {"path": "a", "audience": "vault", "expirationSeconds": 900}},
        {"serviceAccountToken": {"path": "b"}},
    ]
    needs = tokens.token_requests(samples.pod({"volumes": [{"name": "t", "projected": {"sources": sources}}]}), 86400)
    assert [(need.audience, need.expiration_seconds) for need in needs] == [("vault", 900), ("", 3600)]


def test_item_14_no_token_stands_in_the_pod() -> None:
    source = {"serviceAccountToken": {"path": "token"}}
    host = to_host({"volumes": [{"name": "t", "projected": {"sources": [source]}}]})
    (translated,) = host["spec"]["volumes"][0]["projected"]["sources"]
    assert set(translated) == {"secret"}
    assert translated["secret"]["name"] == tokens.secret_name(samples.pod(), samples.VIEW)


def test_item_16_the_root_certificate_is_the_tenants_own() -> None:
    source = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    host = to_host({"volumes": [{"name": "t", "projected": {"sources": [source]}}]})
    name = host["spec"]["volumes"][0]["projected"]["sources"][0]["configMap"]["name"]
    assert name == samples.VIEW.host_name("ConfigMap", "team", "kube-root-ca.crt")


def test_item_17_references_in_the_environment_are_renamed_everywhere() -> None:
    container = {
        "name": "c",
        "image": "a",
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "envFrom": [{"configMapRef": {"name": "m"}}],
    }
    debug = {**container, "name": "debug"}
    own = samples.pod(
        {"initContainers": [container], "containers": [{**container, "name": "d"}], "ephemeralContainers": [debug]}
    )
    host = KINDS["Pod"].to_host(own, samples.VIEW)
    late = pod.ephemeral_containers(own, samples.VIEW)
    for each in (*host["spec"]["initContainers"], *host["spec"]["containers"], *late):
        reference = next(entry for entry in each["env"] if entry["name"] == "A")
        assert reference["valueFrom"]["secretKeyRef"]["name"] == samples.VIEW.host_name("Secret", "team", "s")
        assert each["envFrom"][1]["configMapRef"]["name"] == samples.VIEW.host_name("ConfigMap", "team", "m")


@pytest.mark.parametrize("path", FIELD_PATHS)
def test_item_18_a_pod_reads_its_virtual_self(path: str) -> None:
    container = {"name": "main", "image": "a", "env": [{"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}
    file = {"path": "me", "fieldRef": {"fieldPath": path}}
    volumes = [
        {"name": "one", "downwardAPI": {"items": [file]}},
        {"name": "two", "projected": {"sources": [{"downwardAPI": {"items": [file]}}]}},
    ]
    host = to_host({"containers": [container], "serviceAccountName": "robot", "volumes": volumes})
    field = next(each for each in main(host)["env"] if each["name"] == "ME")["valueFrom"]["fieldRef"]["fieldPath"]
    key = field.removeprefix("metadata.annotations['").removesuffix("']")
    assert host["metadata"]["annotations"][key] == FIELD_PATHS[path]
    one, two = host["spec"]["volumes"]
    assert one["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == field
    assert two["projected"]["sources"][0]["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == field


def test_item_18_the_noted_labels_follow_a_change() -> None:
    file = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    spec = {"volumes": [{"name": "v", "downwardAPI": {"items": [file]}}]}
    notes = [to_host(spec, {"labels": {"app": app}})["metadata"]["annotations"][downward.LABELS] for app in ("web", "api")]
    assert notes == ['app="web"', 'app="api"']


def test_item_19_services_of_the_namespace_are_in_the_environment_only_when_linked() -> None:
    linked, plain = (env_of(main(to_host({"enableServiceLinks": links}, api_environment=""))) for links in (True, False))
    assert linked["DB_SERVICE_HOST"] == "10.112.4.30"
    assert "HIDDEN_SERVICE_HOST" not in linked
    assert "DB_SERVICE_HOST" not in plain
    assert linked["KUBERNETES_SERVICE_HOST"] == plain["KUBERNETES_SERVICE_HOST"] == "10.112.4.1"


def test_item_19_the_variables_of_the_api_come_from_a_config_map_before_what_the_tenant_gives() -> None:
    own = {"envFrom": [{"configMapRef": {"name": "mine"}}], "env": [{"name": "URL", "value": "$(KUBERNETES_SERVICE_HOST)"}]}
    pod = {"containers": [{"name": "main", "image": "a"} | own], "initContainers": [{"name": "first", "image": "a"}]}
    host = to_host(pod)
    sources = [each["configMapRef"]["name"] for each in main(host)["envFrom"]]
    assert sources == ["kubernetes-environment", samples.VIEW.host_name("ConfigMap", "team", "mine"), "devices-v1"]
    assert [each["configMapRef"]["name"] for each in host["spec"]["initContainers"][0]["envFrom"]] == [sources[0], sources[-1]]
    assert not [name for name in env_of(main(host)) if name.startswith("KUBERNETES_")]
    assert env_of(main(host))["DB_SERVICE_HOST"] == "10.112.4.30"


def test_item_19_a_service_of_the_tenant_does_not_stand_in_for_its_api() -> None:
    services = {"team": (ServiceEnv("kubernetes", "10.112.4.66", (ServicePort("https", 443), ServicePort("old", 80))),)}
    listed, mapped = (env_of(main(to_host(api_environment=name, services=services))) for name in ("", "kubernetes-environment"))
    assert listed["KUBERNETES_SERVICE_HOST"] == "10.112.4.1"
    assert "KUBERNETES_SERVICE_HOST" not in mapped
    assert listed["KUBERNETES_PORT_80_TCP_ADDR"] == mapped["KUBERNETES_PORT_80_TCP_ADDR"] == "10.112.4.66"


def test_item_20_the_platforms_variables_come_first_and_the_tenants_win() -> None:
    own = [{"name": "URL", "value": "$(DB_SERVICE_HOST)"}, {"name": "DB_SERVICE_PORT", "value": "1"}]
    container = main(to_host({"containers": [{"name": "main", "image": "a", "env": own}]}))
    names = [each["name"] for each in container["env"]]
    assert names.index("DB_SERVICE_HOST") < names.index("URL")
    assert names.count("DB_SERVICE_PORT") == 1
    assert env_of(container)["DB_SERVICE_PORT"] == "1"
    assert container == main(to_host({"containers": [{"name": "main", "image": "a", "env": own}]}))


def test_item_21_addresses_of_ip_version_6_are_bracketed_in_urls() -> None:
    env = env_of(main(to_host(api_address="fd00::1", api_environment="")))
    assert env["KUBERNETES_SERVICE_HOST"] == "fd00::1"
    assert env["KUBERNETES_PORT"] == "tcp://[fd00::1]:443"


def test_item_53_where_no_device_class_is_offered_claims_are_refused_with_a_reason() -> None:
    with pytest.raises(Untranslatable) as refused:
        to_host({"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
    assert refused.value.reason is Reason.NOT_SUPPORTED


def test_item_52_54_a_pod_names_the_claim_that_the_plane_made_of_its_template() -> None:
    entries = [{"name": "own", "resourceClaimName": "mine"}, {"name": "gpu", "resourceClaimTemplateName": "template"}]
    main_container = {"name": "main", "image": "a", "resources": {"claims": [{"name": "gpu", "request": "one"}]}}
    own = samples.pod({"resourceClaims": entries, "containers": [main_container]})
    view = samples.view({"device_classes": ["gpu.example.com"]})
    with pytest.raises(Untranslatable) as waits:
        KINDS["Pod"].to_host(own, view)
    assert waits.value.retriable
    own["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-0-gpu-x7k2p"}]}
    spec = KINDS["Pod"].to_host(own, view)["spec"]
    names = [view.host_name("ResourceClaim", "team", name) for name in ("mine", "web-0-gpu-x7k2p")]
    assert [each["resourceClaimName"] for each in spec["resourceClaims"]] == names
    assert "resourceClaimTemplateName" not in str(spec)
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpu", "request": "one"}]
