"""All objects of a Slurm cluster against golden files, and what must hold of every cluster whatever it looks like."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api import names
from bulkhead.api.objects import Obj
from controller.slurm.keygen import make_auth_key, make_jwt_key, make_keys
from controller.slurm.objects import render, workers
from controller.slurm.spec import NodeSetSpec, image
from controller.slurm.spec.keys import AuthKey, SlurmKeys, staged
from tests.kit import goldens
from tests.kit.slurmsamples import CASES, KEYS, slurm_spec

GOLDEN = Path(__file__).parent / "golden"
# Cases that are near enough to another one for their differences to be the shorter file.
VARIANTS = {"fixed": "smallest", "certificates": "smallest"}
BASELINE_ADDS = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
ORDER = [
    "Namespace",
    "Secret",
    "ConfigMap",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "PersistentVolumeClaim",
    "Service",
    "StatefulSet",
    "Deployment",
]
ORDER += ["CustomResourceDefinition", "NodeSet"]


def everything(name: str) -> list[Obj]:
    spec = slurm_spec(CASES[name])
    objects = [obj for obj in render.render(spec, KEYS, ("ssh-ed25519 AAAA",)) if obj["kind"] != "CustomResourceDefinition"]
    return [*objects, *(workers.worker_pod(spec, each, 0, owner_uid="uid-of-node-set") for each in spec.node_sets)]


def pods(name: str) -> Iterator[Obj]:
    for obj in everything(name):
        if obj["kind"] in {"StatefulSet", "Deployment"}:
            yield obj["spec"]["template"]["spec"]
        elif obj["kind"] == "Pod":
            yield obj["spec"]


def test_a_new_password_restarts_the_database_and_what_uses_it() -> None:
    """MariaDB sets the password of its user at its start, so slurmdbd alone would be refused."""

    def templates(keys: SlurmKeys) -> dict[str, Obj]:
        made = render.render(slurm_spec(CASES["everything"]), keys)
        return {obj["metadata"]["name"]: obj["spec"]["template"] for obj in made if obj["kind"] == "StatefulSet"}

    first = make_keys()
    other = replace(make_keys(), ssh_host_key=first.ssh_host_key, ssh_host_key_public=first.ssh_host_key_public)
    before, after = templates(first), templates(other)
    assert {name for name in before if before[name] != after[name]} == {"mariadb", "slurmdbd"}
    rotated = staged(first, make_auth_key())
    assert templates(replace(rotated, jwt=make_jwt_key())) == before


def test_a_clone_knows_all_secrets_and_settings_of_a_cluster() -> None:
    """Those that it did not know would come along, with the original's keys and the name of its cluster."""
    made = [obj for name in CASES for obj in everything(name)]
    found = {kind: {obj["metadata"]["name"] for obj in made if obj["kind"] == kind} for kind in ("Secret", "ConfigMap")}
    assert found == {"Secret": names.SLURM_SECRETS, "ConfigMap": names.SLURM_CONFIG_MAPS}


@pytest.mark.parametrize("name", sorted(CASES.keys() - VARIANTS.keys()))
def test_the_rendered_cluster_is_the_golden_one(name: str) -> None:
    goldens.check(GOLDEN / f"{name}.yaml", goldens.whole(everything(name)))


@pytest.mark.parametrize(("name", "base"), VARIANTS.items())
def test_a_variant_of_a_cluster_differs_from_it_as_in_the_golden_file(name: str, base: str) -> None:
    goldens.check(GOLDEN / f"{name}.diff", goldens.differences(everything(base), everything(name)))


@pytest.mark.parametrize("name", CASES)
def test_rendering_twice_gives_the_same_in_the_order_of_application(name: str) -> None:
    spec = slurm_spec(CASES[name])
    once, again = render.render(spec, KEYS), render.render(spec, KEYS)
    assert json.dumps(once, sort_keys=True) == json.dumps(again, sort_keys=True)
    ranks = [ORDER.index(obj["kind"]) for obj in once]
    assert ranks == sorted(ranks)
    names = [(obj["kind"], obj["metadata"]["name"]) for obj in once]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", CASES)
