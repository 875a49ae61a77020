"""Tenants made ahead: each once, all gone at the end, and what they refer to after them."""

from pathlib import Path
from typing import Any

import pytest

from e2e import fleet, tenants
from e2e.companions import Companions
from e2e.fleet import Fleet
from e2e.poll import WaitTimeoutError


class Recorder:
    """Stands for the host: what was asked of it, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.created: list[dict[str, Any]] = []
        self.stays: set[str] = set()

    def create(self, obj: dict[str, Any]) -> None:
        self.asked.append(f"create {obj['metadata']['name']}")
        self.created.append(obj)

    def delete(self, kind: str, name: str) -> None:
        self.asked.append(f"delete {kind} {name}")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()

    def wait_gone(host: Recorder, name: str, **_: float) -> None:
        if name in host.stays:
            raise WaitTimeoutError(f"Namespace bh-{name}")
        host.asked.append(f"gone {name}")

    monkeypatch.setattr(fleet.tenants, "remove", lambda *_: None)
    monkeypatch.setattr(fleet.tenants, "wait_ready", lambda *_: None)
    monkeypatch.setattr(fleet.tenants, "wait_gone", wait_gone)
    monkeypatch.setattr(fleet.tenants, "open_tenant", lambda name: tenants.Tenant(name, None))  # type: ignore[arg-type]
    return made


def test_a_tenant_is_made_once_however_often_it_is_ordered(host: Recorder) -> None:
    made = Fleet(host)  # type: ignore[arg-type]
    for _ in range(2):
        made.order(tenants.manifest("one"))
    assert made.take(tenants.manifest("one")).name == "one"
    assert made.take(tenants.manifest("one")).name == "one"
    made.close()
    assert host.asked == ["create one", "delete Tenant one", "gone one"]


def test_what_tenants_refer_to_goes_after_them_all(host: Recorder) -> None:
    made = Fleet(host)  # type: ignore[arg-type]
    made.take(tenants.manifest("one"))
    made.discard("TenantClass", "theirs")
    made.leave("one")
    made.take(tenants.manifest("two"))
    made.close()
    assert host.asked[-3:] == ["gone one", "gone two", "delete TenantClass theirs"]


def test_what_is_left_of_a_tenant_is_named_whichever_it_was(host: Recorder) -> None:
    made = Fleet(host)  # type: ignore[arg-type]
    host.stays = {"one"}
    for name in ("one", "two"):
        made.take(tenants.manifest(name))
        made.leave(name)
    with pytest.raises(AssertionError, match="Namespace bh-one"):
        made.close()
    assert "gone two" in host.asked


def test_a_tenant_that_could_not_be_created_fails_each_test_that_takes_it(
    host: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise WaitTimeoutError("PlaneReady=False")

    monkeypatch.setattr(fleet.tenants, "wait_ready", never)
    made = Fleet(host)  # type: ignore[arg-type]
    made.order(tenants.manifest("one"))
    with pytest.raises(WaitTimeoutError, match="PlaneReady"):
        made.take(tenants.manifest("one"))
    made.close()
    assert host.asked[-1] == "gone one"


def test_planes_request_less_cpu_than_usual_unless_the_test_says_how_much(host: Recorder) -> None:
    made, small = Fleet(host), tenants.manifest("small", controlPlane={"storage": {"quota": "100Mi"}})  # type: ignore[arg-type]
    large = tenants.manifest("large", controlPlane={"resources": {"apiServer": {"requests": {"cpu": "50m"}}}})
    for wanted in (small, large):
        made.take(wanted)
    first, second = (obj["spec"]["controlPlane"] for obj in host.created)
    assert first["storage"] == {"quota": "100Mi"}
    assert first["resources"]["apiServer"] == {"requests": {"cpu": "15m"}}
    assert second == large["spec"]["controlPlane"]
    assert "resources" not in small["spec"]["controlPlane"], "the caller's manifest was changed"


def test_what_a_function_orders_is_made_once_and_left_together(host: Recorder) -> None:
    made, asked = Fleet(host), 0  # type: ignore[arg-type]

    def ahead(_: Fleet) -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        return [tenants.manifest("one"), tenants.manifest("two")]

    for _ in range(2):
        made.begin(ahead)
    assert asked == 1
    assert {made.take(manifest).name for manifest in ahead(made)} == {"one", "two"}
    made.leave_all(ahead)
    assert host.asked[-2:] == ["delete Tenant one", "delete Tenant two"]
    made.leave_all(ahead)
    assert len(host.asked) == 4
    made.close()


def test_what_no_test_has_ordered_is_not_left(host: Recorder) -> None:
    made = Fleet(host)  # type: ignore[arg-type]
    made.leave_all(lambda _: tenants.manifest("one"))
    made.close()
    assert host.asked == []


def test_another_process_keeps_the_tenant_that_both_use(host: Recorder, tmp_path: Path) -> None:
    fleets = [Fleet(host, Companions(tmp_path, "run", "bob")) for _ in range(2)]  # type: ignore[arg-type]
    for made in fleets:
        assert made.take(tenants.manifest("bob")).name == "bob"
    assert host.asked == ["create bob"]
    fleets[0].close()
    assert host.asked == ["create bob"]
    fleets[1].close()
    assert host.asked == ["create bob", "delete Tenant bob", "gone bob"]


@pytest.mark.parametrize(
    ("former", "wanted"),
    [
        ({}, {"resources": {"gpu": {"nominal": 2}}}),
        ({"resources": {"gpu": {"nominal": 2}}}, {"objects": {"pods": 100}}),
        (
            {"cohort": "a", "resources": {"gpu": {"nominal": 2, "borrowingLimit": 0}}},
            {"cohort": "b", "resources": {"gpu": {"nominal": 3}}},
        ),
        ({"resources": {"gpu": {"flavors": [1]}, "slices": {"nominal": 0}}}, {"resources": {"gpu": {"nominal": 3}}}),
    ],
)
def test_a_quota_takes_the_place_of_all_of_the_former(former: dict[str, Any], wanted: dict[str, Any]) -> None:
    asked: list[str] = []

    class Host:
        def __init__(self) -> None:
            self.tenant: dict[str, Any] = {"metadata": {"generation": 1}, "spec": {"class": "standard", "quota": former}}

        def get(self, *_: str) -> dict[str, Any]:
            return self.tenant

        def list(self, _kind: str, namespace: str) -> list[dict[str, Any]]:
            assert namespace == "bh-one-work"
            asked.append(namespace)
            hard = {"pods": "9"}
            counted = {"metadata": {"name": "tenant-quota"}, "spec": {"hard": hard}, "status": {"hard": hard}}
            return [counted | ({} if len(asked) > 1 else {"status": {}})]

        def patch(self, _kind: str, _name: str, body: dict[str, Any]) -> None:
            self.tenant = merged(self.tenant, body)
            ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
            self.tenant = merged(self.tenant, {"status": {"conditions": [ready]}})

    host = Host()
    tenants.give_quota(host, "one", wanted)  # type: ignore[arg-type]
    assert host.tenant["spec"] == {"class": "standard", "quota": wanted}
    assert len(asked) == 2, "the host has counted by it"


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
