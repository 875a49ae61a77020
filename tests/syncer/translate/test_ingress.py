"""Ingresses: what a tenant may publish, what it may not and in which words, and that no two tenants ever share a host."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.api.names import InvalidTenantNameError, check_tenant_name
from bulkhead.api.objects import Obj
from bulkhead.api.tenantclass.networking import ClassIngress
from syncer.translate import TenantView, Untranslatable, references
from syncer.translate.kinds import classes, ingress
from tests.kit import translationsamples as samples

OFFER = {"ingress_classes": ["public"], "ingress_domains": ["apps.example.org", "gpu.example.org"]}
VIEW = samples.view(OFFER)
OWN = "red.apps.example.org"
BACKEND: Obj = {"service": {"name": "web", "port": {"number": 80}}}


def path(text: Any = "/", kind: Any = "Prefix", backend: Any = None) -> Obj:
    return {"path": text, "pathType": kind, "backend": backend or BACKEND}


def rule(host: Any = OWN, *paths: Obj) -> Obj:
    return {"host": host, "http": {"paths": list(paths) or [path()]}}


def virtual(spec: Obj, **meta: Any) -> Obj:
    who = {"name": "web", "namespace": "team", "uid": "0b8c7a52-0000-4000-8000-000000000084"}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": who | meta, "spec": spec}


def asked(**spec: Any) -> Obj:
    return virtual({"rules": [rule()]} | spec)


def translate(obj: Obj, view: TenantView = VIEW) -> Obj:
    before = copy.deepcopy(obj)
    found = ingress.to_host(obj, view)
    assert obj == before
    return found


ACCEPTED: dict[str, Obj] = {
    "the tenant's name in a domain": asked(),
    "a name below": asked(rules=[rule("shop.red.apps.example.org")]),
    "a name far below": asked(rules=[rule("a.b.c.red.gpu.example.org")]),
    "every name below": asked(rules=[rule("*.red.apps.example.org")]),
    "its class by name": asked(ingressClassName="public"),
    "a path": asked(rules=[rule(OWN, path("/a-b/c_d/v1.2/~x/"), path("/", "Exact"), path("/...", "Prefix"))]),
    "no path": asked(rules=[rule(OWN, {"pathType": "ImplementationSpecific", "backend": BACKEND})]),
    "a port by name": asked(rules=[rule(OWN, path(backend={"service": {"name": "web", "port": {"name": "http"}}}))]),
    "certificates": asked(tls=[{"hosts": [OWN, "*.red.gpu.example.org"], "secretName": "a.b"}, {"hosts": [OWN]}]),
    "many hosts": asked(tls=[{"hosts": [OWN] * 100}] * 2),
    "fields that ask for nothing": asked(defaultBackend=None, tls=[]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_item_84_what_is_the_tenants_own_is_published(name: str) -> None:
    host = translate(ACCEPTED[name])
    assert host["spec"]["ingressClassName"] == "public"
    assert set(host["spec"]) <= {"ingressClassName", "rules", "tls"}
    assert ingress.may_stay(host, VIEW)


MANY = [path(f"/{number}") for number in range(101)]
HOSTS = {
    "no host": "",
    "null as host": None,
    "everything": "*",
    "the domain": "apps.example.org",
    "every tenant": "*.apps.example.org",
    "another tenant": "blue.apps.example.org",
    "below another tenant": "red.blue.apps.example.org",
    "every name of another": "*.blue.apps.example.org",
    "a name that ends alike": "xred.apps.example.org",
    "a domain that ends alike": "red.xapps.example.org",
    "the own name above a stranger": "red.apps.example.org.evil.org",
    "a domain not offered": "red.example.org",
    "an address": "10.0.0.1",
    "a star inside": "a.*.red.apps.example.org",
    "half a star": "a*.red.apps.example.org",
    "two stars": "*.*.red.apps.example.org",
    "a dot at the end": "red.apps.example.org.",
    "a dot at the front": ".red.apps.example.org",
    "capitals": "RED.apps.example.org",
    "an underscore": "a_b.red.apps.example.org",
    "a port": "red.apps.example.org:80",
    "a line": "red.apps.example.org\n",
    "a line before": "evil.org;\nred.apps.example.org",
    "a statement": "a;}.red.apps.example.org",
    "a template": "`a`.red.apps.example.org",
    "a letter that looks alike": "r\u0435d.apps.example.org",
    "a label too long": f"{'a' * 64}.red.apps.example.org",
    "a name too long": f"{'a.' * 120}red.apps.example.org",
}
PATHS = [
    "", "x", "a/b", "/a b", "/a\n", "/a\r\nb", "/a\tb", '/a"', "/a'", "/a;", "/a{", "/a}", "/$a", "/a\\b", "/a#b", "/a?b",
    "/%0a", "/a(b)", "/a|b", "/^a", "/a*", "/a[0]", "/`a`", "/<a>", "/\x00", "/\u2028", "/é", "//", "/a//b", "/./a", "/a/..",
    "/../b", "/.",
]  # fmt: skip
REFUSED: dict[str, tuple[Obj, str, str]] = {
    "no rules": (asked(rules=[]), "Malformed", "spec.rules"),
    "no spec": (virtual({}), "Malformed", "spec.rules"),
    "a default backend": (asked(defaultBackend=BACKEND), "NotAllowed", "spec.defaultBackend"),
    "an empty default backend": (asked(defaultBackend={}), "NotAllowed", "spec.defaultBackend"),
    "a rule without paths": (asked(rules=[{"host": OWN}]), "Malformed", "spec.rules[0].http"),
    "a class not offered": (asked(ingressClassName="private"), "NotAllowed", "spec.ingressClassName"),
    "a class that is no text": (asked(ingressClassName=["public"]), "Malformed", "spec.ingressClassName"),
    "the class as an annotation": (
        virtual({"rules": [rule()]}, annotations={"kubernetes.io/ingress.class": "public"}),
        "NotSupported",
        "metadata.annotations.kubernetes.io/ingress.class",
    ),
    "a resource as backend": (
        asked(rules=[rule(OWN, path(backend={"resource": {"kind": "Secret", "name": "x"}}))]),
        "NotAllowed",
        "spec.rules[0].http.paths[0].backend.resource",
    ),
    "no backend": (
        asked(rules=[rule(OWN, {"path": "/", "pathType": "Exact"})]),
        "Malformed",
        "spec.rules[0].http.paths[0].backend.service.name",
    ),
    "a backend elsewhere": (
        asked(rules=[rule(OWN, path(backend={"service": {"name": "web.other", "namespace": "x", "port": {"number": 1}}}))]),
        "UnknownField",
        "spec.rules[0].http.paths[0].backend.service.namespace",
    ),
    "a backend that is no name": (
        asked(rules=[rule(OWN, path(backend={"service": {"name": "../x", "port": {"number": 1}}}))]),
        "Malformed",
        "spec.rules[0].http.paths[0].backend.service.name",
    ),
    "two ports": (
        asked(rules=[rule(OWN, path(backend={"service": {"name": "web", "port": {"number": 1, "name": "a"}}}))]),
        "Malformed",
        "spec.rules[0].http.paths[0].backend.service.port",
    ),
    "no port": (
        asked(rules=[rule(OWN, path(backend={"service": {"name": "web"}}))]),
        "Malformed",
        "spec.rules[0].http.paths[0].backend.service.port",
    ),
    "a port with a statement": (
        asked(rules=[rule(OWN, path(backend={"service": {"name": "web", "port": {"name": "a;b"}}}))]),
        "Malformed",
        "spec.rules[0].http.paths[0].backend.service.port.name",
    ),
    "no kind of path": (asked(rules=[rule(OWN, path("/", ""))]), "Malformed", "spec.rules[0].http.paths[0].pathType"),
    "a kind of path unknown": (
        asked(rules=[rule(OWN, path("/", "Regex"))]),
        "Malformed",
        "spec.rules[0].http.paths[0].pathType",
    ),
    "a path too long": (asked(rules=[rule(OWN, path("/" + "a" * 600))]), "TooLarge", "spec.rules[0].http.paths[0].path"),
    "too many rules": (asked(rules=[rule()] * 51), "TooLarge", "spec.rules"),
    "too many paths": (asked(rules=[rule(OWN, *MANY), rule(OWN, *MANY)]), "TooLarge", "spec.rules"),
    "too many paths in one": (asked(rules=[rule(OWN, *MANY, *MANY)]), "TooLarge", "spec.rules[0].http.paths"),
    "too many certificates": (asked(tls=[{"hosts": [OWN]}] * 51), "TooLarge", "spec.tls"),
    "too many hosts of all certificates": (asked(tls=[{"hosts": [OWN] * 67}] * 3), "TooLarge", "spec.tls"),
    "too many hosts of a certificate": (asked(tls=[{"hosts": [OWN] * 101}]), "TooLarge", "spec.tls[0].hosts"),
    "a certificate for every host": (asked(tls=[{"secretName": "x"}]), "NotAllowed", "spec.tls[0].hosts"),
    "a certificate elsewhere": (asked(tls=[{"hosts": [OWN], "secretName": "x/y"}]), "Malformed", "spec.tls[0].secretName"),
    "a field unknown": (asked(snippet="x"), "UnknownField", "spec.snippet"),
    **{
        f"path {text!r}": (asked(rules=[rule(OWN, path(text))]), "NotAllowed", "spec.rules[0].http.paths[0].path")
        for text in PATHS
    },
    **{
        f"path {text!r} as the controller likes": (
            asked(rules=[rule(OWN, path(text, "ImplementationSpecific"))]),
            "NotAllowed",
            "spec.rules[0].http.paths[0].path",
        )
        for text in PATHS
        if text
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_item_84_whatever_else_is_refused_by_name(name: str) -> None:
    obj, reason, field = REFUSED[name]
    with pytest.raises(Untranslatable) as refused:
        translate(obj)
    assert (str(refused.value.reason), refused.value.field) == (reason, field)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("place", ["rules", "tls"])
def test_item_84_hosts_of_others_are_refused_and_the_own_ones_named(name: str, place: str) -> None:
    host = HOSTS[name]
    spec = {"rules": [rule(), rule(host)]} if place == "rules" else {"tls": [{"hosts": [OWN, host]}]}
    with pytest.raises(Untranslatable) as refused:
        translate(asked(**spec))
    assert refused.value.field.startswith(f"spec.{place}")
    if not (host and len(host) > 253):
        assert "red.apps.example.org, red.gpu.example.org" in refused.value.message or host is None


def test_item_84_without_an_offer_ingresses_stay_in_the_plane() -> None:
    for without in ("ingress_classes", "ingress_domains"):
        with pytest.raises(Untranslatable, match="offers no Ingress"):
            translate(asked(), samples.view(OFFER | {without: []}))


def test_item_84_of_several_classes_one_has_to_be_named() -> None:
    view = samples.view(OFFER | {"ingress_classes": ["public", "private"]})
    with pytest.raises(Untranslatable, match="a class has to be named; classes offered: private, public"):
        translate(asked(), view)
    assert translate(asked(ingressClassName="private"), view)["spec"]["ingressClassName"] == "private"


def test_item_84_a_class_is_shown_without_its_controller() -> None:
    parameters = {"kind": "IngressParameters", "name": "of-the-host"}
    spec = {"controller": "k8s.io/ingress-nginx", "parameters": parameters}
    notes = {"ingressclass.kubernetes.io/is-default-class": "true"}
    shown = classes.ingress_class({"metadata": {"name": "public", "annotations": notes}, "spec": spec})
    assert shown["spec"] == {"controller": "bulkhead.dev/host"}
    assert "annotations" not in shown["metadata"]
    offer = classes.OFFERS["IngressClass"]
    assert classes.steps(offer, [shown], [shown]) == []
    changed = shown | {"spec": shown["spec"] | {"parameters": parameters}}
    assert [step.verb for step in classes.steps(offer, [shown], [changed])] == ["replace"]


def test_item_84_no_annotation_passes_and_the_tenant_is_told() -> None:
    notes = {
        "nginx.ingress.kubernetes.io/server-snippet": "return 200;",
        "haproxy.org/backend-config-snippet": "x",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kubectl.kubernetes.io/default-container": "a;b",
    }
    obj = virtual({"rules": [rule()]}, annotations=notes)
    host = translate(obj)
    assert all(key.startswith("bulkhead.dev/") for key in host["metadata"]["annotations"])
    (told,) = ingress.remarks(obj, VIEW)
    assert "server-snippet" in told
    assert "kubectl" not in told
    assert ingress.remarks(asked(), VIEW) == []


def test_item_84_a_copy_stays_only_while_the_class_offers_what_it_claims() -> None:
    host = translate(asked(tls=[{"hosts": ["a.red.gpu.example.org"]}]))
    assert ingress.may_stay(host, VIEW)
    for narrower in (
        {"ingress_classes": []},
        {"ingress_classes": ["private"]},
        {"ingress_domains": []},
        {"ingress_domains": ["apps.example.org"]},
        {"ingress_domains": ["gpu.example.org"]},
    ):
        assert not ingress.may_stay(host, samples.view(OFFER | narrower))
    for broken in ({}, {"spec": None}, {"spec": {"ingressClassName": "public", "rules": [{}]}}):
        assert not ingress.may_stay(broken, VIEW)


def test_item_33_84_certificates_are_referred_to() -> None:
    obj = asked(tls=[{"hosts": [OWN], "secretName": "a"}, {"secretName": "b"}, {"secretName": 7}, {}, None])
    assert {(each.kind, each.namespace, each.name) for each in references.of_ingress(obj)} == {
        ("Secret", "team", "a"),
        ("Secret", "team", "b"),
    }
    assert references.of_ingress({}) == references.of_ingress({"spec": {"tls": 1}}) == frozenset()


def test_item_84_only_addresses_come_up() -> None:
    given = [
        {"ip": "203.0.113.7", "ports": [{"port": 443, "protocol": "TCP", "error": "Host"}, {"port": 0}, {"port": True}, 7]},
        {"hostname": "lb.example.org", "ip": "nonsense", "ipMode": "VIP"},
        {"ip": "fe80::1%eth0"},
        {"hostname": "*.example.org"},
        {"ports": [{"port": 80, "protocol": "TCP"}]},
        {"hostname": "a\nb"},
        7,
    ]
    host = {"status": {"loadBalancer": {"ingress": given}, "conditions": [{"type": "x"}]}}
    status = ingress.status_to_virtual(host, asked(), VIEW)
    assert status == {
        "loadBalancer": {
            "ingress": [{"ip": "203.0.113.7", "ports": [{"port": 443, "protocol": "TCP"}]}, {"hostname": "lb.example.org"}]
        }
    }
    many = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}] * 99}}}
    assert len(ingress.status_to_virtual(many, asked(), VIEW)["loadBalancer"]["ingress"]) == 16
    for empty in ({}, {"status": None}, {"status": {"loadBalancer": {"ingress": "x"}}}):
        assert ingress.status_to_virtual(empty, asked(), VIEW) == {"loadBalancer": {}}


# -- two tenants

LABELS = st.sampled_from(["a", "b", "c", "ab", "a-b", "org", "x"])
NAMES = st.sampled_from(["a", "b", "c", "ab", "a-b", "org", "x"])
DOMAINS = st.lists(st.lists(LABELS, min_size=1, max_size=4).map(".".join), min_size=1, max_size=4)


def offered(domains: list[str]) -> list[str]:
    """The domains if a TenantClass may have them, else those of them that it may."""
    found: list[str] = []
    for each in domains:
        try:
            ClassIngress(classes=["public"], domains=[*found, each])
        except ValueError:
            continue
        found.append(each)
    return found


def accepts(tenant: str, domains: list[str], host: str) -> bool:
    return ingress.is_own(host, TenantView(tenant=tenant, tenant_uid=tenant, ingress_domains=tuple(domains)))


def some_match(one: str, other: str) -> bool:
    """Whether there is a name that both hosts, or the wildcards that they are, stand for."""
    if one.startswith("*.") and other.startswith("*."):
        return one[1:].endswith(other[1:]) or other[1:].endswith(one[1:])
    if one.startswith("*."):
        return other.endswith(one[1:])
    return one == other or (other.startswith("*.") and one.endswith(other[1:]))


@settings(max_examples=600, deadline=None)
@given(DOMAINS, NAMES, NAMES, st.data())
def test_item_84_no_two_tenants_can_claim_one_host(domains: list[str], one: str, other: str, data: st.DataObject) -> None:
    allowed = offered(domains)
    below = st.sampled_from(["", "*.", "a.", "b.", "*.a.", "b.a.", "x.b."])

    def host(tenant: str) -> str:
        return f"{data.draw(below)}{tenant}.{data.draw(st.sampled_from(allowed))}"

    mine, theirs = host(one), host(other)
    assert accepts(one, allowed, mine)
    assert accepts(other, allowed, theirs)
    if one != other:
        assert not accepts(other, allowed, mine)
        assert not accepts(one, allowed, theirs)
        assert not some_match(mine, theirs)


@settings(max_examples=300, deadline=None)
@given(DOMAINS, st.lists(st.sampled_from(["*", "a", "b", "ab", "org", "x", "", "-"]), max_size=7).map(".".join))
def test_item_84_any_host_has_at_most_one_tenant(domains: list[str], host: str) -> None:
    allowed = offered(domains)
    assert len([tenant for tenant in ("a", "b", "c", "ab", "a-b", "org", "x") if accepts(tenant, allowed, host)]) <= 1


def test_item_84_nested_domains_would_break_it_and_names_have_no_dots() -> None:
    nested = ["x.org", "a.x.org"]
    assert accepts("a", nested, "b.a.x.org")
    assert accepts("b", nested, "b.a.x.org")
    assert offered(nested) == ["x.org"]
    with pytest.raises(InvalidTenantNameError):
        check_tenant_name("b.a")