def test_every_pod_passes_baseline_pod_security(name: str) -> None:
    for pod in pods(name):
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert not any("hostPath" in volume for volume in pod["volumes"])
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["privileged"] is False
            assert own["capabilities"]["drop"] == ["ALL"]
            assert set(own["capabilities"]["add"]) <= BASELINE_ADDS
            assert own["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["resources"]["limits"]["memory"]
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            claimed = {"state", "data"}  # of volumeClaimTemplates
            assert mounted - claimed == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", CASES)
def test_what_a_pod_mounts_was_rendered_before_it(name: str) -> None:
    spec = slurm_spec(CASES[name])
    objects = render.render(spec, KEYS)
    there = {(obj["kind"], obj["metadata"]["name"]) for obj in objects}
    for pod in pods(name):
        for volume in pod["volumes"]:
            if "secret" in volume:
                assert ("Secret", volume["secret"]["secretName"]) in there
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in there


def test_keys_lie_in_secrets_alone_and_only_where_they_are_needed() -> None:
    secrets = {"x" * 32, "y" * 32, "z" * 32, KEYS.database_password, "private host key"}
    encoded = secrets | {base64.b64encode(each.encode()).decode() for each in secrets}
    for obj in everything("everything"):
        if obj["kind"] != "Secret":
            assert not [each for each in encoded if each in json.dumps(obj)], obj["metadata"]["name"]
    held = {
        pod["containers"][0]["name"]: {
            volume["secret"]["secretName"]: {item["key"] for item in volume["secret"].get("items", [])}
            for volume in pod["volumes"]
            if "secret" in volume
        }
        for pod in pods("everything")
    }
    vouching, tokens = "slurm.jwks", "jwt_hs256.key"
    assert held == {
        "slurmctld": {"slurm-keys": {vouching, tokens}},
        "slurmdbd": {"slurm-keys": {vouching, tokens}, "slurm-database": {"slurmdbd.conf"}},
        "mariadb": {"slurm-database": {"password"}},
        "slurmrestd": {},
        # Root there must not be able to make tokens of others.
        "login": {"slurm-keys": {vouching}, "slurm-ssh-host-keys": set()},
        "slurmd": {"slurm-keys": {vouching}},
    }


def test_a_new_key_and_a_new_user_restart_nothing_and_a_new_partition_restarts_the_controller() -> None:
    def templates(asked: dict[str, Any], keys: Any = KEYS) -> dict[str, Obj]:
        objects = render.render(slurm_spec(asked), keys)
        return {
            obj["metadata"]["name"]: obj["spec"]["template"] for obj in objects if obj["kind"] in {"StatefulSet", "Deployment"}
        }

    before = CASES["everything"]
    rotated = replace(KEYS, auth=(AuthKey("third", b"d" * 32), *KEYS.auth[:1]))
    assert templates(before) == templates(before, rotated)
    assert templates(before) == templates(before | {"users": [*before["users"], {"name": "eve", "uid": 10002}]})
    grown = templates(before | {"nodeSets": [*before["nodeSets"], {"name": "more", "replicas": 1}]})
    assert {name for name, template in grown.items() if template != templates(before)[name]} == {"slurmctld", "slurmrestd"}


def test_users_are_lines_of_passwd_and_admins_are_root_on_login_nodes() -> None:
    maps = {obj["metadata"]["name"]: obj["data"] for obj in everything("everything") if obj["kind"] == "ConfigMap"}
    assert maps["slurm-users"]["passwd"].splitlines() == [
        "alice:*:10000:10000::/home/alice:/bin/bash",
        "bob:*:10001:10001::/home/bob:/bin/bash",
    ]
    assert maps["slurm-users"]["group"].splitlines()[-1] == "slurm-admins:*:9999:alice"
    keys = maps["slurm-authorized-keys"]
    assert keys.keys() == {"alice", "root"}
    assert keys["alice"] in keys["root"]
    assert len(keys["root"].splitlines()) == 2


# -- workers

SETS = [
    pytest.param({"gpus": 4, "gpu_type": "h100"}, id="typed GPUs"),
    pytest.param({"gpus": 8}, id="GPUs without a type"),
    pytest.param({"gpus": 1, "gpu_resource": "example.org/card"}, id="another resource"),
    pytest.param({}, id="no GPUs"),
]


@pytest.mark.parametrize("changes", SETS)
def test_a_worker_registers_exactly_what_its_pod_holds(changes: dict[str, Any]) -> None:
    node_set = NodeSetSpec(
        **({"name": "w", "replicas": 1, "minimum": 1, "maximum": 1, "cpus": 6, "memory_mib": 4096} | changes)
    )
    spec = slurm_spec(node_sets=(node_set,))
    pod = workers.worker_pod(spec, node_set, 3)
    (container,) = pod["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    words = dict(word.split("=", 1) for word in env[image.CONF_VARIABLE].split())
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert words["CPUs"] == limits["cpu"]
    assert int(words["RealMemory"]) + workers.OVERHEAD_MIB == int(limits["memory"].removesuffix("Mi"))
    assert env[image.GPUS_VARIABLE] == str(node_set.gpus)
    if node_set.gpus:
        assert words["Gres"].split(":")[-1] == limits[node_set.gpu_resource] == requests[node_set.gpu_resource]
    else:
        assert "Gres" not in words
        assert limits.keys() == requests.keys() == {"cpu", "memory"}


def test_a_worker_is_found_by_its_name_and_belongs_to_its_node_set() -> None:
    spec = slurm_spec(CASES["fixed"])
    pod = workers.worker_pod(spec, spec.node_sets[0], 1, owner_uid="u")
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "gpu-1"
    assert pod["spec"]["subdomain"] == "slurm-workers"
    assert pod["spec"]["dnsConfig"]["searches"] == ["slurm-workers.slurm.svc.cluster.local"]
    assert [(owner["kind"], owner["name"], owner["uid"]) for owner in pod["metadata"]["ownerReferences"]] == [
        ("NodeSet", "gpu", "u")
    ]
    assert "ownerReferences" not in workers.worker_pod(spec, spec.node_sets[0], 1)["metadata"]


def test_workers_are_recreated_when_their_size_changes_and_not_when_their_number_does() -> None:
    spec = slurm_spec(CASES["everything"])
    node_set = spec.node_sets[0]
    before = workers.worker_digest(spec, node_set)
    assert before == workers.worker_digest(spec, replace(node_set, replicas=4, maximum=9))
    for change in ({"gpus": 2}, {"memory_mib": 1024}, {"features": ("other",)}, {"extra_conf": ()}, {"node_selector": ()}):
        assert before != workers.worker_digest(spec, replace(node_set, **change))


def test_a_node_set_leaves_its_replicas_to_those_who_scale() -> None:
    sets = [obj for obj in everything("everything") if obj["kind"] == "NodeSet"]
    assert [obj["metadata"]["name"] for obj in sets] == ["h100", "cpu", "spare"]
    assert not any("replicas" in obj["spec"] for obj in sets)
    assert [(obj["spec"]["min"], obj["spec"]["max"]) for obj in sets] == [(1, 4), (0, 8), (1, 1)]
