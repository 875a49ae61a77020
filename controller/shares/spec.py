"""Computes which objects a tenant gets, and in which namespaces: those that its class gives and those that it chose. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bulkhead.api.untrusted import mapping, mappings, sequence

# The fields of class and Tenant, and the kind of the objects that each lists.
FIELDS: Final = {"sharedSecrets": "Secret", "sharedConfigMaps": "ConfigMap"}
_OWN_PREFIX: Final = "kube-"


class Item(NamedTuple):
    """An object of the host's namespace of shared objects."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Where:
    """A choice of namespaces of a plane: by name, by labels, or all but the plane's own."""

    names: tuple[str, ...] | None = None
    labels: tuple[tuple[str, str], ...] | None = None

    def covers(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a namespace is included."""
        if self.names is not None:
            return name in self.names
        if self.labels is not None:
            return all(labels.get(key) == value for key, value in self.labels)
        return not name.startswith(_OWN_PREFIX)


@dataclass(frozen=True, slots=True)
class Share:
    """One object, and the namespaces of its copies."""

    item: Item
    where: Where = Where()
    pulls: bool = False  # whether default ServiceAccounts name it


def shares_of(asked: Mapping[str, Any], offer: Mapping[str, Any]) -> tuple[Share, ...]:
    """The shares of a tenant: everything that its class gives to all tenants, and what it chooses from the rest."""
    return tuple(share for field, kind in FIELDS.items() for share in _of_kind(kind, asked.get(field), offer.get(field)))


def offered(offer: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """The names that a class lists in one of the fields."""
    return tuple(sorted(str(entry.get("name")) for entry in mappings(offer.get(field))))


def _of_kind(kind: str, asked: Any, offer: Any) -> Iterator[Share]:
    chosen = {str(entry.get("name")): entry for entry in mappings(asked)}
    for entry in mappings(offer):
        name = str(entry.get("name"))
        own = chosen.get(name)
        if own is None and entry.get("onRequest") is True:
            continue
        where = (own or {}).get("namespaces") or entry.get("namespaces")
        yield Share(Item(kind, name), where_of(mapping(where)), entry.get("imagePullSecret") is True)


def where_of(section: Mapping[str, Any]) -> Where:
    """The namespaces that a section of the spec selects."""
    if section.get("names") is not None:
        return Where(names=tuple(sorted(map(str, sequence(section["names"])))))
    if section.get("matchLabels") is not None:
        return Where(labels=tuple(sorted((str(key), str(value)) for key, value in mapping(section["matchLabels"]).items())))
    return Where()
