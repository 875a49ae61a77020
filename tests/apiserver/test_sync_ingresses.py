"""Ingresses between two real API servers, with the test as the host's ingress controller."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import INGRESS_CLASSES, INGRESSES, SECRETS
from syncer import metrics
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.syncersettings import settings_for

CLASS = "public"
DOMAIN = "apps.example.org"
OFFER: dict[str, Any] = {"allowedIngressClasses": [CLASS], "ingressDomains": [DOMAIN]}
PAIR = {"tls.crt": "Y2VydA==", "tls.key": "a2V5"}


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    parameters = {"apiGroup": "example.org", "kind": "Parameters", "name": "of-the-host"}
    spec = {"controller": "example.org/controller", "parameters": parameters}
    with contextlib.suppress(AlreadyExists):
        await host_client.create(INGRESS_CLASSES, {"metadata": {"name": CLASS}, "spec": spec})
    async with SyncerBed.open(host_client, plane_client, **OFFER) as opened:
        yield opened


def rule(host: str, path: str = "/", service: str = "web") -> Obj:
    backend = {"service": {"name": service, "port": {"name": "http"}}}
    return {"host": host, "http": {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}}


def own(bed: SyncerBed, prefix: str = "") -> str:
    return f"{prefix}{bed.tenant}.{DOMAIN}"


async def publish(bed: SyncerBed, name: str, *rules: Obj, notes: dict[str, str] | None = None, **spec: Any) -> Obj:
    body = {"metadata": {"name": name, "annotations": notes}, "spec": {"rules": list(rules)} | spec}
    return await bed.plane.create(INGRESSES, body, bed.space)


async def change(bed: SyncerBed, name: str, **spec: Any) -> None:
    await bed.plane.patch(INGRESSES, name, {"spec": spec}, bed.space)


async def secret(bed: SyncerBed, name: str) -> None:
    body = {"metadata": {"name": name}, "type": "kubernetes.io/tls", "data": PAIR}
    await bed.plane.create(SECRETS, body, bed.space)


async def shown_class(bed: SyncerBed) -> Obj | None:
    with contextlib.suppress(NotFound):
        return await bed.plane.get(INGRESS_CLASSES, CLASS)
    return None


async def shows(bed: SyncerBed, *points: Obj, name: str = "shop") -> None:
    """Wait until the addresses of an Ingress in the plane are these."""

    async def up() -> bool:
        found = await bed.plane.get(INGRESSES, name, bed.space)
        return found["status"]["loadBalancer"].get("ingress", []) == list(points)

    await until(up, f"{len(points)} addresses in the plane")


async def served(bed: SyncerBed, host: Obj, *points: Obj) -> None:
    """Give the copy of Ingress "shop" addresses, and wait until the plane shows them."""
    status = {"loadBalancer": {"ingress": list(points)}}
    await bed.host.patch(INGRESSES, host["metadata"]["name"], {"status": status}, bed.work, subresource="status")
    await shows(bed, *points)


async def test_item_84_an_ingress_is_published_and_its_address_is_shown(bed: SyncerBed) -> None:
    shown: Obj = await until(lambda: shown_class(bed), "the class in the plane")
    assert shown["spec"] == {"controller": "bulkhead.dev/host"}
    notes = {"nginx.ingress.kubernetes.io/configuration-snippet": "load_module x;"}
    await publish(bed, "shop", rule(own(bed)), rule(own(bed, "*.")), notes=notes, ingressClassName=CLASS)
    host = await bed.copied(INGRESSES, "shop")
    assert host["spec"]["ingressClassName"] == CLASS
    assert [each["host"] for each in host["spec"]["rules"]] == [own(bed), own(bed, "*.")]
    service = host["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert service == {"name": bed.host_name("Service", "web"), "port": {"name": "http"}}
    assert all(key.startswith("bulkhead.dev/") for key in host["metadata"]["annotations"])
    await bed.event("shop", "metadata.annotations", "configuration-snippet")

    await served(bed, host, {"ip": "203.0.113.7", "ports": [{"port": 443, "protocol": "TCP"}]}, {"hostname": "lb.example.org"})
    await served(bed, host, {"ip": "203.0.113.8"})
    await served(bed, host)


async def test_item_84_a_change_is_followed_and_what_is_refused_changes_nothing(bed: SyncerBed) -> None:
    await publish(bed, "shop", rule(own(bed)))
    await bed.copied(INGRESSES, "shop")
    await change(bed, "shop", rules=[rule(own(bed, "shop."), "/v2", "api")])

    async def followed() -> bool:
        rules = ((await bed.copy(INGRESSES, "shop")) or {})["spec"]["rules"]
        path = rules[0]["http"]["paths"][0]
        service = path["backend"]["service"]["name"]
        return (len(rules), rules[0]["host"], path["path"], service) == (
            1, own(bed, "shop."), "/v2", bed.host_name("Service", "api"),
        )  # fmt: skip

    await until(followed, "the change on the host")
    before = (await bed.copy(INGRESSES, "shop") or {})["spec"]
    await change(bed, "shop", rules=[rule(f"other.{DOMAIN}")])
    event = await bed.event("shop", "spec.rules[0].host", f"other.{DOMAIN}", own(bed))
    assert event["reason"] == "NotAllowed"
    assert (await bed.copy(INGRESSES, "shop") or {})["spec"] == before


# By name: what is asked for, and the field that the refusal names.
GRABS: Final[dict[str, tuple[Obj, str]]] = {
    "anothers-host": ({"rules": [rule("blue.apps.example.org")]}, "spec.rules[0].host"),
    "every-host": ({"rules": [rule("*.apps.example.org")]}, "spec.rules[0].host"),
    "no-host": ({"rules": [{"http": rule("")["http"]}]}, "spec.rules[0].host"),
    "default": ({"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}, "spec.defaultBackend"),
    "class": ({"rules": [rule("OWN")], "ingressClassName": "private"}, "spec.ingressClassName"),
    "statement": ({"rules": [rule("OWN", "/a;}$x")]}, "spec.rules[0].http.paths[0].path"),
    "certificate-for-every-host": ({"rules": [rule("OWN")], "tls": [{"secretName": "certificate"}]}, "spec.tls[0].hosts"),
}


async def test_item_84_what_is_not_the_tenants_is_refused_with_an_event(bed: SyncerBed) -> None:
    for name, (spec, _) in GRABS.items():
        rules = [rule | {"host": own(bed)} if rule.get("host") == "OWN" else rule for rule in spec.get("rules", [])]
        body = spec | ({"rules": rules} if rules else {})
        await bed.plane.create(INGRESSES, {"metadata": {"name": name}, "spec": body}, bed.space)
    for name, (_, field) in GRABS.items():
        event = await bed.event(name, field)
        assert (event["reason"], event["involvedObject"]["kind"]) == ("NotAllowed", "Ingress"), name
        assert await bed.copy(INGRESSES, name) is None, name


async def test_item_33_84_a_certificate_comes_with_the_first_ingress_and_goes_with_the_last(bed: SyncerBed) -> None:
    await secret(bed, "certificate")
    await secret(bed, "unused")
    tls = [{"hosts": [own(bed)], "secretName": "certificate"}]
    await publish(bed, "one", rule(own(bed)), tls=tls)
    host = await bed.copied(INGRESSES, "one")
    copy = await bed.copy(SECRETS, "certificate")
    assert copy is not None, "the certificate is there before the ingress"
    assert (copy["type"], copy["data"]) == ("kubernetes.io/tls", PAIR)
    assert host["spec"]["tls"] == [{"hosts": [own(bed)], "secretName": copy["metadata"]["name"]}]
    await publish(bed, "two", rule(own(bed, "two.")), tls=[{"hosts": [own(bed, "two.")], "secretName": "certificate"}])
    await bed.copied(INGRESSES, "two")

    await bed.plane.patch(SECRETS, "certificate", {"data": {"tls.crt": "bmV3"}}, bed.space)

    async def renewed() -> bool:
        return ((await bed.copy(SECRETS, "certificate")) or {})["data"]["tls.crt"] == "bmV3"

    await until(renewed, "the new certificate on the host")
    await bed.plane.delete(INGRESSES, "one", bed.space)
    await bed.uncopied(INGRESSES, "one")
    # A restart knows of the reference too.
    await bed.stop()
    await bed.start()
    assert await bed.copy(SECRETS, "certificate") is not None
    await change(bed, "two", tls=[{"hosts": [own(bed, "two.")], "secretName": "later"}])
    await bed.uncopied(SECRETS, "certificate")
    await secret(bed, "later")
    await bed.copied(SECRETS, "later")
    await bed.plane.delete(INGRESSES, "two", bed.space)
    await bed.uncopied(INGRESSES, "two")
    await bed.uncopied(SECRETS, "later")
    assert await bed.copy(SECRETS, "unused") is None


async def test_item_84_a_deleted_ingress_takes_its_copy_with_it_and_a_deleted_copy_is_recreated(bed: SyncerBed) -> None:
    await publish(bed, "shop", rule(own(bed)))
    first = await bed.copied(INGRESSES, "shop")
    await bed.host.delete(INGRESSES, first["metadata"]["name"], bed.work)

    async def again() -> bool:
        found = await bed.copy(INGRESSES, "shop")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until(again, "host ingress made again")
    # Deleted and recreated while the syncer was away: the copy is the new one's.
    await bed.stop()
    await bed.plane.delete(INGRESSES, "shop", bed.space)
    made = await publish(bed, "shop", rule(own(bed, "new.")))
    await bed.start()

    async def replaced() -> bool:
        found = await bed.copy(INGRESSES, "shop")
        return found is not None and found["metadata"]["labels"]["bulkhead.dev/virtual-uid"] == made["metadata"]["uid"]

    await until(replaced, "copy of the new one")
    await bed.plane.delete(INGRESSES, "shop", bed.space)
    await bed.uncopied(INGRESSES, "shop")


async def test_item_84_a_hand_on_the_host_is_put_right_by_event_and_by_patrol(bed: SyncerBed) -> None:
    await publish(bed, "shop", rule(own(bed)))
    host = await bed.copied(INGRESSES, "shop")
    name = host["metadata"]["name"]

    async def right() -> bool:
        return bool(((await bed.copy(INGRESSES, "shop")) or {})["spec"]["rules"][0]["host"] == own(bed))

    async def crooked() -> None:
        await bed.host.patch(INGRESSES, name, {"spec": {"rules": [rule(f"other.{DOMAIN}")]}}, bed.work)

    await crooked()
    await until(right, "put right by the event")

    # Now by the patrol alone: the key that the event made is thrown away.
    assert bed.session is not None
    queue, add = bed.session.queue, bed.session.queue.add
    await bed.quiet()
    queue.add = lambda *_: False  # type: ignore[method-assign]
    await crooked()

    async def seen() -> bool:
        assert bed.session is not None
        held = bed.session.caches.host["Ingress"].store.get(Key(bed.work, name))
        return held is not None and held["spec"]["rules"][0]["host"] != own(bed)

    await until(seen, "the cache knows")
    queue.add = add  # type: ignore[method-assign]
    repairs = metrics.PATROL_REPAIRS.labels("Ingress")
    before = repairs._value.get()
    bed.session.patrol.round()
    await until(right, "put right by the patrol")

    async def counted() -> bool:
        return bool(repairs._value.get() == before + 1)

    await until(counted, "repair counted")


async def test_a_refused_ingress_shows_where_its_copy_is_served_and_no_address_once_that_is_withdrawn(bed: SyncerBed) -> None:
    await publish(bed, "shop", rule(own(bed)))
    await publish(bed, "theirs", rule(own(bed, "b.")))
    host = await bed.copied(INGRESSES, "shop")
    await bed.copied(INGRESSES, "theirs")
    await served(bed, host, {"ip": "203.0.113.7"})
    await change(bed, "shop", rules=[rule(f"other.{DOMAIN}")])
    await bed.event("shop", "spec.rules[0].host", f"other.{DOMAIN}")
    # Its last accepted form is served on, elsewhere.
    await served(bed, host, {"ip": "203.0.113.8"})
    await bed.stop()
    # A controller of the tenant's own serves it now.
    theirs = {"loadBalancer": {"ingress": [{"ip": "10.112.0.9"}]}}
    await bed.plane.patch(INGRESSES, "theirs", {"status": theirs}, bed.space, subresource="status")
    bed.settings = settings_for(bed.tenant, **OFFER | {"ingressDomains": ["other.example.org"]})
    await bed.start()
    for name in ("shop", "theirs"):
        await bed.uncopied(INGRESSES, name)
    await shows(bed)
    await bed.patrolled()
    await shows(bed, {"ip": "10.112.0.9"}, name="theirs")


async def test_item_84_without_the_classs_offer_nothing_is_published_and_what_was_is_withdrawn(bed: SyncerBed) -> None:
    await secret(bed, "certificate")
    await publish(bed, "shop", rule(own(bed)), tls=[{"hosts": [own(bed)], "secretName": "certificate"}])
    held = {"metadata": {"name": "held", "finalizers": ["example.org/hold"]}, "spec": {"rules": [rule(own(bed))]}}
    await bed.plane.create(INGRESSES, held, bed.space)
    for name in ("shop", "held"):
        await bed.copied(INGRESSES, name)
    await bed.plane.delete(INGRESSES, "held", bed.space)

    async def offered(**offer: Any) -> None:
        await bed.stop()
        bed.settings = settings_for(bed.tenant, **offer)
        await bed.start()

    # Another domain instead of the former one.
    await offered(**OFFER | {"ingressDomains": ["other.example.org"]})
    for name in ("shop", "held"):
        await bed.uncopied(INGRESSES, name)
    await bed.event("shop", f"{bed.tenant}.other.example.org")
    await bed.uncopied(SECRETS, "certificate")
    await offered(**OFFER)
    for r, name in ((INGRESSES, "shop"), (SECRETS, "certificate")):
        await bed.copied(r, name)
    # Nothing at all.
    await offered()
    await bed.uncopied(INGRESSES, "shop")
    await bed.uncopied(SECRETS, "certificate")
    assert (await bed.event("shop", "offers no Ingress"))["reason"] == "NotSupported"

    async def withdrawn() -> bool:
        return await shown_class(bed) is None

    await until(withdrawn, "the class gone from the plane")
    # Of what is not published no certificate leaves the plane, not even for a moment.
    copies = metrics.HOST_WRITES.labels("Secret", "create")
    before = copies._value.get()
    await publish(bed, "late", rule(own(bed)), tls=[{"hosts": [own(bed)], "secretName": "certificate"}])
    await bed.event("late", "offers no Ingress")
    await offered()
    assert bed.session is not None
    bed.session.recorder.warn = lambda obj, *_: looked.add(obj["metadata"]["name"])  # type: ignore[method-assign]
    looked: set[str] = set()
    bed.session.patrol.round()

    async def all_seen() -> bool:
        return looked >= {"shop", "late"}

    await until(all_seen, "both reconciled after the restart")
    assert copies._value.get() == before
