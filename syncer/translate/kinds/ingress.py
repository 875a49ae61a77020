"""A tenant's Ingress on the host, where a controller that all tenants share serves it.

Hosts. A tenant named `t` owns `t.<domain>` for each domain of its class, and every name below. No domain lies below another, so
no two tenants can ever claim one host, and the order in which they claim it does not matter. There is no default backend, no
empty host and no certificate without hosts: each of these would match the hosts of every tenant.

Controllers write what they are given into configuration files, some of them as templates. So no annotation is copied, and paths
consist only of characters that mean nothing in any of these languages.

A refused Ingress keeps its last accepted form on the host only while the class still offers what that claims (`may_stay`).
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, sequence
from syncer.translate import metadata, schema
from syncer.translate.metadata import Identity
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import SECRET
from syncer.translate.schema import NAME, PORT, ListOf, OneOf, Refused, Struct, Text, Translated
from syncer.translate.view import TenantView

KIND: Final = "Ingress"
LEGACY_CLASS: Final = "kubernetes.io/ingress.class"
# Annotations of tools that ask nothing of a controller: no warning where these are left out.
_QUIET_PREFIXES: Final = frozenset({"kubectl.kubernetes.io", "meta.helm.sh", "argocd.argoproj.io"})

_MOST_RULES: Final = 50
_MOST_PATHS: Final = 200
_MOST_TLS_HOSTS: Final = 100
# Of all certificates together: the controller that all tenants share keeps each name.
MOST_NAMES: Final = 200
_MOST_PATH: Final = 512
_MOST_STATUS: Final = 16
_HOST: Final = re.compile(r"(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PATH: Final = re.compile(r"/[-A-Za-z0-9._~/]*")
_HOPS: Final = re.compile(r"//|/\.{1,2}(/|$)")

# Every field of an Ingress's spec of Kubernetes 1.36.
SERVICE_BACKEND: Final = Struct({"name": NAME, "port": Struct({"name": Text(63), "number": PORT})})
BACKEND: Final = Struct(
    {
        "service": SERVICE_BACKEND,
        "resource": Refused("only Services are published, name one in `service`"),
    }
)
HTTP_PATH: Final = Struct(
    {
        "path": Text(_MOST_PATH),
        "pathType": OneOf(("Exact", "Prefix", "ImplementationSpecific")),
        "backend": BACKEND,
    }
)
HTTP_RULE: Final = Struct({"paths": ListOf(HTTP_PATH, _MOST_PATHS)})
RULE: Final = Struct({"host": NAME, "http": HTTP_RULE})
TLS: Final = Struct({"hosts": ListOf(NAME, _MOST_TLS_HOSTS), "secretName": NAME})
INGRESS_SPEC: Final = Struct(
    {
        "ingressClassName": Translated("_class"),
        "defaultBackend": Translated("_check_default"),
        "rules": ListOf(RULE, _MOST_RULES),
        "tls": ListOf(TLS, _MOST_RULES),
    }
)


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host Ingress for `virtual`."""
    identity = metadata.identity(KIND, virtual)
    if not view.ingress_classes or not view.ingress_domains:
        raise Untranslatable(Reason.NOT_SUPPORTED, "the class of this tenant offers no Ingress; it stays in this cluster")
    own = schema.mapping(virtual.get("spec"), "spec")
    _check_default(own)
    plain = schema.struct(own, INGRESS_SPEC, "spec")
    meta = schema.mapping(virtual.get("metadata"), "metadata")
    spec: Obj = {"ingressClassName": _class(own, meta, view), "rules": _rules(plain.get("rules", []), identity, view)}
    _check_names(plain.get("tls", []))
    tls = [_tls(entry, f"spec.tls[{index}]", identity, view) for index, entry in enumerate(plain.get("tls", []))]
    if tls:
        spec["tls"] = tls
    # Of the tenant's annotations none passes, not even those that do elsewhere.
    bare = {"metadata": {"labels": meta.get("labels")}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": KIND,
        "metadata": metadata.host_metadata(identity, bare, view),
        "spec": spec,
    }


