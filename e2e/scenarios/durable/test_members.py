"""A plane of three whose member loses its volume: it serves meanwhile, and has three members again without an admin."""

import threading
import time
from typing import Self

from e2e import tenants
from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

LOST = "plane-2"
HEALED_SECONDS = 300.0


class Writer:
    """A client of the plane that writes twice a second, and tries a second time one second later."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.written: list[str] = []
        self.failed: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._ends.wait(0.5):
            name = f"written-{number}"
            number += 1
            for pause in (1.0, 0.0):
                try:
                    self.tenant.api.apply(config_map(name))
                except (ApiError, UnreachableError, OSError) as error:
                    if not pause:
                        self.failed.append(f"{name}: {error}")
                    self._ends.wait(pause)
                else:
                    self.written.append(name)
                    break


def config_map(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}}


def claim(host: Api, tenant: Tenant) -> Obj | None:
    return host.find("PersistentVolumeClaim", f"data-{LOST}", tenant.plane)


def healed(host: Api, tenant: Tenant, former: str, degraded: list[str]) -> None:
    """All three members serve, one of them on another volume than before."""
    found = tenants.conditions(host.get("Tenant", tenant.name))
    assert found["Ready"]["status"] == "True", found["Ready"]
    if "Degraded" in found:
        told = f"{found['Degraded']['reason']}: {found['Degraded']['message']}"
        if told not in degraded:
            degraded.append(told)
        raise NotYetError(told)
    there = claim(host, tenant)
    if there is None or there["metadata"]["uid"] == former:
        raise NotYetError("the volume is still the old one")
    if found["PlaneReady"]["reason"] != "Ready":
        raise NotYetError(found["PlaneReady"]["message"])


def test_a_member_that_lost_its_volume_is_replaced_while_the_plane_serves(host: Api, three: Tenant) -> None:
    three.api.apply(config_map("acknowledged"))
    record = host.get("ConfigMap", "plane-members", three.plane)
    assert (record["data"]["state"], record["data"]["open"]) == ("existing", ""), (
        "the record closes once the members have started"
    )
    there = claim(host, three)
    assert there is not None
    former, degraded = there["metadata"]["uid"], list[str]()
    began = time.monotonic()
    with Writer(three) as writer:
        host.delete("PersistentVolumeClaim", f"data-{LOST}", three.plane)
        host.delete("Pod", LOST, three.plane, grace=0)
        until(
            "three members to serve again",
            lambda: healed(host, three, former, degraded),
            seconds=HEALED_SECONDS,
            interval=0.5,
            patience=1,
        )
    seconds = time.monotonic() - began
    print(f"healed in {seconds:.0f} s; {len(writer.written)} writes, {len(writer.failed)} failed twice; {degraded}")
    assert any(LOST in told for told in degraded), degraded
    assert any(told.startswith("MemberReplaced") for told in degraded), degraded
    assert len(writer.failed) <= 2, writer.failed
    names = {obj["metadata"]["name"] for obj in three.api.list("ConfigMap", "default")}
    assert names >= {"acknowledged", *writer.written}
    record = host.get("ConfigMap", "plane-members", three.plane)
    assert (record["data"]["state"], record["data"]["open"]) == ("existing", "")
