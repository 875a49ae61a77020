"""Planes against the CIS benchmark: each control that a plane does not meet has its reason, and the page shows what is true."""

import json
import os
from functools import cache
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from controller.plane import apiserver, authentication
from controller.plane.render import render
from controller.plane.spec import ETCD_METRICS_PORT, KCM_PORT
from tests.controller.plane import cis
from tests.controller.plane.test_rendering import CASES
from tests.kit.tenantsamples import material, plane_spec

PAGE = cis.ROOT / "docs" / "security.md"


@cache
def planes() -> dict[str, list[Obj]]:
    specs = {name: plane_spec(**CASES[name]) for name in CASES}
    return {name: render(spec, material(spec)).everything() for name, spec in specs.items()}


def test_a_deviation_has_a_reason_and_nothing_else_has_one() -> None:
    deviations = cis.deviating(planes())
    unexplained = {control.id: names for control, names in deviations.items() if not control.why}
    assert unexplained == {}, (
        "a plane does otherwise than the benchmark asks: correct the plane, or write the reason into cis.yaml"
    )
    stale = [control.id for control in cis.controls() if control.why and control.wants and control not in deviations]
    assert stale == [], "every plane meets these: take the reason away, and say it in `note` if it is worth it"


def test_the_page_shows_the_controls_as_planes_are() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(cis.BEGIN)
    _, after = rest.split(cis.END)
    expected = before + cis.table(planes()) + after
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(expected, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == expected, "set UPDATE_GOLDEN=1, and review what it writes"


def test_the_benchmarks_numbers_stand_there_once_and_whole() -> None:
    numbers = [control.id for control in cis.controls() if control.id[0].isdigit()]
    of_apiserver = [f"1.2.{number}" for number in range(1, 31)]
    of_managers = [f"1.3.{number}" for number in range(1, 8)]
    of_etcd = [f"2.{number}" for number in range(1, 8)]
    assert numbers == ["1.1", *of_apiserver, *of_managers, "1.4", *of_etcd, "3.1.1", "3.1.2", "3.1.3", "3.2.1", "3.2.2"]


def test_what_no_flag_shows_a_test_holds() -> None:
    assert [control.held for control in cis.controls() if control.held and not cis.exists(control.held)] == []


def test_every_flag_of_the_table_is_looked_for_in_a_program_that_runs() -> None:
    for control in cis.controls():
        assert not control.wants or cis.flags_of(planes()["standard"], control.program), control.id


@pytest.mark.parametrize(
    ("value", "wanted", "met"),
    [
        ("", "set", False),
        ("/a", "set", True),
        ("", "unset", True),
        ("/a", "unset", False),
        ("true", "true", True),
        ("", "true", False),
        ("Node,RBAC", {"has": "RBAC"}, True),
        ("Node,RBACs", {"has": "RBAC"}, False),
        ("Node,AlwaysAllow", {"hasNot": "AlwaysAllow"}, False),
        ("", {"hasNot": "AlwaysAllow"}, True),
        ("30", {"atLeast": 30}, True),
        ("29", {"atLeast": 30}, False),
        ("", {"atLeast": 30}, False),
        ("A,B", {"within": ["A", "B", "C"]}, True),
        ("A,D", {"within": ["A", "B", "C"]}, False),
        ("", {"within": ["A"]}, False),
    ],
)
def test_a_flag_is_judged_as_the_benchmark_does(value: str, wanted: Any, met: bool) -> None:
    assert cis.fits(value, wanted) is met


@pytest.mark.parametrize(
    ("change", "message"),
    [({"want": {}}, "no such fields"), ({"program": "kubelet"}, "program must be"), ({"wants": {}}, "needs `wants` or `held`")],
)
def test_an_entry_that_says_nothing_is_refused(change: dict[str, Any], message: str) -> None:
    entry = {"id": "1.2.1", "program": "etcd", "asks": "a thing", "wants": {"--a": "set"}}
    with pytest.raises(ValueError, match=message):
        cis.control_of(entry | change)


def test_anonymous_requests_reach_health_paths_alone() -> None:
    for name in CASES:
        configuration = authentication.configuration(plane_spec(**CASES[name]), "of the shim")
        assert configuration["anonymous"] == {
            "enabled": True,
            "conditions": [{"path": path} for path in ("/livez", "/readyz", "/healthz")],
        }


def test_secrets_are_encrypted_before_all_else() -> None:
    (encrypted,) = json.loads(apiserver.encryption_config("a2V5"))["resources"]
    assert encrypted["resources"] == ["secrets"]
    assert [next(iter(provider)) for provider in encrypted["providers"]] == ["secretbox", "identity"]


def test_etcd_believes_a_ca_of_its_own() -> None:
    """The CA of its volume is the plane's etcd CA, and no other file of the plane holds that one as a CA of clients."""
    (secret,) = [obj for obj in planes()["standard"] if obj["kind"] == "Secret" and obj["metadata"]["name"] == "pki-etcd"]
    (others,) = [obj for obj in planes()["standard"] if obj["kind"] == "Secret" and obj["metadata"]["name"] == "pki-apiserver"]
    own = secret["data"]["ca.crt"]
    assert own == others["data"]["etcd-ca.crt"]
    assert own not in {content for name, content in others["data"].items() if name != "etcd-ca.crt"}


def test_keys_are_mounted_from_secrets_for_their_own_group_alone() -> None:
    for rendered in planes().values():
        for obj in rendered:
            if obj["kind"] not in {"StatefulSet", "Deployment"}:
                continue
            pod = obj["spec"]["template"]["spec"]
            assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
            secret = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
            assert {volume["defaultMode"] for volume in secret.values()} == {0o440}
            mounts = [mount for found in pod["containers"] for mount in found["volumeMounts"] if mount["name"] in secret]
            assert mounts
            assert all(mount["readOnly"] for mount in mounts)


def test_no_pod_reaches_what_listens_for_the_kubelet() -> None:
    for rendered in planes().values():
        policies = [
            obj for obj in rendered if obj["kind"] == "NetworkPolicy" and not obj["metadata"]["namespace"].endswith("-work")
        ]
        assert any(obj["spec"]["podSelector"] == {} for obj in policies), "one that denies by default"
        for rule in (rule for obj in policies for rule in obj["spec"].get("ingress", ())):
            assert rule["ports"], "a rule without ports opens all of them"
            assert not {port["port"] for port in rule["ports"]} & {ETCD_METRICS_PORT, KCM_PORT}


def test_a_plane_has_no_scheduler() -> None:
    for rendered in planes().values():
        assert {found["name"] for found in cis.containers(rendered)} <= {
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "audit",
        }
