"""Many objects that differ in their names alone, written into etcd itself: the API server has no work with each of them.

    one object, created through the API server ── as etcd has it ──> the same bytes with another name, a few in a transaction

All names have one length, because the stored form says how long each text is. The copies share one UID.
"""

import base64
import json
from collections.abc import Iterable
from typing import Final

from tests.kit.servers import ApiServer

# etcd takes no request above 1.5 MiB.
_TRANSACTION_BYTES: Final = 1 << 20


def clone(server: ApiServer, folder: str, name: str, names: Iterable[str]) -> None:
    """Store a copy of the object `name` under each of the names; `folder` is its kind's in etcd, such as /registry/minions."""
    stored = _stored(server, f"{folder}/{name}")
    waiting = [other for other in names if other != name]
    assert {len(other) for other in waiting} <= {len(name)}
    at_once = max(1, _TRANSACTION_BYTES // len(stored))
    while waiting:
        puts = [
            {"key": _text(f"{folder}/{other}".encode()), "value": _text(stored.replace(name.encode(), other.encode()))}
            for other in waiting[:at_once]
        ]
        server.etcd_call("kv/txn", json.dumps({"success": [{"request_put": put} for put in puts]}))
        del waiting[:at_once]


def _stored(server: ApiServer, key: str) -> bytes:
    answer = json.loads(server.etcd_call("kv/range", json.dumps({"key": _text(key.encode())})))
    (pair,) = answer["kvs"]
    return base64.b64decode(pair["value"])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
