"""How a plane is reached from outside: by which names, and what the condition says where something is missing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.conditions import ConditionType, Reason, condition_of
from controller.decide import exposure, extras
from controller.decide.admit import admit, refuse
from controller.decide.case import Admitted
from controller.existing import Slot
from controller.plane.pki import leaves
from controller.plane.render import render
from controller.plane.spec import PlaneSpec
from controller.plane.ways import Exposure
from controller.settings import Settings, SettingsError, load
from tests.kit.statuses import Findings, compute
from tests.kit.tenantsamples import NOW, SLICE, case, material, plane_for, plane_spec, tenant, tenant_class

INSTALLED = Settings(exposure_domains=("k8s.example.org", "other.net"), exposure_proxy=1)
PUBLIC = Slot("Service", "bh-team-a", "plane-public")


def built(
    asked: dict[str, Any] | None = None, offer: dict[str, Any] | None = None, settings: Settings = INSTALLED, **more: Any
) -> PlaneSpec:
    made = admit(case(tenant(exposure=asked or {}), tenant_class(exposure=offer or {}), settings, **more))
    assert isinstance(made, Admitted), made
    return replace(made.plane, service_slice=SLICE)


def objects(spec: PlaneSpec) -> dict[tuple[str, str], Any]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in render(spec, material(spec)).everything()}


def exposed(spec: PlaneSpec, route: dict[str, Any] | None = None) -> tuple[str, str, str]:
    said = condition_of({"status": compute(tenant(), spec, Findings(route=route), NOW)}, ConditionType.EXPOSED)
    return str(said.get("status")), str(said.get("reason")), str(said.get("message"))


def refused(asked: dict[str, Any], offer: dict[str, Any] | None = None, settings: Settings = INSTALLED) -> str:
    refusal = refuse(case(tenant(exposure=asked), tenant_class(exposure=offer or {}), settings))
    assert refusal is not None
    assert refusal.reason is Reason.OUT_OF_BOUNDS
    return refusal.message


def test_without_a_domain_nothing_changes() -> None:
    spec = built(settings=Settings())
    assert spec.exposure == Exposure()
    assert spec.endpoint == "https://10.112.4.1:443"
    assert exposed(spec) == ("None", "None", "None")
    assert objects(spec).keys() == objects(plane_for(tenant(), tenant_class())).keys()
    assert leaves(spec)["pki-apiserver/server"].dns == leaves(plane_spec())["pki-apiserver/server"].dns


def test_where_there_is_a_domain_the_proxy_is_the_default() -> None:
    spec = built()
    assert spec.endpoint == "https://team-a.k8s.example.org:443"
    assert "team-a.k8s.example.org" in leaves(spec)["pki-apiserver/server"].dns
    route = objects(spec)["Service", "plane-proxy"]
    assert route["metadata"]["annotations"] == {
        "bulkhead.dev/proxy-hosts": "team-a.k8s.example.org",
        "bulkhead.dev/proxy-target": "10.112.4.1",
    }
    assert route["spec"]["clusterIP"] == "None"
    assert exposed(spec)[:2] == ("True", "Applied")


def test_a_proxy_that_no_name_leads_to_is_reached_by_its_address_under_the_tenants_name() -> None:
    spec = built(settings=replace(INSTALLED, exposure_proxy_address="192.0.2.7", exposure_proxy_port=30443))
    assert (spec.endpoint, spec.tls_server_name) == ("https://192.0.2.7:30443", "team-a.k8s.example.org")
    assert "192.0.2.7" in leaves(spec)["pki-apiserver/server"].addresses
    reported = compute(tenant(), spec, Findings(), NOW)
    assert reported["endpoint"] == "https://192.0.2.7:30443"
    assert reported["tlsServerName"] == "team-a.k8s.example.org"
    assert reported["hostnames"] == ["team-a.k8s.example.org"]


def test_new_names_roll_no_pod_of_the_plane() -> None:
    with_names, without = built(), built({"type": "None"})
    for name in (("StatefulSet", "plane"), ("Deployment", "syncer"), ("Deployment", "dns")):
        assert objects(with_names)[name] == objects(without)[name]
    plane = ("Service", "plane")
    assert objects(with_names)[plane] == objects(without)[plane]


def test_the_proxy_comes_in_only_where_it_exposes_the_plane() -> None:
    def callers(spec: PlaneSpec) -> str:
        return str(objects(spec)["NetworkPolicy", "allow-plane"]["spec"]["ingress"])

    assert "'proxy'" in callers(built())
    assert "'proxy'" not in callers(built({"type": "None"}))


def test_a_class_that_says_cluster_ip_exposes_nothing() -> None:
    assert built(offer={"type": "ClusterIP"}).exposure.type == "None"


def test_a_load_balancer_without_an_address_is_waited_for() -> None:
    offer = {"type": "LoadBalancer"}
    spec = built(offer=offer)
    assert spec.endpoint == "https://10.112.4.1:443"
    assert exposed(spec)[:2] == ("False", "WaitingForAddress")
    service = objects(spec)["Service", "plane-public"]
    assert (service["spec"]["type"], service["spec"]["clusterIP"]) == ("LoadBalancer", "10.112.4.12")

    given = {"status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.4"}, {"hostname": "lb.example.net"}]}}}
    spec = built(offer=offer, existing={PUBLIC: given})
    assert spec.endpoint == "https://198.51.100.4:443"
    server = leaves(spec)["pki-apiserver/server"]
    assert "198.51.100.4" in server.addresses
    assert {"lb.example.net", "team-a.k8s.example.org"} <= set(server.dns)
    assert exposed(spec)[:2] == ("True", "Applied")


@pytest.mark.parametrize(
    "entry",
    [
        *({}, "x", None, {"ip": ["1.2.3.4"]}),
        *({"ip": each} for each in ("1.2.3.4\nX", "fe80::1%eth0", "127.0.0.1", "::1", "::", "224.0.0.1", "ff02::1")),
        *(
            {"hostname": each}
            for each in ("a b", "*", "", "lb.example.net\n", "пример.example", "a..b", "-a.b", "a" * 64, "A.b")
        ),
        {"hostname": "a." * 127 + "example"},
    ],
)
def test_a_name_that_no_certificate_can_contain_is_not_an_address(entry: Any) -> None:
    assert exposure.addresses_of({"status": {"loadBalancer": {"ingress": [entry]}}}) == ()


def test_every_address_and_name_of_a_load_balancer_stands_in_the_certificate() -> None:
    """Of both families, of entries with a name alone as some clouds give, and of some with both."""
    listed = [{"ip": "2001:DB8::7"}, {"hostname": "lb-1.elb.example.net"}, {"ip": "198.51.100.4", "hostname": "lb.example.net"}]
    given = {"status": {"loadBalancer": {"ingress": listed}}}
    spec = built(offer={"type": "LoadBalancer"}, existing={PUBLIC: given})
    assert spec.endpoint == "https://[2001:DB8::7]:443"
    server = leaves(spec)["pki-apiserver/server"]
    assert {"2001:db8::7", "198.51.100.4"} <= set(server.addresses)
    assert {"lb-1.elb.example.net", "lb.example.net"} <= set(server.dns)
    given["status"]["loadBalancer"]["ingress"] = listed[1:2]
    named = built(offer={"type": "LoadBalancer"}, existing={PUBLIC: given})
    assert named.endpoint == "https://lb-1.elb.example.net:443"


def test_a_tenant_that_waits_for_an_address_reads_where_the_load_balancer_says_why() -> None:
    settings = replace(INSTALLED, exposure_load_balancer_class="example.net/lb")
    message = exposed(built(offer={"type": "LoadBalancer"}, settings=settings))[2]
    assert "a load balancer controller of class example.net/lb on the host" in message
    assert "kubectl -n bh-team-a describe service plane-public" in message


def test_a_load_balancer_says_what_the_installation_says() -> None:
    settings = replace(
        INSTALLED,
        exposure_load_balancer_annotations='{"lb.example.net/scheme": "internal"}',
        exposure_load_balancer_class="example.net/lb",
        exposure_load_balancer_sources=("198.51.100.0/24",),
    )
    made = objects(built(offer={"type": "LoadBalancer"}, settings=settings))
    service = made["Service", "plane-public"]
    assert service["metadata"]["annotations"] == {"lb.example.net/scheme": "internal"}
    assert service["spec"]["loadBalancerClass"] == "example.net/lb"
    assert service["spec"]["loadBalancerSourceRanges"] == ["198.51.100.0/24"]
    assert "198.51.100.0/24" in str(made["NetworkPolicy", "allow-plane"]["spec"]["ingress"])


def test_a_gateway_gets_a_route_where_the_api_is_served() -> None:
    settings = replace(INSTALLED, exposure_gateway="infra/public/tls")
    offer = {"type": "Gateway"}
    unserved = built(offer=offer, settings=settings)
    assert exposed(unserved)[:2] == ("False", "NotSupported")
    assert ("TLSRoute", "plane") not in objects(unserved)

    spec = built(offer=offer, settings=settings, route_version="v1alpha2")
    route = objects(spec)["TLSRoute", "plane"]
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1alpha2"
    assert route["spec"]["hostnames"] == ["team-a.k8s.example.org"]
    assert route["spec"]["parentRefs"] == [
        {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra", "name": "public", "sectionName": "tls"}
    ]
    assert exposed(spec)[:2] == ("False", "RouteRefused")
    taken = {"parentRef": route["spec"]["parentRefs"][0], "conditions": [{"type": "Accepted", "status": "True"}]}
    assert exposed(spec, {"status": {"parents": [taken]}})[:2] == ("True", "Applied")


@pytest.mark.parametrize(
    ("settings", "offer", "said"),
    [
        (Settings(exposure_proxy=1), {"type": "Proxy"}, "there is no domain"),
        (INSTALLED, {"type": "Proxy", "domain": "evil.example"}, "evil.example is not one of"),
        (replace(INSTALLED, exposure_proxy=0), {"type": "Proxy"}, "there is no proxy"),
        (INSTALLED, {"type": "Gateway"}, "name a Gateway"),
    ],
)
def test_what_is_missing_is_named_and_the_plane_is_built_all_the_same(
    settings: Settings, offer: dict[str, Any], said: str
) -> None:
    spec = built(offer=offer, settings=settings)
    truth, reason, message = exposed(spec)
    assert (truth, reason) == ("False", "DomainMissing")
    assert said in message
    assert spec.endpoint == "https://10.112.4.1:443"
    assert not {("Service", "plane-proxy"), ("Service", "plane-public"), ("TLSRoute", "plane")} & objects(spec).keys()


def test_a_type_that_the_class_does_not_offer_is_refused() -> None:
    assert "LoadBalancer is not one that the class allows: Proxy, None" in refused({"type": "LoadBalancer"})
    assert built({"type": "LoadBalancer"}, {"allowedTypes": ["LoadBalancer"]}).exposure.type == "LoadBalancer"
    assert built({"type": "None"}, {"type": "LoadBalancer"}).exposure.type == "None"


@pytest.mark.parametrize(
    "name",
    [
        "team-b.k8s.example.org",  # another tenant's
        "x.team-b.k8s.example.org",  # below another tenant's
        "k8s.example.org",  # all tenants may use it
        "xteam-a.k8s.example.org",
        "team-a.k8s.example.org.evil.net",
        "team-a.other.net",  # a domain that the class does not give for this
        "example.com",
    ],
)
def test_a_name_that_is_not_the_tenants_is_refused(name: str) -> None:
    assert f"{name} is not one of this tenant's names" in refused(
        {"hostnames": [name]}, {"hostnameDomains": ["k8s.example.org"]}
    )


def test_names_of_its_own_stand_in_the_certificate_and_at_the_proxy() -> None:
    names = ["api.team-a.other.net", "team-a.other.net"]
    spec = built({"hostnames": names}, {"hostnameDomains": ["other.net"]})
    assert set(names) <= set(leaves(spec)["pki-apiserver/server"].dns)
    assert objects(spec)["Service", "plane-proxy"]["metadata"]["annotations"]["bulkhead.dev/proxy-hosts"].split(",") == [
        "team-a.k8s.example.org",
        *names,
    ]


def test_a_tenant_that_runs_keeps_the_names_that_are_its_own() -> None:
    asked = tenant(exposure={"hostnames": ["team-b.other.net", "team-a.other.net"]})
    made = admit(case(asked, tenant_class(exposure={"hostnameDomains": ["other.net"]}), INSTALLED, runs=True))
    assert isinstance(made, Admitted)
    assert made.held is not None
    assert made.plane.exposure.hostnames == ("team-a.k8s.example.org", "team-a.other.net")


def test_the_installations_domains_lie_apart() -> None:
    with pytest.raises(SettingsError, match=r"a\.x\.org must not be a subdomain of another"):
        load({"BULKHEAD_EXPOSURE_DOMAINS": "x.org,a.x.org"})
    with pytest.raises(SettingsError, match="ANNOTATIONS: must be a JSON object"):
        load({"BULKHEAD_EXPOSURE_LOAD_BALANCER_ANNOTATIONS": "[1]"})


@pytest.mark.parametrize(
    "key", ["a b", "x.org/", "/x", "-a", "x.org/y/z", "a" * 64, f"{'x' * 254}/y", "ключ", "bulkhead.dev/tenant", ""]
)
def test_an_annotation_that_no_api_server_takes_stops_the_controller_at_its_start(key: str) -> None:
    variable = "BULKHEAD_EXPOSURE_LOAD_BALANCER_ANNOTATIONS"
    with pytest.raises(SettingsError, match=f"{variable}: .* (must be such as|is reserved for Bulkhead)"):
        load({variable: json.dumps({key: "x"})})
    with pytest.raises(SettingsError, match="must be at most 65536 bytes together"):
        load({variable: json.dumps({"example.com/x": "x" * 65536})})
    assert load({variable: json.dumps({"example.com/Scheme_1": "internal", "plain": ""})}).load_balancer_annotations
    with pytest.raises(SettingsError, match=r"LOAD_BALANCER_CLASS: must be a name such as example\.com/internal, not 'a b'"):
        load({"BULKHEAD_EXPOSURE_LOAD_BALANCER_CLASS": "a b"})


WORDS = {
    'Service "plane-public" is invalid: spec.clusterIPs: Invalid value: ["10.112.4.12"]: failed to allocate IP 10.112.4.12: '
    "provided IP is already allocated": "kubectl get ipaddress 10.112.4.12",
    'Service "plane-public" is invalid: metadata.annotations: Invalid value: "a b": name part must': "fix the annot",
    'Service "plane-public" is invalid: spec.loadBalancerClass: Invalid value: "b": may not change once set': "delete Service",
    'admission webhook "no.example.com" denied the request: no': "a policy or webhook of the host",
    "the server could not find the requested resource": "choose another type",
    'User "x" cannot patch resource "services"': "helm upgrade",
    "something else": "fix what the host reports",
}


@pytest.mark.parametrize("words", WORDS)
def test_a_way_in_that_the_host_refuses_is_told_with_its_words_and_what_to_do(words: str) -> None:
    spec = built(offer={"type": "LoadBalancer"})
    refused = extras.Refused(PUBLIC, Reason.HOST_REFUSED, words)
    made = compute(tenant(), spec, Findings(refused=(refused,)), NOW)
    said = condition_of({"status": made}, ConditionType.EXPOSED)
    assert (said["status"], said["reason"]) == ("False", "HostRefused")
    assert words in said["message"]
    assert WORDS[words] in said["message"].partition("; next: ")[2]


def test_a_way_in_that_does_not_go_is_told_of_a_tenant_that_asks_for_none() -> None:
    refused = extras.Refused(PUBLIC, Reason.HOST_REFUSED, "no", deleting=True)
    made = compute(tenant(), built({"type": "None"}), Findings(refused=(refused,)), NOW)
    assert "should be deleted" in condition_of({"status": made}, ConditionType.EXPOSED)["message"]


def test_a_reconcile_that_did_not_come_to_the_way_in_leaves_what_was_said_of_it() -> None:
    refused = extras.Refused(PUBLIC, Reason.HOST_REFUSED, "no")
    spec = built(offer={"type": "LoadBalancer"})
    before = compute(tenant(), spec, Findings(refused=(refused,)), NOW)
    after = compute(tenant() | {"status": before}, spec, Findings(unseen=(ConditionType.EXPOSED,)), NOW)
    assert condition_of({"status": after}, ConditionType.EXPOSED) == condition_of({"status": before}, ConditionType.EXPOSED)
    # A long answer of the host's takes no room from what to do.
    long = extras.Refused(PUBLIC, Reason.HOST_REFUSED, "x" * 100_000)
    told = compute(tenant(), spec, Findings(refused=(long,)), NOW)
    assert "next: fix" in condition_of({"status": told}, ConditionType.EXPOSED)["message"]
