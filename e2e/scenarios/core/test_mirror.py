"""What pods need: ConfigMaps and Secrets, Services and their addresses, DNS, status, events, nodes."""

from e2e import workloads
from e2e.api import Api
from e2e.commands import kubectl
from e2e.poll import until
from e2e.tenants import Tenant


def test_item_17_34_config_maps_and_secrets_reach_the_pod_and_follow_changes(host: Api, alice: Tenant, space: str) -> None:
    for kind, name in (("ConfigMap", "settings"), ("Secret", "password")):
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": space}}
        alice.api.create(body | ({"data": {"key": "one"}} if kind == "ConfigMap" else {"stringData": {"key": "one"}}))
    spec = workloads.pod_spec(
        volumes=[
            {"name": "settings", "configMap": {"name": "settings"}},
            {"name": "password", "secret": {"secretName": "password"}},
        ]
    )
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("settings", "password")]
    value = {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}}}
    spec["containers"][0] |= {"volumeMounts": mounts, "env": [value], "envFrom": [{"secretRef": {"name": "password"}}]}
    alice.api.create(workloads.pod("reader", spec, namespace=space))
    workloads.wait_running(alice.api, "reader", namespace=space)
    for command in ("cat /settings/key", "cat /password/key", "echo $KEY", "echo $key"):
        assert run(alice, space, "reader", command) == "one"
    alice.api.patch("ConfigMap", "settings", {"data": {"key": "two"}}, space)

    def followed() -> None:
        bodies = [item.get("data") for item in host.list("ConfigMap", alice.work, labels="bulkhead.dev/managed-by=syncer")]
        workloads.expect({"key": "two"} in bodies, "the host's copy is old")

    until("the host's copy to follow", followed, seconds=30)


def test_only_what_pods_refer_to_is_mirrored(host: Api, alice: Tenant, space: str) -> None:
    for name in ("unused", "used"):
        metadata = {"name": name, "namespace": space}
        alice.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"key": f"{name}-by-all"}})
    spec = workloads.pod_spec()
    spec["containers"][0]["envFrom"] = [{"secretRef": {"name": "used"}}]
    alice.api.create(workloads.pod("plain", spec, namespace=space))
    workloads.wait_running(alice.api, "plain", namespace=space)
    notes = [item["metadata"].get("annotations", {}) for item in host.list("Secret", alice.work)]
    origins = [note.get("bulkhead.dev/virtual-name") for note in notes]
    assert "used" in origins
    assert "unused" not in origins


def test_services_keep_their_addresses_and_go_with_their_originals(host: Api, alice: Tenant, space: str) -> None:
    virtual = alice.api.create(workloads.service("web", "web", 80, namespace=space))
    address = virtual["spec"]["clusterIP"]

    def mirrored() -> None:
        found = [item["spec"].get("clusterIP") for item in host.list("Service", alice.work)]
        workloads.expect(address in found, f"{address} is not among {found}")

    until("the Service to be on the host with its address", mirrored, seconds=20)
    alice.api.delete("Service", "web", space)

    def gone() -> None:
        found = [item["spec"].get("clusterIP") for item in host.list("Service", alice.work)]
        workloads.expect(address not in found, "still there")

    until("the host's Service to go", gone, seconds=20)


def test_item_27_headless_services_and_pod_names_resolve(alice: Tenant, space: str) -> None:
    service = workloads.service("ring", "member", 80, namespace=space)
    service["spec"]["clusterIP"] = "None"
    alice.api.create(service)
    alice.api.create(workloads.pod("member", workloads.pod_spec(hostname="member", subdomain="ring"), namespace=space))
    pod = workloads.wait_running(alice.api, "member", namespace=space)

    def resolves() -> None:
        answer = run(alice, space, "member", f"nslookup member.ring.{space}.svc.cluster.local || true")
        workloads.expect(pod["status"]["podIP"] in answer, answer)

    until("the pod's own name to resolve", resolves, seconds=30)


