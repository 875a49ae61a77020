"""The servers that the host's objects name: storage that its nodes mount volumes from, and receivers of audit trails. Pure.

    SharedVolume, PersistentVolume, StorageClass ──> servers of storage        TenantClass ──> receivers

Such servers often trust the addresses of nodes, and traffic of a tenant's pod has its node's address once it has left the node.
An address that is found is reserved. Names are not resolved here; the caller that reserves addresses reports that.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from bulkhead.api.untrusted import mapping, sequence, text

# The keys for a server in a volume's attributes and in a class's parameters, in lower case. `endpoint` is not among them: it is
# a key of object stores, which pods must reach themselves.
_KEYS: Final = frozenset(
    {
        "server", "servers", "nfsserver", "host", "hosts", "monitors", "portal", "portals", "targetportal", "targetportals",
        "sysmgmtdhost", "dnsname", "ip", "address", "addresses",
    }
)  # fmt: skip
# Values of these contain a server only together with more: //server/share, server:/export, server@tcp:/fs.
_PLACES: Final = frozenset({"source", "share", "exafs"})
_PLACE: Final = re.compile(r"//([^/]+)/|(\[[0-9A-Fa-f:.]+\]|[^/:,\s]+):/")
# In-tree types: the field, and its parts that name servers.
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "nfs": ("server",),
    "cephfs": ("monitors",),
    "rbd": ("monitors",),
    "iscsi": ("targetPortal", "portals"),
    "quobyte": ("registry",),
}
_IPV4: Final = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_HOST: Final = re.compile(r"[0-9A-Za-z][-0-9A-Za-z_.:]{0,252}")
_MAX_SERVERS_OF_ONE_OBJECT: Final = 64
_TEXT_CHARACTERS: Final = 4096

_record: Final = msgspec.json.Decoder(tuple[str, ...])


def of_volume(volume: Mapping[str, Any]) -> tuple[str, ...]:
    """The servers of a PersistentVolume."""
    spec = mapping(volume.get("spec"))
    csi = mapping(spec.get("csi"))
    found = [server for type_, fields in _TYPES.items() for server in _named(mapping(spec.get(type_)), fields)]
    found += _attributes(mapping(mapping(spec.get("flexVolume")).get("options")))
    found += _attributes(mapping(csi.get("volumeAttributes")))
    found += _IPV4.findall(text(csi.get("volumeHandle"))[:_TEXT_CHARACTERS])
    return _few(found)


def of_storage_class(storage_class: Mapping[str, Any]) -> tuple[str, ...]:
    """The servers on which a StorageClass creates volumes."""
    return _few(_attributes(mapping(storage_class.get("parameters"))))


def of_shared_volume(shared: Mapping[str, Any]) -> tuple[str, ...]:
    """The server that a SharedVolume names itself; a PersistentVolume that it names is observed by its own informer."""
    return _few(_named(mapping(mapping(shared.get("spec")).get("nfs")), ("server",)))


def of_tenant_class(tenant_class: Mapping[str, Any]) -> tuple[str, ...]:
    """The receivers of a class's audit trails, unless they are pods of the host."""
    webhook = mapping(mapping(mapping(tenant_class.get("spec")).get("audit")).get("webhook"))
    return () if webhook.get("namespace") else _few(_named(webhook, ("address",)))


def kept_in(bodies: Iterable[bytes]) -> frozenset[str]:
    """The servers of all objects in an informer that keeps servers."""
    return frozenset(entry for body in bodies for entry in _record.decode(body))


def _few(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(found)))[:_MAX_SERVERS_OF_ONE_OBJECT]


def _named(source: Mapping[str, Any], fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        yield from _hosts(source.get(field))


def _attributes(attributes: Mapping[str, Any]) -> Iterator[str]:
    for key, value in list(attributes.items())[:_MAX_SERVERS_OF_ONE_OBJECT]:
        if key.lower() in _KEYS:
            yield from _hosts(value)
        elif key.lower() in _PLACES:
            places = _PLACE.findall(text(value)[:_TEXT_CHARACTERS])
            yield from _hosts([unc or export for unc, export in places])


def _hosts(value: Any) -> Iterator[str]:
    """The hosts in `host`, `host:port`, `[v6]:port` or `host:/path`, in several of them, or in a list of them, also as JSON."""
    if isinstance(value, str) and value.startswith("[") and '"' in value[:_TEXT_CHARACTERS]:
        value = _listed(value[:_TEXT_CHARACTERS])
    texts = [value] if isinstance(value, str) else sequence(value)[:_MAX_SERVERS_OF_ONE_OBJECT]
    for part in (part for text_ in texts for part in _parts(text_)):
        host = _host(part)
        if _HOST.fullmatch(host):
            yield host.lower().rstrip(".")


def _parts(value: Any) -> list[str]:
    return [part for part in re.split(r"[,;\s]+", text(value)[:_TEXT_CHARACTERS]) if part]


def _listed(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return []


def _host(part: str) -> str:
    """The host without what surrounds it: a scheme, a path, a Lustre network, a port."""
    part = part.partition("://")[2] or part
    part = part.lstrip("/").partition("/")[0].partition("@")[0]
    if part.startswith("["):
        return part[1:].partition("]")[0]
    if part.count(":") == 1:
        return part.partition(":")[0]
    # An IPv6 address: without brackets a port cannot be told from its end, but a path came after its own colon.
    return part if part.endswith("::") else part.removesuffix(":").partition("%")[0]
