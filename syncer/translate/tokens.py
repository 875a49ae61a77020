"""Service account tokens of pods: minted by the tenant's API server, carried to the host in one Secret per pod.

The plane's admission puts a projected volume with a `serviceAccountToken` source into every pod. On the host that source
becomes a `secret` source of a Secret that is ours, so that no host token ever enters a tenant's container and no tenant token
stands in a pod's annotations. The Secret's name carries the virtual pod's UID: a recreated pod never meets the old tokens.

Flow: `token_requests` says what to mint, the runtime asks the plane for it, `secret` holds the result until it is renewed.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

DEFAULT_SECONDS: Final = 3600
LEAST_SECONDS: Final = 600
MOST_SECONDS: Final = 86400
KIND: Final = "PodToken"
# All of a pod's are in one Secret on the host, which is written again whenever the first of them is due.
MOST_TOKENS: Final = 16
MOST_TOKEN_BYTES: Final = 8192  # of each; admission of the tenant's own may ask for more in it than its pod does

_SOURCE: Final = schema.Struct(
    {
        "audience": schema.Text(1024),
        "expirationSeconds": schema.Number(),
        "path": schema.Text(4096),
    }
)


@dataclass(frozen=True, slots=True)
class TokenNeed:
    """One token that a pod needs: an empty audience is the plane's own; `key` is where it stands in the Secret."""

    audience: str
    expiration_seconds: int
    path: str
    key: str


def need(value: Any, path: str, max_seconds: int = MOST_SECONDS) -> TokenNeed:
    """What one `serviceAccountToken` source asks for, its lifetime clamped."""
    source = schema.struct(value, _SOURCE, path)
    wanted = source.get("expirationSeconds", DEFAULT_SECONDS)
    seconds = max(LEAST_SECONDS, min(wanted, max_seconds, MOST_SECONDS))
    audience = source.get("audience", "")
    where = source.get("path", "")
    if not where or where.startswith("/") or ".." in where.split("/"):
        raise Untranslatable(Reason.MALFORMED, f"{where[:64]!r} is not a relative path", f"{path}.path")
    key = hashlib.sha256(f"{seconds}/{audience}".encode()).hexdigest()[:16]
    return TokenNeed(audience, seconds, where, f"token-{key}")


def token_requests(virtual: Obj, max_seconds: int = MOST_SECONDS) -> tuple[TokenNeed, ...]:
    """The tokens of a pod; needs of the same audience and lifetime share a key and are one token."""
    found: list[TokenNeed] = []
    spec = schema.mapping(virtual.get("spec"), "spec")
    for at, volume in schema.items(spec.get("volumes"), "spec.volumes"):
        projected = schema.mapping(volume.get("projected"), f"{at}.projected")
        for source_at, source in schema.items(projected.get("sources"), f"{at}.projected.sources"):
            if source.get("serviceAccountToken") is not None:
                found.append(need(source["serviceAccountToken"], f"{source_at}.serviceAccountToken", max_seconds))
    return tuple(dict.fromkeys(found))


def check(virtual: Obj) -> None:
    """Refuse a pod with more tokens than pods have use for."""
    count = len({request.key for request in token_requests(virtual)})
    if count > MOST_TOKENS:
        text = f"{count} tokens with different audiences or lifetimes, at most {MOST_TOKENS} are made for a pod"
        raise Untranslatable(Reason.TOO_LARGE, text, "spec.volumes")


def service_account(virtual: Obj) -> str:
    """The tenant's service account for which the tokens are minted."""
    spec = schema.mapping(virtual.get("spec"), "spec")
    named = spec.get("serviceAccountName") or "default"
    return metadata.object_name(named, "spec.serviceAccountName")


def secret_name(virtual: Obj, view: TenantView) -> str:
    """The host name of the Secret that holds the pod's tokens."""
    identity = metadata.identity("Pod", virtual)
    return view.host_name(KIND, identity.namespace, f"{identity.name}.{identity.uid}")


def secret(virtual: Obj, view: TenantView, values: Mapping[str, str], owner: Obj | None = None) -> Obj:
    """The Secret itself. `values` are tokens by key; `owner` is the host pod, once it exists, so that both go together."""
    identity = metadata.identity("Pod", virtual)
    # `origin.of_host` gives this kind and name back, which no virtual object has: it is never taken for a tenant's mirror
    carrier = metadata.Identity(KIND, identity.namespace, f"{identity.name}.{identity.uid}", identity.uid)
    meta = metadata.host_metadata(carrier, {"metadata": {}}, view)
    owner_meta = schema.mapping((owner or {}).get("metadata"), "metadata")
    if owner_meta.get("uid"):
        meta["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner_meta.get("name"), "uid": owner_meta["uid"]}
        ]
    data = {key: base64.b64encode(values[key].encode()).decode() for key in sorted(values)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}
