"""A changed pod template restarts that pod of every tenant at the next upgrade, which must not happen unnoticed.

Every upgrade replaces syncers anyway. If this fails, find a way without a restart, such as a file that is read again. Otherwise
list the restart in docs/upgrading.md, and in `RESTARTED` of e2e/scenarios/upgrade/test_upgrade.py, and then set
UPDATE_GOLDEN=1.
"""

import hashlib
import json
from pathlib import Path

from controller.plane.render import render
from tests.kit import goldens
from tests.kit.tenantsamples import material, plane_spec

GOLDEN = Path(__file__).parent / "golden" / "pods.txt"


def test_pods_of_planes_are_those_of_the_release_before() -> None:
    lines = []
    for replicas in (1, 3):
        spec = plane_spec(control_plane={"replicas": replicas})
        for obj in render(spec, material(spec)).everything():
            name = obj["metadata"]["name"]
            if obj["kind"] in {"StatefulSet", "Deployment"} and name != "syncer":
                template = json.dumps(obj["spec"]["template"], sort_keys=True).encode()
                lines.append(f"{name} of {replicas}: {hashlib.sha256(template).hexdigest()[:32]}\n")
    goldens.check(GOLDEN, "".join(lines))