def remarks(virtual: Obj, _view: TenantView) -> list[str]:
    """The parts of a mirrored Ingress that do not reach the host, in the tenant's words."""
    annotations = schema.mapping(schema.mapping(virtual.get("metadata"), "metadata").get("annotations"), "metadata.annotations")
    lost = sorted(key[:64] for key in annotations if isinstance(key, str) and key.partition("/")[0] not in _QUIET_PREFIXES)
    if not lost:
        return []
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return [f"metadata.annotations: none is passed to the host's controller: {', '.join(lost[:3])}{more}"]


def may_stay(host: Obj, view: TenantView) -> bool:
    """Whether the class still offers what a host Ingress claims."""
    spec = mapping(host.get("spec"))
    if spec.get("ingressClassName") not in view.ingress_classes:
        return False
    claimed = [mapping(rule).get("host") for rule in sequence(spec.get("rules"))]
    claimed += [name for entry in sequence(spec.get("tls")) for name in sequence(mapping(entry).get("hosts"))]
    return all(isinstance(name, str) and is_own(name, view) for name in claimed)


def is_own(host: str, view: TenantView) -> bool:
    """Whether a host, or every host that a wildcard stands for, belongs to the tenant."""
    if len(host) > 253 or not _HOST.fullmatch(host):
        return False
    return any(host == own or host.endswith(f".{own}") for own in view.ingress_hosts)


def status_to_virtual(host: Obj, _virtual: Obj, _view: TenantView) -> Obj:
    """The addresses at which the host's controller serves the Ingress, and nothing else of its status."""
    given = sequence(mapping(mapping(host.get("status")).get("loadBalancer")).get("ingress"))
    points = [point for entry in given[:_MOST_STATUS] if (point := _point(mapping(entry)))]
    return {"loadBalancer": {"ingress": points} if points else {}}


def _check_default(spec: Mapping[str, Any]) -> None:
    if spec.get("defaultBackend") is not None:
        raise Untranslatable(
            Reason.NOT_ALLOWED, "would answer for the hosts of others; give a rule with a host instead", "spec.defaultBackend"
        )


def _class(spec: Mapping[str, Any], meta: Mapping[str, Any], view: TenantView) -> str:
    offered = ", ".join(sorted(view.ingress_classes))
    if LEGACY_CLASS in schema.mapping(meta.get("annotations"), "metadata.annotations"):
        raise Untranslatable(
            Reason.NOT_SUPPORTED,
            f"name the class in spec.ingressClassName and remove the annotation; classes offered: {offered}",
            f"metadata.annotations.{LEGACY_CLASS}",
        )
    name = schema.text(spec.get("ingressClassName"), "spec.ingressClassName", 253)
    if not name and len(view.ingress_classes) == 1:
        return offered
    if name not in view.ingress_classes:
        wrong = f"IngressClass {name[:63]!r} is not offered" if name else "a class has to be named"
        raise Untranslatable(Reason.NOT_ALLOWED, f"{wrong}; classes offered: {offered}", "spec.ingressClassName")
    return name


def _rules(rules: list[Obj], identity: Identity, view: TenantView) -> list[Obj]:
    if not rules:
        raise Untranslatable(Reason.MALFORMED, "there is no rule", "spec.rules")
    paths = sum(len(rule.get("http", {}).get("paths", [])) for rule in rules)
    if paths > _MOST_PATHS:
        raise Untranslatable(Reason.TOO_LARGE, f"{paths} paths, at most {_MOST_PATHS} are mirrored", "spec.rules")
    return [_rule(rule, f"spec.rules[{index}]", identity, view) for index, rule in enumerate(rules)]


def _rule(rule: Obj, path: str, identity: Identity, view: TenantView) -> Obj:
    host = _own_host(rule.get("host", ""), f"{path}.host", view)
    paths = rule.get("http", {}).get("paths", [])
    if not paths:
        raise Untranslatable(Reason.MALFORMED, "there is no path, and no default backend that would answer", f"{path}.http")
    found = [_path(entry, f"{path}.http.paths[{at}]", identity, view) for at, entry in enumerate(paths)]
    return {"host": host, "http": {"paths": found}}


