"""A snapshot for the tests of its format."""

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace

from bulkhead.api import planerecord
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.signing import Ring
from bulkhead.snapshots.bundle import Bundle
from bulkhead.snapshots.layout import PLANE, STORE
from bulkhead.snapshots.manifest import PURPOSE, Manifest, Part
from controller.pki.signingkeys import new_files, ring_of

RING = ring_of(new_files())
ID = "99999999-8888-7777-6666-555555555555"
OTHER = "00000000-8888-7777-6666-555555555555"
RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
RECORD = PlaneRecord(ID, "red", OTHER, "2026-06-01T12:00:00Z")


def record(of: PlaneRecord = RECORD, ring: Ring = RING) -> str:
    return ring.sign(planerecord.PURPOSE, of.text())


# As they were signed by a key of long ago: the text of a manifest must not change within a format.
GOLDEN = Manifest(
    snapshot="red-1",
    attempt="0123456789abcdef",
    identity=ID,
    tenant="red",
    tenant_uid=OTHER,
    created="2026-06-01T12:34:56Z",
    kubernetes="v1.36.3",
    etcd="v3.6.16",
    bulkhead="0.1.0",
    service_slice="10.112.4.0/22",
    record="a record",
    recipients=(RECIPIENT,),
    parts={STORE: Part(70_000 + 200 + 32, "a" * 64, 70_000), PLANE: Part(1216, "b" * 64, 1000)},
)


def made(**changes: object) -> Manifest:
    return replace(GOLDEN, **({"record": record()} | changes))  # type: ignore[arg-type]


def signed(of: Manifest | None = None, ring: Ring = RING) -> str:
    return ring.sign(PURPOSE, (of or made()).text())


BUNDLE = Bundle(
    record="a record",
    tenant={
        "metadata": {"name": "red", "uid": OTHER, "labels": {"a": "b"}, "resourceVersion": "7"},
        "spec": {"class": "small"},
    },
    service_slice="10.112.4.0/22",
    secrets={"pki-service-account": {"encryption.key": b"key", "sa.key": b"\x00\xff"}},
)


def frames(parts: Iterable[bytes], digest: bytes | None = None) -> list[bytes]:
    """Lines of etcd's gateway for a store of these parts."""
    parts = list(parts)
    total, sent, lines = sum(map(len, parts)), 0, []
    for part in parts:
        sent += len(part)
        lines.append(line(part, total - sent))
    return [*lines, line(digest if digest is not None else hashlib.sha256(b"".join(parts)).digest(), 0)]


def line(blob: bytes, remaining: int) -> bytes:
    result = {"blob": base64.b64encode(blob).decode()} | ({"remaining_bytes": str(remaining)} if remaining else {})
    return json.dumps({"result": result}).encode() + b"\n"
