"""Variables that make devices visible: whatever an image has baked in, a container gets what it asks for and nothing else."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import devices
from bulkhead.api.devices import VENDORS, Vendor
from bulkhead.api.objects import Obj
from syncer.translate.kinds import node
from syncer.translate.kinds.pod import ephemeral_containers, to_host
from syncer.translate.references import CONFIG_MAP
from tests.kit import translationsamples as samples

GPUS = frozenset(
    f"{domain}/gpu"
    for domain in (
        "nvidia.com", "amd.com", "habana.ai", "huawei.com", "mthreads.com", "hygon.com", "iluvatar.com", "iluvatar.ai",
        "cambricon.com", "aws.amazon.com", "enflame.com", "vastaitech.com", "metax-tech.com", "birentech.com", "example.com",
    )
)  # fmt: skip
OTHERS = frozenset({"nvidia.com/hostdev", "rdma/hca"})
# Names that closing values exist for; the others mean something only beside these.
NAMES = sorted(devices.environment())
IMAGE = dict.fromkeys(sorted(devices.VARIABLES), "all") | {devices.DRIVER_CAPABILITIES: "all"}
VIEWS = [
    samples.view({"gpu_resources": GPUS, "allowed_resources": OTHERS, "device_environment": name})
    for name in ("devices-v1", "")
]


def is_none(name: str, value: str) -> bool:
    """Whether the runtime that reads this variable hands out nothing for this value, as its own code or manual says."""
    if name == "HABANA_VISIBLE_DEVICES":
        return value == "none"  # empty and void are all
    if name == "ASCEND_VISIBLE_DEVICES":
        return value == ""  # it fails on words
    if name in {"HCU_VISIBLE_DEVICES", "DCU_VISIBLE_DEVICES", "ILUVATAR_COREX_VISIBLE_DEVICES", "IX_VISIBLE_DEVICES"}:
        return value == "void"
    if name.endswith("VISIBLE_DEVICES"):
        return value in {"", "void", "none"} and (name != "NVIDIA_VISIBLE_DEVICES" or value != "none")
    return value == ""


# What the device plugin of each domain's resources sets itself.
LEFT = {
    "nvidia.com": {"NVIDIA_VISIBLE_DEVICES"},
    "amd.com": {"AMD_VISIBLE_DEVICES"},
    "habana.ai": {"HABANA_VISIBLE_DEVICES"},
    "huawei.com": {"ASCEND_VISIBLE_DEVICES"},
    "mthreads.com": {"MTHREADS_VISIBLE_DEVICES"},
    "hygon.com": {"HCU_VISIBLE_DEVICES", "DCU_VISIBLE_DEVICES", "VHCU_VISIBLE_DEVICES", "MIG_VISIBLE_DEVICES"},
    "iluvatar.com": {"ILUVATAR_COREX_VISIBLE_DEVICES", "IX_VISIBLE_DEVICES"},
    "iluvatar.ai": {"ILUVATAR_COREX_VISIBLE_DEVICES", "IX_VISIBLE_DEVICES"},
    "cambricon.com": {"CAMBRICON_VISIBLE_DEVICES"},
    "aws.amazon.com": {"AWS_NEURON_VISIBLE_DEVICES"},
    "enflame.com": {"ENFLAME_VISIBLE_DEVICES", "TENCENT_VISIBLE_DEVICES"},
    "vastaitech.com": {"VASTAI_VISIBLE_DEVICES"},
    "metax-tech.com": {"METAX_VISIBLE_DEVICES"},
    "birentech.com": {"BIREN_VISIBLE_DEVICES"},
    "example.com": set(),
}


def open_for(resources: Any) -> set[str]:
    asked = {key for key, amount in (resources.get("limits") or {}).items() if key in GPUS and int(amount)}
    return {name for key in asked for name in LEFT[key.partition("/")[0]]}


REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.one_of(
            st.dictionaries(st.sampled_from(sorted(OTHERS)), st.sampled_from(["0", "1"])),
            st.tuples(
                st.sampled_from(sorted(GPUS)), st.sampled_from(["0", "1", "8"]), st.sampled_from([{}, {"rdma/hca": "1"}])
            ).map(lambda found: {found[0]: found[1]} | found[2]),
        )
    },
)
TRIES = st.lists(st.sampled_from([*NAMES, devices.DRIVER_CAPABILITIES, "HABANA_VISIBLE_DEVICES_X", "MINE"]), max_size=4).map(
    lambda names: [{"name": name, "value": "all"} for name in names]
)
CONTAINER = st.fixed_dictionaries({"resources": REQUESTS, "env": TRIES})


@given(st.lists(CONTAINER, min_size=1, max_size=3), st.lists(CONTAINER, max_size=2), TRIES, st.sampled_from(VIEWS))
def test_every_variable_is_closed_unless_the_container_asks_for_that_vendors_device(
    mains: list[Obj], inits: list[Obj], late: list[Obj], view: Any
) -> None:
    def named(entries: list[Obj], prefix: str) -> list[Obj]:
        return [{"name": f"{prefix}{index}", "image": "x"} | entry for index, entry in enumerate(entries)]

    virtual = samples.pod({"containers": named(mains, "m"), "initContainers": named(inits, "i")})
    virtual["spec"]["ephemeralContainers"] = named([{"env": late}], "e")
    spec = to_host(virtual, view)["spec"]
    for container in (*spec["containers"], *spec.get("initContainers", ()), *ephemeral_containers(virtual, view)):
        env = samples.effective_env(container, **IMAGE)
        left = open_for(container.get("resources", {}))
        assert [name for name in NAMES if name not in left and not is_none(name, env[name])] == []
        assert [name for name in left if env[name] != IMAGE[name]] == [], "the device plugin's word counts"
        if "NVIDIA_VISIBLE_DEVICES" in left:
            assert "display" not in env[devices.DRIVER_CAPABILITIES]
            assert "all" not in env[devices.DRIVER_CAPABILITIES]


def test_a_network_device_opens_no_gpu() -> None:
    """Some network devices are called after NVIDIA too."""
    host = to_host(samples.container(resources={"limits": {"nvidia.com/hostdev": 1}}), VIEWS[0])
    assert samples.effective_env(host["spec"]["containers"][0], **IMAGE)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_what_closes_devices_stands_behind_all_that_the_tenant_names() -> None:
    own = [{"configMapRef": {"name": "a"}}, {"prefix": "X_", "secretRef": {"name": "b"}}]
    host = to_host(samples.container(envFrom=own), VIEWS[0])
    found = host["spec"]["containers"][0]["envFrom"]
    assert [next(iter(entry.get("configMapRef", {}).values()), None) for entry in found] == [
        "kubernetes-environment", VIEWS[0].host_name(CONFIG_MAP, "team", "a"), None, "devices-v1",
    ]  # fmt: skip


@pytest.mark.parametrize("vendor", [None, *VENDORS], ids=lambda vendor: vendor.name if vendor else "none")
def test_a_container_is_told_the_same_by_the_config_map_and_by_its_own_variables(vendor: Vendor | None) -> None:
    asked = {"resources": {"limits": {f"{vendor.domains[0]}/gpu": 1}}} if vendor else {}
    told = [
        samples.effective_env(to_host(samples.container(**asked), view)["spec"]["containers"][0], **IMAGE) for view in VIEWS
    ]
    api = {name for name in told[1] if name not in told[0]}
    assert {name: value for name, value in told[1].items() if name not in api} == told[0]


def test_no_beginning_of_a_name_and_no_key_reaches_the_host() -> None:
    for name in NAMES:
        harmless = {name[:end] for end in range(1, len(name)) if not devices.could_hand_out_devices(name[:end])}
        assert all(devices.hands_out_devices(name.removeprefix(prefix)) for prefix in harmless)
        assert harmless <= {"AWS_", "V"}
    for vendor, other in itertools.combinations(VENDORS, 2):
        assert not set(vendor.closed) & set(other.closed)
    assert not devices.could_hand_out_devices("")
    assert not devices.could_hand_out_devices("MY_")
    assert not devices.could_hand_out_devices("AWS_")
    assert devices.hands_out_devices("NEURON_VISIBLE_DEVICES")


def test_a_node_shows_a_network_device_as_the_host_has_it_and_only_where_it_is_offered() -> None:
    has = {"cpu": "64", "rdma/hca": "1k", "hugepages-2Mi": "4Gi", "kvm/kvm": "110"}
    host = {"metadata": {"name": "a"}, "status": {"capacity": has, "allocatable": has}}
    for offered, shown in (({"rdma/hca"}, {"cpu", "rdma/hca"}), (set(), {"cpu"})):
        status = node.to_virtual(host, samples.view({"allowed_resources": offered}), {})["status"]
        assert status["capacity"] == status["allocatable"] == {key: has[key] for key in shown}
