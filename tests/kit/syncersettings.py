"""The settings of a tenant's syncer, as the controller would write them."""

from typing import Any

import msgspec

from syncer.settings import Settings, parse


def settings_for(tenant: str, **more: Any) -> Settings:
    """Of a tenant with one pool of nodes and four GPUs; `more` replaces or adds fields."""
    plain = {
        "tenant": tenant,
        "tenantUID": f"uid-{tenant}",
        "planeNamespace": f"bh-{tenant}",
        "workNamespace": f"bh-{tenant}-work",
        "dnsAddress": "10.112.0.10",
        "apiAddress": "10.112.0.1",
        "shimAddress": "10.112.0.11",
        "publicAddress": "10.112.0.12",
        "serviceSlice": "10.112.0.0/22",
        "nodes": {"selector": {"pool": tenant}},
        "limits": {"nvidia.com/gpu": 4},
    }
    return parse(msgspec.json.encode(plain | more))
