"""The rights that docs/chaos.md names are enough for a run and for `stop`."""

from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from tests.chaosrun.bed import TARGET, Bed, left
from tests.chaosrun.test_lacking import role_of_the_page
from tests.chaosrun.test_run import SHORT
from tests.kit.commandline import finish, start
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair

pytestmark = pytest.mark.chaosrun
USER = "chaos-pipeline"


async def test_a_pipeline_with_these_rights_runs_and_undoes(bed: Bed, apiservers: Pair, tmp_path: Path) -> None:
    role = role_of_the_page()
    await bed.host.apply(kinds.CLUSTER_ROLES, role)
    binding = {
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
    }
    await bed.host.apply(kinds.CLUSTER_ROLE_BINDINGS, binding)
    path = tmp_path / "pipeline.kubeconfig"
    path.write_bytes(to_yaml(apiservers.host.config_for(USER)))
    words = ("--experiment", "syncer-deleted", "--experiment", "webhook-fails", "--target", TARGET, "--confirm", TARGET)
    done = await finish(await start("chaos", "run", *words, *SHORT, "--yes", environment={"KUBECONFIG": str(path)}))
    assert done.code == 0, (done.out, done.err)
    assert await left(bed.host, bed.plane) == []
    stopped = await finish(await start("chaos", "stop", environment={"KUBECONFIG": str(path)}))
    assert stopped.code == 0, stopped.err
