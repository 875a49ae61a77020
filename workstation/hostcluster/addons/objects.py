"""Applies the objects of the embedded host: name service, storage classes, metrics API, GPU labels, simulated nodes.

Level-triggered: it applies everything each time with server-side apply, so it may run at any time and repeatedly. It waits for
the real nodes, because kubelets create the objects that get the labels.
"""

import asyncio
import hashlib
import json
import subprocess
import time
from typing import Any

from workstation.hostcluster import health, programs
from workstation.hostcluster.addons import gpus
from workstation.hostcluster.addons.dns import COREFILE, dns_objects
from workstation.hostcluster.addons.metrics import metrics_access, metrics_api, metrics_endpoint
from workstation.hostcluster.addons.processes import METRICS_ADDRESS
from workstation.hostcluster.component import NODE_ADDRESS, HostContext, HttpHealth, Progress
from workstation.hostcluster.images.build import COREDNS
from workstation.hostcluster.kwok.nodes import SIMULATED_LABEL, node_name, node_status, real_node_labels, simulated_node
from workstation.hostcluster.node import Node, nodes_of, present
from workstation.hostcluster.storage.volumes import CLASS, IMMEDIATE_CLASS, PROVISIONER

_NODE_DEADLINE = 60
_CALL_DEADLINE = 90
_METRICS_DEADLINE = 30.0


class AddonError(RuntimeError):
    """The host's objects could not be applied; the text has the reason."""


def _kubectl(ctx: HostContext, *arguments: str, given: str | None = None) -> str:
    command = [str(ctx.binaries["kubectl"]), f"--kubeconfig={ctx.kubeconfig}", "--request-timeout=30s", *arguments]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=_CALL_DEADLINE, check=False,
            env=programs.directly(NODE_ADDRESS),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise AddonError(
            f"kubectl {arguments[0]}: no answer within {_CALL_DEADLINE} s (log: {ctx.log('kube-apiserver')})"
        ) from error
    if done.returncode != 0:
        raise AddonError(f"kubectl {' '.join(arguments[:4])}: {done.stderr.strip()}")
    return done.stdout


def _apply(ctx: HostContext, objects: list[dict[str, Any]], *options: str) -> None:
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    _kubectl(
        ctx, "apply", "--server-side", "--force-conflicts", "--field-manager=bulkhead-host", *options, "-f", "-", given=document
    )


def storage_classes() -> list[dict[str, Any]]:
    """Two classes: the default, which creates a volume once its pod has a node; and one for volumes on the real node.

    The scheduler checks only once a second whether a volume is bound. So pods that can only run on the real node, such as the
    planes' pods, start one or two seconds earlier with the second class.
    """
    default = {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    common = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": PROVISIONER, "reclaimPolicy": "Delete"}
    return [
        {**common, "metadata": default, "volumeBindingMode": "WaitForFirstConsumer"},
        {**common, "metadata": {"name": IMMEDIATE_CLASS}, "volumeBindingMode": "Immediate"},
    ]


def _real_node(node: Node) -> dict[str, Any]:
    count = node.ctx.options.gpus_per_node
    labels = real_node_labels(count, node.index) if count else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}}


def _drop_surplus_nodes(ctx: HostContext, wanted: set[str]) -> None:
    listed = _kubectl(ctx, "get", "nodes", "-l", f"{SIMULATED_LABEL}=true", "-o", "jsonpath={.items[*].metadata.name}")
    surplus = sorted(set(listed.split()) - wanted)
    if surplus:
        _kubectl(ctx, "delete", "node", "--wait=false", *surplus)


def _await_metrics(ctx: HostContext) -> str:
    """Wait until metrics-server answers. Returns an empty text, or the last error."""
    probe = HttpHealth(f"https://{METRICS_ADDRESS}/livez", ctx.pki_dir / "ca.crt")
    until = time.monotonic() + _METRICS_DEADLINE
    while (wrong := asyncio.run(health.http(probe))) and time.monotonic() < until:
        time.sleep(0.2)
    return wrong


def _metrics_registration(ctx: HostContext, report: Progress) -> list[dict[str, Any]]:
    """Register the metrics API if its server answers: an API without a server would keep namespaces from being deleted."""
    wrong = _await_metrics(ctx)
    if not wrong:
        return [metrics_api((ctx.pki_dir / "ca.crt").read_bytes())]
    report.warn(
        f"metrics-server does not answer, so `kubectl top` stays as it was: {wrong}; see {ctx.log('metrics-server')}, "
        "then run `bulkhead host up` again"
    )
    return []


def grant(ctx: HostContext) -> None:
    """Grant a new host's add-on processes their rights early: once refused, metrics-server retries at ever longer intervals."""
    _apply(ctx, metrics_access())


def apply(ctx: HostContext, report: Progress) -> None:
    """Apply the host's objects as the options require."""
    options = ctx.options
    report.detail("nodes")
    for node in present(ctx):
        _kubectl(ctx, "wait", "--for=create", f"node/{node.name}", f"--timeout={_NODE_DEADLINE}s")
    digest = hashlib.sha256(COREFILE.encode()).hexdigest()[:16]
    indices = range(options.simulated_nodes)
    report.detail(f"name service, storage classes, {len(indices)} simulated nodes")
    nodes = [simulated_node(index, options.gpus_per_node, options.nvlink_domain_size) for index in indices]
    metrics = [*metrics_access(), *metrics_endpoint(), *_metrics_registration(ctx, report)]
    exporters = gpus.endpoint(nodes_of(ctx)) if options.gpus_per_node else []
    always = [*storage_classes(), *dns_objects(COREDNS, digest), *metrics, *exporters]
    _apply(ctx, [*always, *map(_real_node, nodes_of(ctx)), *nodes])
    if nodes:
        _apply(ctx, [node_status(index, options.gpus_per_node) for index in indices], "--subresource=status")
    _drop_surplus_nodes(ctx, {node_name(index) for index in indices})
