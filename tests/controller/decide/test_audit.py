"""The audit trail of a class, as its planes have it."""

from typing import Any

import pytest

from controller.plane.trail import Audit
from tests.kit.tenantsamples import plane_for, tenant, tenant_class


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (None, None),
        ({}, Audit()),
        ({"sink": "Stdout", "level": "Request"}, Audit(requests=True, sink="Stdout")),
        ({"maxSize": "1Gi", "maxBackups": 20, "maxAgeDays": 365}, Audit(file_mib=1024, backups=20, days=365)),
        # On etcd's volume, a quarter of it at most: 512 MiB of the usual 2 GiB.
        ({"maxSize": "1Gi", "maxBackups": 2, "retain": True}, Audit(file_mib=128, retain=True)),
        ({"maxSize": "64Mi", "maxBackups": 2, "retain": True}, Audit(file_mib=64, retain=True)),
    ],
)
def test_files_stay_inside_their_room(asked: dict[str, Any] | None, made: Audit | None) -> None:
    offer = tenant_class(**({} if asked is None else {"audit": asked}))
    assert plane_for(tenant(), offer).audit == made


@pytest.mark.parametrize("size", ["64Mi", "1Gi", "1Ti"])
def test_a_quarter_of_a_volume_of_any_size(size: str) -> None:
    offer = tenant_class(audit={"maxSize": "1Gi", "maxBackups": 20, "retain": True}, controlPlane={"storage": {"size": size}})
    found = plane_for(tenant(), offer).audit
    assert found is not None
    mib = {"64Mi": 64, "1Gi": 1024, "1Ti": 1 << 20}[size]
    # No file is smaller than 1 MiB, which only matters on volumes on which no etcd fits.
    assert found.room_mib <= max(22, mib // 4)
