"""Which servers the host's objects name: those that its nodes mount volumes from, and receivers of audit trails. Pure.

    SharedVolume, PersistentVolume, StorageClass ──> servers of storage        TenantClass ──> receivers

Such servers often believe a node's address, and that is what a tenant's pod has once it has left the node. An address that is
found is reserved. A name stays a name: nothing here resolves any, and whoever reserves addresses has to say so.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from bulkhead.api.untrusted import mapping, sequence, text

# What drivers call the server in a volume's attributes and in a class's parameters, in lower case. Not `endpoint`: that is
# what object stores have, which pods themselves are to reach.
_KEYS: Final = frozenset(
    {
        "server", "servers", "nfsserver", "host", "hosts", "monitors", "portal", "portals", "targetportal", "targetportals",
        "sysmgmtdhost", "dnsname", "ip", "address", "addresses",
    }
)  # fmt: skip
# Of these the server is a part only where there is more: //server/share, server:/export, server@tcp:/fs.
_PLACES: Final = frozenset({"source", "share", "exafs"})
_PLACE: Final = re.compile(r"//([^/]+)/|(\[[0-9A-Fa-f:.]+\]|[^/:,\s]+):/")
# In-tree types: the field, and what of it names servers.
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "nfs": ("server",),
    "cephfs": ("monitors",),
    "rbd": ("monitors",),
    "iscsi": ("targetPortal", "portals"),
    "quobyte": ("registry",),
}
_IPV4: Final = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_HOST: Final = re.compile(r"[0-9A-Za-z][-0-9A-Za-z_.:]{0,252}")
_MOST_OF_ONE_OBJECT: Final = 64
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
    """The servers that a StorageClass has volumes made on."""
    return _few(_attributes(mapping(storage_class.get("parameters"))))


def of_shared_volume(shared: Mapping[str, Any]) -> tuple[str, ...]:
    """The server of a SharedVolume that names one itself; a PersistentVolume that it names is seen for itself."""
    return _few(_named(mapping(mapping(shared.get("spec")).get("nfs")), ("server",)))


def of_tenant_class(tenant_class: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a class has audit trails sent, unless pods of the host receive them."""
    webhook = mapping(mapping(mapping(tenant_class.get("spec")).get("audit")).get("webhook"))
    return () if webhook.get("namespace") else _few(_named(webhook, ("address",)))


def kept_in(bodies: Iterable[bytes]) -> frozenset[str]:
    """The servers of all objects of which an informer keeps them."""
    return frozenset(entry for body in bodies for entry in _record.decode(body))


def _few(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(found)))[:_MOST_OF_ONE_OBJECT]


def _named(source: Mapping[str, Any], fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        yield from _hosts(source.get(field))


def _attributes(attributes: Mapping[str, Any]) -> Iterator[str]:
    for key, value in list(attributes.items())[:_MOST_OF_ONE_OBJECT]:
        if key.lower() in _KEYS:
            yield from _hosts(value)
        elif key.lower() in _PLACES:
            places = _PLACE.findall(text(value)[:_TEXT_CHARACTERS])
            yield from _hosts([unc or export for unc, export in places])


def _hosts(value: Any) -> Iterator[str]:
    """The hosts of `host`, `host:port`, `[v6]:port`, `host:/path`, of several of them, or of a list of such, as JSON too."""
    if isinstance(value, str) and value.startswith("[") and '"' in value[:_TEXT_CHARACTERS]:
        value = _listed(value[:_TEXT_CHARACTERS])
    texts = [value] if isinstance(value, str) else sequence(value)[:_MOST_OF_ONE_OBJECT]
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
    """Without what stands before and after it: a scheme, a path, a network of Lustre, a port."""
    part = part.partition("://")[2] or part
    part = part.lstrip("/").partition("/")[0].partition("@")[0]
    if part.startswith("["):
        return part[1:].partition("]")[0]
    if part.count(":") == 1:
        return part.partition(":")[0]
    # An address of IPv6: nobody tells a port from its end without brackets, but a path was after a colon of its own.
    return part if part.endswith("::") else part.removesuffix(":").partition("%")[0]
