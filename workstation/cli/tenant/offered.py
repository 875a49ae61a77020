"""Whether a class offers what a new tenant requests, before the Tenant is created. Pure.

The controller decides this too, for every Tenant and with more rules. Here it saves the user a Tenant that can never be ready:
a class that does not exist, and a nominal quota that is not in the class or larger than its bound.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping

_NAMES_SHOWN = 20


def unknown_class(name: str, classes: Iterable[str]) -> str:
    """The message for a class that does not exist."""
    known = sorted(classes)
    listed = ", ".join(known[:_NAMES_SHOWN]) or "none"
    more = f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    return f"no TenantClass is named {name!r}; available: {listed}{more}"


def excess(spec: Mapping[str, Any], tenant_class: Obj) -> str:
    """The first nominal quota that the class does not allow, as a message; empty if it allows all of them."""
    offered = mapping(mapping(mapping(tenant_class.get("spec")).get("quota")).get("resources"))
    name = mapping(tenant_class.get("metadata")).get("name")
    for resource, quota in sorted(mapping(mapping(spec.get("quota")).get("resources")).items()):
        nominal = mapping(quota).get("nominal")
        most = mapping(offered.get(resource)).get("maxNominal")
        asked, bound = readable(nominal), readable(most)
        if asked is not None and bound is not None and asked > bound:
            return f"{resource}: {nominal} is more than the {most} that class {name} allows"
    return ""
