"""The controllers of a plane against all that its kube-controller-manager has: each runs, or is left out for a reason."""

import re
import subprocess

import pytest

from controller.plane.controller_manager import CONTROLLERS, POD_GROUP_CONTROLLERS
from workstation.hostcluster import binaries

NODES = "nodes are the host's; the syncer shows them"
VOLUMES = "volumes are the host's, and addresses in volumes and classes would aim requests at its network"
SIGNING = "the plane holds no key to sign users' certificates with; its admin hands out access by RBAC and tokens"
CLOUD = "there is no cloud below a plane"
OFF = "serves an API that is off by default in this version"

LEFT_OUT = {
    "bootstrap-signer-controller": "kubeadm's joining of nodes: " + NODES,
    "certificatesigningrequest-approving-controller": "approves kubelets: " + NODES,
    "certificatesigningrequest-signing-controller": SIGNING,
    "cloud-node-lifecycle-controller": CLOUD,
    "device-taint-eviction-controller": "devices and their taints are the host's, where the same controller runs",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": OFF,
    "node-ipam-controller": NODES,
    "node-lifecycle-controller": NODES,
    "node-route-controller": CLOUD,
    "persistentvolume-attach-detach-controller": VOLUMES,
    "persistentvolume-binder-controller": VOLUMES,
    "persistentvolume-expander-controller": VOLUMES,
    "podcertificaterequest-cleaner-controller": OFF,
    "resourcepoolstatusrequest-controller": OFF,
    "selinux-warning-controller": "off by default, and tells of volumes on nodes",
    "service-cidr-controller": "makes further ranges usable, while the host has one slice for the tenant",
    "service-lb-controller": CLOUD,
    "storage-version-migrator-controller": OFF,
    "storageversion-garbage-collector-controller": OFF,
    "token-cleaner-controller": "kubeadm's joining of nodes: " + NODES,
    "ttl-controller": "tells kubelets how long to keep Secrets: " + NODES,
}


@pytest.mark.apiserver
def test_every_controller_of_the_shipped_version_runs_or_is_left_out_for_a_reason() -> None:
    program = binaries.ensure("kubernetes")["kube-controller-manager"]
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    listed = re.search(r"All controllers: (.+)$", told, re.MULTILINE)
    assert listed is not None, "how kube-controller-manager lists its controllers"
    everything = set(listed[1].split(", "))
    running = {*CONTROLLERS, *POD_GROUP_CONTROLLERS}
    assert not running & LEFT_OUT.keys()
    assert running | LEFT_OUT.keys() == everything
