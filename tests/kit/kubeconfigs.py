"""Kubeconfig files for identities that tests have in memory."""

import base64
from typing import Any

import yaml

from bulkhead.kube.kubeconfig import KubeConfig


def to_yaml(config: KubeConfig, *, name: str = "bulkhead") -> bytes:
    """A self-contained kubeconfig: everything inline, one context."""
    cluster: dict[str, Any] = {"server": config.server}
    if config.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(config.ca).decode()
    if config.tls_server_name:
        cluster["tls-server-name"] = config.tls_server_name
    user: dict[str, Any] = {}
    if config.client_cert is not None and config.client_key is not None:
        user["client-certificate-data"] = base64.b64encode(config.client_cert).decode()
        user["client-key-data"] = base64.b64encode(config.client_key).decode()
    if config.token is not None:
        user["token"] = config.token
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()
