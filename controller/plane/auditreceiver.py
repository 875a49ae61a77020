"""How a plane's API server sends its audit trail to the receiver that a class names, and the memory that this may take. Pure.

    event ──> larger than 8 KiB: without its body ──> buffer ──> a batch each second ──> POST, five times at most ──> receiver
                  └─ still too large: lost               └─ full: lost                          └─ all failed: lost

No request waits for a delivery: events that do not fit are lost, and the API server counts them
(`apiserver_audit_error_total`). The API server limits how many batches begin each second, but not how many are under way, and a
receiver that does not answer holds each batch for `_LONGEST_DELIVERY_SECONDS`. So rate, batch and buffer are computed from the
memory that the API server has (`Bounds`).

The API server reloads the credential's files by itself, and reads everything else only at its start. The receiver's name is
pinned in the pod (`hostAliases`): a plane uses no DNS.
"""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Final

from bulkhead.api.objects import Obj
from controller.plane.parts import metadata, mount, secret_volume
from controller.plane.spec import PLANE, PlaneSpec
from controller.plane.trail import Audit, Receiver

SECRET: Final = "audit-receiver"  # noqa: S105 - the name of a Secret
PATH: Final = "/etc/bulkhead/audit"
EVENT_BYTES: Final = 8 << 10
TOKEN: Final = "token"  # noqa: S105 - the name of a file
CERTIFICATE: Final = ("tls.crt", "tls.key")
# No receiver accepts it. Without any credential file the API server would not start, and could not load a later one.
_NONE: Final = b64encode(b"no-credential-is-known").decode()
_BURST_BATCHES: Final = 10
_BATCHES_A_SECOND: Final = 1
# Five attempts of 30 s, which the API server has built in, and pauses of 1, 1.5, 2.25 and 3.4 s between them, each up to a
# fifth longer.
_LONGEST_DELIVERY_SECONDS: Final = 160
# Copies of an event under way: the object, and the text of its batch in a buffer that has grown by doubling.
_COPIES_OF_AN_EVENT: Final = 3


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many events wait and are sent at once, so that all of them at their largest size take a quarter of the memory.

    Go's garbage collector lets the heap grow far beyond what is in use, and the API server needs room for its own work.
    """

    buffer: int
    batch: int

    @classmethod
    def of(cls, memory_mib: int) -> "Bounds":
        """The bounds for an API server with this memory: one sixteenth for waiting events, three for those under way."""
        part = (memory_mib << 20) // 16
        under_way = _LONGEST_DELIVERY_SECONDS * _BATCHES_A_SECOND + _BURST_BATCHES
        return cls(
            buffer=max(1, part // EVENT_BYTES), batch=max(1, 3 * part // (_COPIES_OF_AN_EVENT * EVENT_BYTES * under_way))
        )


def flags(memory_mib: int) -> list[str]:
    """The API server's flags."""
    bounds = Bounds.of(memory_mib)
    return [
        f"--audit-webhook-config-file={PATH}/kubeconfig",
        "--audit-webhook-mode=batch",
        "--audit-webhook-initial-backoff=1s",
        f"--audit-webhook-batch-buffer-size={bounds.buffer}",
        f"--audit-webhook-batch-max-size={bounds.batch}",
        "--audit-webhook-batch-max-wait=1s",
        "--audit-webhook-batch-throttle-enable=true",
        f"--audit-webhook-batch-throttle-qps={_BATCHES_A_SECOND}",
        f"--audit-webhook-batch-throttle-burst={_BURST_BATCHES}",
        "--audit-webhook-truncate-enabled=true",
        f"--audit-webhook-truncate-max-event-size={EVENT_BYTES}",
        f"--audit-webhook-truncate-max-batch-size={EVENT_BYTES}",
    ]


def mounts(asked: Audit | None) -> list[Obj]:
    """The mounts of the files, for the API server only."""
    return [mount(SECRET, PATH)] if asked is not None and asked.receiver is not None else []


def volumes(asked: Audit | None) -> list[Obj]:
    """The volume of the files."""
    return [secret_volume(SECRET, SECRET)] if asked is not None and asked.receiver is not None else []


def names(asked: Audit | None) -> Obj:
    """The pod's `hostAliases` for the receiver's name; none if the URL contains an address."""
    receiver = asked.receiver if asked is not None else None
    if receiver is None or receiver.host == receiver.address:
        return {}
    return {"hostAliases": [{"ip": receiver.address, "hostnames": [receiver.host]}]}


def secrets(spec: PlaneSpec) -> list[Obj]:
    """Secret `audit-receiver`: the receiver's address and settings, and the credential."""
    receiver = spec.audit.receiver if spec.audit is not None else None
    if receiver is None:
        return []
    files = {"kubeconfig": _config(receiver), "ca.crt": receiver.certificate_authority}
    data = {name: b64encode(text.encode()).decode() for name, text in files.items()} | _credential(receiver)
    meta = metadata(spec, SECRET, namespace=spec.namespace, component=PLANE)
    return [{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": dict(sorted(data.items()))}]


def read_once(asked: Audit | None) -> dict[str, str]:
    """The part of the files that only a restart loads; empty if nothing is sent."""
    if asked is None or asked.receiver is None:
        return {}
    return {SECRET: _config(asked.receiver) + asked.receiver.certificate_authority}


def kept(copy: Obj | None) -> tuple[tuple[str, str], ...]:
    """The credential that the plane has, as files with their content in base64."""
    data = (copy or {}).get("data") or {}
    if data.get(TOKEN) == _NONE:
        return ()
    return tuple((name, str(data[name])) for name in (TOKEN, *CERTIFICATE) if name in data)


def _credential(receiver: Receiver) -> dict[str, str]:
    return dict(receiver.credential or ((TOKEN, _NONE),))


def _config(receiver: Receiver) -> str:
    """A kubeconfig, as the API server requires; it names files by their paths, so that the API server reloads them."""
    user = {"tokenFile": f"{PATH}/{TOKEN}"}
    if TOKEN not in _credential(receiver):
        user = {"client-certificate": f"{PATH}/{CERTIFICATE[0]}", "client-key": f"{PATH}/{CERTIFICATE[1]}"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "receiver", "cluster": {"server": receiver.url, "certificate-authority": f"{PATH}/ca.crt"}}],
        "users": [{"name": "plane", "user": user}],
        "contexts": [{"name": "receiver", "context": {"cluster": "receiver", "user": "plane"}}],
        "current-context": "receiver",
    }
    return json.dumps(document, indent=1) + "\n"