def test_item_81_the_kubernetes_service_works_unchanged_in_a_pod(alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("plain", namespace=space))
    workloads.wait_running(alice.api, "plain", namespace=space)
    address = alice.api.get("Service", "kubernetes", "default")["spec"]["clusterIP"]
    assert run(alice, space, "plain", "echo $KUBERNETES_SERVICE_HOST") == address

    def reached() -> None:
        """The node lets a new pod use its network a moment after the pod's start."""
        opened = "nc -w 3 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo open || true"
        workloads.expect(run(alice, space, "plain", opened) == "open", "the API is not reached")
        said = run(alice, space, "plain", "nslookup kubernetes.default.svc.cluster.local || true")
        workloads.expect(address in said, said)

    until("the Service and its name to be reached", reached, seconds=30)


def test_item_19_20_the_variables_of_the_api_behave_as_a_kubelets_own(alice: Tenant, space: str) -> None:
    address = alice.api.get("Service", "kubernetes", "default")["spec"]["clusterIP"]
    alice.api.create(
        {"kind": "ConfigMap", "metadata": {"name": "own", "namespace": space}, "data": {"KUBERNETES_PORT": "mine"}}
    )
    spec = workloads.pod_spec(("sh", "-c", "echo argument $(KUBERNETES_SERVICE_PORT_HTTPS); env"), restart="Never")
    spec["containers"][0] |= {
        "envFrom": [{"configMapRef": {"name": "own"}}],
        "env": [
            {"name": "URL", "value": "https://$(KUBERNETES_SERVICE_HOST)"},
            {"name": "KUBERNETES_SERVICE_PORT", "value": "8443"},
        ],
    }
    alice.api.create(workloads.pod("reads", spec, namespace=space))
    workloads.wait_phase(alice.api, "reads", ("Succeeded",), namespace=space)
    said = set(kubectl(alice.kubeconfig, "-n", space, "logs", "reads").out.splitlines())
    own = {
        "argument 443",
        f"URL=https://{address}",
        f"KUBERNETES_SERVICE_HOST={address}",
        f"KUBERNETES_PORT_443_TCP_ADDR={address}",
    }
    assert said >= own | {"KUBERNETES_PORT=mine", "KUBERNETES_SERVICE_PORT=8443"}
    assert len([line for line in said if line.startswith("KUBERNETES_")]) == 8


def test_item_63_status_goes_up_with_exit_codes_and_restarts(alice: Tenant, space: str) -> None:
    failing = workloads.pod_spec(("sh", "-c", "exit 3"), restart="Never")
    alice.api.create(workloads.pod("failing", failing, namespace=space))
    pod = workloads.wait_phase(alice.api, "failing", ("Failed",), namespace=space)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    alice.api.create(workloads.pod("good", workloads.pod_spec(("true",), restart="Never"), namespace=space))
    workloads.wait_phase(alice.api, "good", ("Succeeded",), namespace=space)


def test_events_of_the_host_pod_are_told_on_the_virtual_pod(alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("plain", namespace=space))
    pod = workloads.wait_running(alice.api, "plain", namespace=space)

    def reported() -> None:
        events = alice.api.list("Event", space, fields=f"involvedObject.uid={pod['metadata']['uid']}")
        reasons = {event.get("reason") for event in events}
        workloads.expect(bool(reasons & {"Started", "Created", "Scheduled", "Pulled"}), str(reasons))

    until("an event of the host", reported, seconds=30)


def test_nodes_are_shown_without_what_belongs_to_others(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("plain", namespace=space))
    pod = workloads.wait_running(alice.api, "plain", namespace=space)
    shown = alice.api.get("Node", pod["spec"]["nodeName"])
    real = host.get("Node", pod["spec"]["nodeName"])
    assert shown["metadata"]["labels"]["kubernetes.io/hostname"] == real["metadata"]["labels"]["kubernetes.io/hostname"]
    assert real["status"].get("images")
    assert not shown["status"].get("images")
    addresses = {item["address"] for item in shown["status"].get("addresses", []) if item["type"] == "InternalIP"}
    assert addresses != {item["address"] for item in real["status"]["addresses"] if item["type"] == "InternalIP"}


def run(tenant: Tenant, namespace: str, pod: str, command: str) -> str:
    return kubectl(tenant.kubeconfig, "-n", namespace, "exec", pod, "--", "sh", "-c", command).out.strip()