def _own_host(host: str, path: str, view: TenantView) -> str:
    if not is_own(host, view):
        wrong = f"{host[:80]!r} is not a host of this tenant" if host else "a host has to be named"
        allowed = ", ".join(view.ingress_hosts)
        raise Untranslatable(Reason.NOT_ALLOWED, f"{wrong}; allowed: {allowed}, and any name below", path)
    return host


def _check_names(certificates: list[Obj]) -> None:
    names = sum(len(entry.get("hosts", [])) for entry in certificates)
    if names > MOST_NAMES:
        text = f"{names} hosts of certificates, at most {MOST_NAMES} are mirrored; use several Ingresses"
        raise Untranslatable(Reason.TOO_LARGE, text, "spec.tls")


def _tls(entry: Obj, path: str, identity: Identity, view: TenantView) -> Obj:
    hosts = entry.get("hosts", [])
    if not hosts:
        raise Untranslatable(
            Reason.NOT_ALLOWED, "a certificate needs hosts; without them it would be served for every host", f"{path}.hosts"
        )
    found: Obj = {"hosts": [_own_host(host, f"{path}.hosts[{at}]", view) for at, host in enumerate(hosts)]}
    if entry.get("secretName"):
        name = metadata.object_name(entry["secretName"], f"{path}.secretName")
        found["secretName"] = view.host_name(SECRET, identity.namespace, name)
    return found


def _path(entry: Obj, path: str, identity: Identity, view: TenantView) -> Obj:
    kind = entry.get("pathType", "")
    if not kind:
        raise Untranslatable(Reason.MALFORMED, "has to be given", f"{path}.pathType")
    found: Obj = {
        "pathType": kind,
        "backend": {"service": _service(entry.get("backend", {}), f"{path}.backend", identity, view)},
    }
    text = entry.get("path", "")
    if text or kind != "ImplementationSpecific":
        found["path"] = _plain_path(text, f"{path}.path")
    return found


def _plain_path(text: str, path: str) -> str:
    if not _PATH.fullmatch(text):
        form = "begins with / and consists of letters, digits and the signs / - . _ ~ here"
        raise Untranslatable(Reason.NOT_ALLOWED, f"{text[:80]!r}: a path {form}", path)
    if _HOPS.search(text):
        raise Untranslatable(Reason.NOT_ALLOWED, f"{text[:80]!r}: without empty parts, `.` and `..`", path)
    return text


def _service(backend: Obj, path: str, identity: Identity, view: TenantView) -> Obj:
    service = backend.get("service", {})
    name = metadata.object_name(service.get("name"), f"{path}.service.name")
    port = service.get("port", {})
    if ("number" in port) == bool(port.get("name")):
        raise Untranslatable(Reason.MALFORMED, "either a name or a number", f"{path}.service.port")
    if "number" not in port:
        port = {"name": metadata.dns_label(port["name"], f"{path}.service.port.name")}
    else:
        port = {"number": port["number"]}
    return {"name": view.host_name("Service", identity.namespace, name), "port": port}


def _point(entry: Mapping[str, Any]) -> Obj:
    """One address of a load balancer, as far as it is one."""
    found: Obj = {}
    address, name = entry.get("ip"), entry.get("hostname")
    if isinstance(address, str) and _is_address(address):
        found["ip"] = address
    if isinstance(name, str) and len(name) <= 253 and _HOST.fullmatch(name) and not name.startswith("*"):
        found["hostname"] = name
    ports = [{"port": port["port"], "protocol": port["protocol"]} for port in sequence(entry.get("ports")) if _is_port(port)]
    return found | {"ports": ports[:_MOST_STATUS]} if found and ports else found


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_port(value: Any) -> bool:
    plain = mapping(value)
    port = plain.get("port")
    if isinstance(port, bool) or not isinstance(port, int):
        return False
    return 0 < port < 65536 and plain.get("protocol") in ("TCP", "UDP", "SCTP")
