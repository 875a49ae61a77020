"""metrics-server of the embedded host: its process and its objects agree, and its API is registered only when it is served."""

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.hostcluster.context import make_context
from workstation.hostcluster import health, pki
from workstation.hostcluster.addons import metrics, objects
from workstation.hostcluster.addons.processes import components
from workstation.hostcluster.component import NODE_ADDRESS, Component, HostContext, HttpHealth


class Notes:
    """A report that keeps its warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def step(self, text: str) -> None:
        return

    def detail(self, text: str) -> None:
        return

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def _process(ctx: HostContext) -> Component:
    return next(one for one in components(ctx) if one.name == "metrics-server")


def _flags(ctx: HostContext) -> dict[str, str]:
    return {name: value for name, _, value in (word.removeprefix("--").partition("=") for word in _process(ctx).argv[1:])}


def _leaf(name: str) -> pki.Leaf:
    return next(leaf for leaf in pki.LEAVES if leaf.name == name)


def test_every_file_that_the_process_is_given_is_made(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    given = [Path(value) for value in _flags(ctx).values() if value.startswith("/")]
    assert len(given) == 8
    assert all(path.is_file() for path in given)


def test_it_checks_the_kubelet_and_shows_a_certificate_that_the_api_server_can_check(tmp_path: Path) -> None:
    flags = _flags(make_context(tmp_path))
    assert not [name for name in flags if "insecure" in name]
    assert flags["kubelet-certificate-authority"] == flags["client-ca-file"]
    serving = _leaf("metrics-server-serving")
    assert (serving.server, serving.client) == (True, False)
    spec = metrics.metrics_api(b"authority")["spec"]
    assert serving.hosts == (f"{spec['service']['name']}.{spec['service']['namespace']}.svc", NODE_ADDRESS)
    assert base64.b64decode(spec["caBundle"]) == b"authority"
    assert "insecureSkipTLSVerify" not in spec


def test_it_needs_no_right_to_start(tmp_path: Path) -> None:
    flags = _flags(make_context(tmp_path))
    assert flags["authentication-skip-lookup"] == "true"
    assert flags["requestheader-client-ca-file"].endswith("front-proxy-ca.crt")
    assert flags["requestheader-allowed-names"] == _leaf("front-proxy-client").common_name


def test_it_leaves_simulated_nodes_out(tmp_path: Path) -> None:
    assert _flags(make_context(tmp_path))["node-selector"] == "bulkhead.dev/simulated!=true"


def test_the_service_leads_to_the_process(tmp_path: Path) -> None:
    flags = _flags(make_context(tmp_path))
    service, slice_ = metrics.metrics_endpoint()
    (port,), (behind,) = service["spec"]["ports"], slice_["ports"]
    assert "selector" not in service["spec"]
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    assert slice_["endpoints"][0]["addresses"] == [flags["bind-address"]]
    assert (port["name"], str(port["targetPort"])) == (behind["name"], flags["secure-port"])
    assert port["targetPort"] == behind["port"]
    api = metrics.metrics_api(b"")["spec"]["service"]
    assert api == {"namespace": service["metadata"]["namespace"], "name": service["metadata"]["name"], "port": port["port"]}


def test_it_only_reads_and_asks_about_others() -> None:
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in metrics.metrics_access()}
    verbs = {verb for one in by_name.values() for rule in one.get("rules", []) for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    bindings = [one for (kind, _), one in by_name.items() if kind == "ClusterRoleBinding"]
    assert {one["roleRef"]["name"] for one in bindings} == {"system:metrics-server", "system:auth-delegator"}
    users = [subject["name"] for one in bindings for subject in one["subjects"]]
    assert set(users) == {_leaf("metrics-server").common_name}
    assert _leaf("metrics-server").organization == ""


def test_a_user_who_may_view_a_namespace_may_read_the_metrics_of_its_pods() -> None:
    role = next(one for one in metrics.metrics_access() if one["metadata"]["name"] == "system:aggregated-metrics-reader")
    labels = role["metadata"]["labels"]
    assert all(labels[f"rbac.authorization.k8s.io/aggregate-to-{name}"] == "true" for name in ("view", "edit", "admin"))
    assert role["rules"][0]["apiGroups"] == ["metrics.k8s.io"]


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds that are applied, while nothing is."""
    kinds: list[str] = []

    def note(_: HostContext, given: list[dict[str, Any]], *options: str) -> None:
        kinds.extend(one["kind"] for one in given)

    monkeypatch.setattr(objects, "_apply", note)
    monkeypatch.setattr(objects, "_kubectl", lambda *_, **__: "")
    monkeypatch.setattr(objects, "_METRICS_DEADLINE", 0.0)
    return kinds


def _answering(monkeypatch: pytest.MonkeyPatch, wrong: str) -> list[HttpHealth]:
    asked: list[HttpHealth] = []

    async def answer(check: HttpHealth) -> str:
        asked.append(check)
        return wrong

    monkeypatch.setattr(health, "http", answer)
    return asked


def test_its_api_is_registered_when_it_answers(tmp_path: Path, applied: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, notes = make_context(tmp_path), Notes()
    pki.ensure_pki(ctx)
    asked = _answering(monkeypatch, "")
    objects.apply(ctx, notes)
    assert applied.count("APIService") == 1
    assert notes.warnings == []
    assert asked == [HttpHealth(f"https://{NODE_ADDRESS}:{metrics.PORT}/livez", ctx.pki_dir / "ca.crt")]


def test_without_an_answer_the_rest_is_applied_and_a_person_told(
    tmp_path: Path, applied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx, notes = make_context(tmp_path), Notes()
    _answering(monkeypatch, "connection refused")
    objects.apply(ctx, notes)
    assert "APIService" not in applied
    assert {"EndpointSlice", "ClusterRoleBinding", "StorageClass", "Node"} <= set(applied)
    (warning,) = notes.warnings
    for part in ("connection refused", str(ctx.log("metrics-server"))):
        assert part in warning


def test_rights_can_be_given_before_there_is_a_node(tmp_path: Path, applied: list[str]) -> None:
    objects.grant(make_context(tmp_path))
    assert set(applied) == {"ClusterRole", "ClusterRoleBinding"}
