"""Which parts of an object, an event or a log may be in an archive. Pure.

Of what a tenant writes, names and numbers stay, and texts go: values of variables, commands, labels and annotations, and
messages that quote them. Of Secrets and ConfigMaps the keys and sizes stay. An allowlist decides for everything that a tenant
can write; what the platform wrote itself is kept, without the values of variables.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.eventtimes import last_seen
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, sequence, text

REDACTED: Final = "[redacted]"
_MOST_ITEMS: Final = 256
_MOST_TEXT: Final = 2048  # characters
_META: Final = (
    "name",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "ownerReferences",
)
# The people in a Tenant: how many, and not who.
_PEOPLE: Final = frozenset({"admins", "revoked", "revokedUsers", "users", "identities", "sshKeys", "rootSshAuthorizedKeys"})
# Reasons whose messages come from the host's components and quote nothing that a tenant wrote but names.
_PLAIN_REASONS: Final = frozenset(
    {"FailedScheduling", "Scheduled", "Evicted", "NodeNotReady", "TaintManagerEviction", "Preempted"}
)
_STATE: Final = ("reason", "exitCode", "signal", "startedAt", "finishedAt")
_PLATFORMS: Final = (f"{names.GROUP}/", "app.kubernetes.io/", "kubernetes.io/", "pod-security.kubernetes.io/")
# On mirrors the syncer copies labels and annotations of the tenant, and writes these itself.
_SYNCERS: Final = (f"{names.GROUP}/",)
_SECRETS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]{1,40}-----[\s\S]*?(?:-----END [A-Z ]{1,40}-----|\Z)",
        r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){1,4}",
        r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}",
        r"(?i)(?<=[a-z])(?:password|passwd|token|secret|apikey|api_key)[\"']?\s*[=:]\s*[\"']?[^\s\"',}]{4,}",
        r"(?i)\b(?:password|passwd|token|secret|apikey|api_key)[\"']?\s*[=:]\s*[\"']?[^\s\"',}]{4,}",
        r"(?<=://)[^/\s@\"']{1,200}@",
        r"(?<=[?&])[^\s\"'\\]{1,4000}",
    )
)
_LONG: Final = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")
_LONGEST_NAME: Final = 64  # of one part of a path: the longest is a digest in hex


def line(content: str) -> str:
    """A text without what looks like a credential: keys, tokens, passwords, queries of URLs, long base64."""
    for pattern in _SECRETS:
        content = pattern.sub(REDACTED, content)
    return _LONG.sub(_unless_a_path, content)


def _unless_a_path(found: re.Match[str]) -> str:
    """A path or a digest as it is; any other long run of letters and digits may be a key."""
    parts = found[0].split("/")
    plain = all(len(part) <= _LONGEST_NAME and part == part.lower() for part in parts)
    return found[0] if plain and "+" not in found[0] and not found[0].endswith("=") else REDACTED


def log(data: bytes) -> bytes:
    """A log without what looks like a credential."""
    return line(data.decode(errors="replace")).encode()


def metadata(obj: Obj, prefixes: tuple[str, ...] = _PLATFORMS) -> Obj:
    """The metadata that the platform or the API server wrote: labels and annotations with these prefixes alone."""
    found = mapping(obj.get("metadata"))
    kept: Obj = {key: found[key] for key in _META if key in found}
    for part in ("labels", "annotations"):
        values = {key: _short(value) for key, value in mapping(found.get(part)).items() if str(key).startswith(prefixes)}
        kept |= {part: values} if values else {}
    return kept


def ours(obj: Obj) -> Obj:
    """An object that only the platform writes: all of it but values of variables and what looks like a credential."""
    found = _texts({key: value for key, value in obj.items() if key != "metadata"})
    return {**found, "metadata": metadata(obj)}


def tenant(obj: Obj) -> Obj:
    """A Tenant, with the number of people instead of their names."""
    return {**_texts({key: _people(value) for key, value in obj.items() if key != "metadata"}), "metadata": metadata(obj)}


def sizes(obj: Obj) -> Obj:
    """A Secret or a ConfigMap: its keys, and how many bytes each value has."""
    found: dict[str, int] = {}
    for key, value in mapping(obj.get("data")).items():
        content = text(value)
        found[str(key)] = (
            len(base64.b64decode(content)) if obj.get("kind") == "Secret" and _is_base64(content) else len(content)
        )
    return {"kind": obj.get("kind"), "type": obj.get("type"), "metadata": metadata(obj, _SYNCERS), "bytes": found}


def pod(obj: Obj) -> Obj:
    """A tenant's pod as the host has it: where it is, what it requests, and what became of it. No text of the tenant's."""
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    return {
        "kind": "Pod",
        "metadata": metadata(obj, _SYNCERS),
        "nodeName": spec.get("nodeName"),
        "priority": spec.get("priority"),
        "schedulingGates": [text(gate.get("name")) for gate in mappings(spec.get("schedulingGates"), _MOST_ITEMS)],
        "resources": {
            text(container.get("name")): container.get("resources")
            for container in mappings(spec.get("containers"), _MOST_ITEMS)
        },
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "conditions": [
            {key: _short(item.get(key)) for key in ("type", "status", "reason", "lastTransitionTime")}
            for item in mappings(status.get("conditions"), _MOST_ITEMS)
        ],
        "containers": [_container(item) for item in mappings(status.get("containerStatuses"), _MOST_ITEMS)],
    }


def claim(obj: Obj) -> Obj:
    """A tenant's claim of a volume: its size, its class and what became of it."""
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    kept = {key: spec.get(key) for key in ("accessModes", "resources", "storageClassName", "volumeName")}
    return {"kind": obj.get("kind"), "metadata": metadata(obj, _SYNCERS), **kept, "phase": status.get("phase")}


def event(obj: Obj) -> Obj:
    """An event about a tenant's object; its message where the host's own components wrote all of it."""
    about = mapping(obj.get("involvedObject"))
    plain = obj.get("reason") in _PLAIN_REASONS
    return {
        "reason": _short(obj.get("reason")),
        "type": obj.get("type"),
        "count": obj.get("count"),
        "first": obj.get("firstTimestamp") or obj.get("eventTime"),
        "last": last_seen(obj),
        "about": f"{text(about.get('kind'))}/{text(about.get('name'))}",
        "message": line(text(obj.get("message"))[:_MOST_TEXT]) if plain else REDACTED,
    }


def _container(item: Mapping[str, Any]) -> Obj:
    found: Obj = {key: item.get(key) for key in ("name", "ready", "restartCount")}
    for field in ("state", "lastState"):
        states = mapping(item.get(field))
        found[field] = {
            kind: {key: mapping(value).get(key) for key in _STATE if key in mapping(value)} for kind, value in states.items()
        }
    return found


def _people(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: {"count": len(sequence(inner))} if key in _PEOPLE else _people(inner) for key, inner in value.items()}
    return [_people(inner) for inner in value] if isinstance(value, list) else value


def _texts(value: Any) -> Any:
    """The same with each text searched for credentials, and each variable without its value."""
    if isinstance(value, Mapping):
        if set(value) == {"name", "value"}:
            return {"name": value["name"], "value": REDACTED}
        return {key: _texts(inner) for key, inner in value.items() if key != "managedFields"}
    if isinstance(value, list):
        return [_texts(inner) for inner in value]
    return line(value) if isinstance(value, str) else value


def _short(value: Any) -> Any:
    return line(value[:_MOST_TEXT]) if isinstance(value, str) else value


def _is_base64(content: str) -> bool:
    return len(content) % 4 == 0 and re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", content) is not None
