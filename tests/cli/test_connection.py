"""The client that commands open to a tenant's plane, which they do not trust."""

import json
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube.errors import ConfigError
from workstation.cli import connection


def kubeconfig(cluster: dict[str, Any]) -> bytes:
    named = {"name": "red", "cluster": {"server": "https://127.0.0.1:1"} | cluster}
    users = [{"name": "red", "user": {"token": "x"}}]
    context = {"name": "red", "context": {"cluster": "red", "user": "red"}}
    return json.dumps({"clusters": [named], "users": users, "contexts": [context], "current-context": "red"}).encode()


@pytest.mark.parametrize(
    ("cluster", "refusal"), [({}, "no certificate-authority-data"), ({"certificate-authority": "ca.pem"}, "names a file")]
)
def test_a_plane_is_not_trusted(cluster: dict[str, Any], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the machine's CAs count, nor a file of this machine that the kubeconfig names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").write_text("a CA")
    with pytest.raises(ConfigError, match=refusal):
        connection.plane_client(kubeconfig(cluster), seconds=1, answer_bytes=1)
