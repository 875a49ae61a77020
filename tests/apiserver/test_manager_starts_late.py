"""A plane's real controller manager beside an API server that takes longer than it waits by itself."""

import shutil
import urllib.error
from pathlib import Path

import pytest

from controller.plane.spec import API_PORT, API_SERVER
from tests.kit import startafter
from tests.kit.planeprocess import ETCD, KCM, PlaneProcesses
from tests.kit.servers import binary
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.planes,
    pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go to build what waits"),
]


async def test_a_controller_manager_outlives_the_late_start_of_its_api_server(tmp_path: Path) -> None:
    alone, plane = (PlaneProcesses(tmp_path / name, plane_spec()) for name in ("alone", "plane"))
    health = f"https://127.0.0.1:{plane.ports[API_PORT]}/healthz"
    plane.instead[KCM] = startafter.build(tmp_path / KCM, health=health, folder=binary(KCM).parent)
    try:
        plane.start(KCM)
        alone.start(KCM)

        async def ended() -> bool:
            return bool(alone.ended(KCM))

        await until(ended, "the end of a controller manager whose API server does not come")
        assert "failed to wait for apiserver being healthy" in alone.ended(KCM), "the control: why it ends by itself"
        waiting = plane.pid(KCM)
        plane.start(ETCD, API_SERVER)
        plane.wait()

        async def works() -> bool:
            try:
                return plane.get("/api/v1/namespaces/default/serviceaccounts/default") > 0
            except urllib.error.HTTPError:
                return False

        await until(works, "the account that the controller manager makes in every namespace")
        assert (plane.runs(KCM), plane.pid(KCM)) == (True, waiting)
    finally:
        plane.stop()
        alone.stop()
