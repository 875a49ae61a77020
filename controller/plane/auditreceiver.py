"""How a plane's API server sends its audit trail to the receiver that a class names, and what that may cost it. Pure.

    event ──> larger than 8 KiB: without its body ──> buffer ──> a batch each second ──> POST, five times at most ──> receiver
                  └─ still too large: lost               └─ full: lost                          └─ all failed: lost

No request waits for any of it: what does not fit is lost, and counted by the API server (`apiserver_audit_error_total`). It has
no bound on batches that are under way, only on how many begin each second, and a receiver that keeps silent holds each for
`_LONGEST_DELIVERY_SECONDS`; so rate, batch and buffer follow from the memory that the API server has (`Bounds`).

The credential lies in files that it reads again by itself; everything else of this is read once. The receiver's name is
pinned in the pod (`hostAliases`): a plane asks no DNS.
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
# Accepted by no receiver. Without any credential the API server would not start, and so could not take over one that comes.
_NONE: Final = b64encode(b"no-credential-is-known").decode()
_BURST_BATCHES: Final = 10
_BATCHES_A_SECOND: Final = 1
# Five tries of 30 s, which the API server does not let one choose, and the pauses of 1, 1.5, 2.25 and 3.4 s between, a fifth
# longer at most.
_LONGEST_DELIVERY_SECONDS: Final = 160
# An event under way: the object, and the text of its batch in a buffer that has grown by doubling.
_COPIES_OF_AN_EVENT: Final = 3


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many events wait and are sent at once, so that all of them, each as large as can be, take a quarter of the memory.

    The collector of garbage lets a heap grow to much more than what is in use, and the API server needs room for its work.
    """

    buffer: int
    batch: int

    @classmethod
    def of(cls, memory_mib: int) -> "Bounds":
        """For an API server with so much memory: a sixteenth for events that wait, three for those under way."""
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
    """The files, for the API server alone."""
    return [mount(SECRET, PATH)] if asked is not None and asked.receiver is not None else []


def volumes(asked: Audit | None) -> list[Obj]:
    """The volume of the files."""
    return [secret_volume(SECRET, SECRET)] if asked is not None and asked.receiver is not None else []


def names(asked: Audit | None) -> Obj:
    """What the pod takes the receiver's name for; a URL may have its address instead."""
    receiver = asked.receiver if asked is not None else None
    if receiver is None or receiver.host == receiver.address:
        return {}
    return {"hostAliases": [{"ip": receiver.address, "hostnames": [receiver.host]}]}


def secrets(spec: PlaneSpec) -> list[Obj]:
    """Secret `audit-receiver`: where to and how, and the credential."""
    receiver = spec.audit.receiver if spec.audit is not None else None
    if receiver is None:
        return []
    files = {"kubeconfig": _config(receiver), "ca.crt": receiver.certificate_authority}
    data = {name: b64encode(text.encode()).decode() for name, text in files.items()} | _credential(receiver)
    meta = metadata(spec, SECRET, namespace=spec.namespace, component=PLANE)
    return [{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": dict(sorted(data.items()))}]


def read_once(asked: Audit | None) -> dict[str, str]:
    """What of the files only a restart takes over; nothing where nothing is sent."""
    if asked is None or asked.receiver is None:
        return {}
    return {SECRET: _config(asked.receiver) + asked.receiver.certificate_authority}


def kept(copy: Obj | None) -> tuple[tuple[str, str], ...]:
    """The credential that the plane has, as files and their content in base64."""
    data = (copy or {}).get("data") or {}
    if data.get(TOKEN) == _NONE:
        return ()
    return tuple((name, str(data[name])) for name in (TOKEN, *CERTIFICATE) if name in data)


def _credential(receiver: Receiver) -> dict[str, str]:
    return dict(receiver.credential or ((TOKEN, _NONE),))


def _config(receiver: Receiver) -> str:
    """A kubeconfig, which is how an API server is told: files by their paths, so that it reads them again."""
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
