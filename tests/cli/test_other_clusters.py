"""Commands of an admin with the kubeconfig of a cluster that is not a host, such as a tenant's own."""

from pathlib import Path

import pytest

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import finish, start
from tests.kit.kubeconfigs import to_yaml

pytestmark = [pytest.mark.apiserver, pytest.mark.commands]


async def test_a_cluster_without_tenants_is_told_apart_from_a_host(plane_config: KubeConfig, tmp_path: Path) -> None:
    """A user that follows the next step must not install Bulkhead in a tenant."""
    file = tmp_path / "red.kubeconfig"
    file.write_bytes(to_yaml(plane_config))
    for words in (
        ("tenant", "list"),
        ("tenant", "describe", "red"),
        ("top",),
        ("usage",),
        ("usage", "red"),
        ("usage", "--idle"),
        ("usage", "-o", "csv"),
    ):
        done = await finish(await start(*words, environment={"KUBECONFIG": str(file)}))
        assert (done.code, done.out) == (1, ""), words
        assert "this cluster has no Tenants: it is a tenant's own, or" in done.err, words
        assert "next:  give the host's kubeconfig" in done.err, words
