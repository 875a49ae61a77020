"""What hostile tenants submit, as data: every row is refused with its reason or neutralised, and its honest twin passes."""

from collections.abc import Callable
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds.pod import ephemeral_containers
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles

ROWS: dict[str, Any] = {row["id"]: row for row in yamlfiles.load(samples.HERE / "adversarial.yaml")}
REFUSED = [name for name, row in ROWS.items() if "refused" in row]
NEUTRALISED = [name for name, row in ROWS.items() if "refused" not in row]
TWINS = [name for name, row in ROWS.items() if "twin" in row]


def virtual(row: Any) -> Obj:
    if "object" in row:
        return samples.merged(row["object"], {})
    base = samples.container(**row["container"]) if "container" in row else samples.pod()
    return samples.merged(base, {"spec": row.get("spec", {}), "metadata": row.get("metadata", {})})


def translate(row: Any) -> Obj:
    obj = virtual(row)
    return KINDS[obj["kind"]].to_host(obj, samples.view(row.get("view")))


def at(obj: Any, path: str) -> Any:
    """The value at a path of the rows: parts by '.', a '~' stands for a dot inside a key."""
    for part in path.split("."):
        key = part.replace("~", ".")
        if isinstance(obj, dict):
            obj = obj.get(key)
        elif isinstance(obj, list):
            obj = obj[int(key)]
        else:
            return None
    return obj


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, record_property: Callable[[str, object], None]) -> None:
    with pytest.raises(Untranslatable) as refused:
        translate(ROWS[name])
    record_property("decided_by", str(refused.value.reason))
    assert {"reason": str(refused.value.reason), "field": refused.value.field} == ROWS[name]["refused"]
    assert refused.value.message


@pytest.mark.parametrize("name", NEUTRALISED)
def test_neutralised(name: str, record_property: Callable[[str, object], None]) -> None:
    row = ROWS[name]
    host = translate(row)
    record_property("decided_by", "neutralised")
    for path, expected in row.get("host", {}).items():
        assert at(host, path) == expected, path
    env = samples.effective_env(host["spec"]["containers"][0]) if "host_env" in row else {}
    for key, expected in row.get("host_env", {}).items():
        assert env.get(key) == expected
    for part in row.get("host_label_keys_without", []):
        assert not [key for key in host["metadata"]["labels"] if part in key]
    for part in row.get("host_annotations_without", []):
        assert part not in str(host["metadata"]["annotations"])
    for gate in at(host, "spec.schedulingGates") or []:
        assert gate["name"].startswith(row.get("host_gate_prefix", ""))
    if "renamed" in row:
        assert f"'{row['renamed']}'" not in str(host["spec"])


@pytest.mark.parametrize("name", TWINS)
def test_honest_twin(name: str) -> None:
    assert translate(ROWS[name]["twin"])


@pytest.mark.parametrize(
    "name", [name for name in REFUSED if "container" in ROWS[name] and "resources" not in ROWS[name]["container"]]
)
def test_refused_as_ephemeral_container_too(name: str) -> None:
    """A running pod cannot gain by an ephemeral container what it was refused at creation."""
    row = ROWS[name]
    debug = {"name": "debug", "image": "a", "targetContainerName": "main", **row["container"]}
    obj = samples.pod({"ephemeralContainers": [debug]})
    assert KINDS["Pod"].to_host(obj, samples.VIEW)
    with pytest.raises(Untranslatable) as refused:
        ephemeral_containers(obj, samples.view(row.get("view")))
    assert refused.value.field == row["refused"]["field"].replace("spec.containers", "spec.ephemeralContainers")


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "main", "image": "a", "env": [{"name": f"V{index}", "value": ""} for index in range(5000)]}]},
        {"containers": [{"name": f"c{index}", "image": "a"} for index in range(1000)]},
        {"tolerations": [{"key": "a"}] * 5000},
        {"nodeSelector": {f"k{index}": "" for index in range(5000)}},
        {"containers": [{"name": "main", "image": "a", "args": ["x" * 900_000]}]},
        {"containers": [{"name": "main", "image": "a", "env": [{"name": "V", "value": "\u00e9" * 140_000}]}]},
    ],
    ids=["env", "containers", "tolerations", "node-selector", "text", "bytes"],
)
def test_a18_large_shapes_are_refused(spec: Obj) -> None:
    with pytest.raises(Untranslatable) as refused:
        KINDS["Pod"].to_host(samples.pod(spec), samples.VIEW)
    assert refused.value.reason is Reason.TOO_LARGE


def test_a18_a_pod_of_some_size_passes_and_its_ephemeral_containers_are_measured_too() -> None:
    KINDS["Pod"].to_host(samples.pod({"containers": [{"name": "main", "image": "a", "args": ["x" * 200_000]}]}), samples.VIEW)
    late = [{"name": "debug", "image": "a", "args": ["x" * 300_000]}]
    with pytest.raises(Untranslatable, match="at most 262144 are mirrored") as refused:
        ephemeral_containers(samples.pod({"ephemeralContainers": late}), samples.VIEW)
    assert refused.value.reason is Reason.TOO_LARGE


def test_a18_depth_is_not_followed() -> None:
    deep: Obj = {}
    for _ in range(10_000):
        deep = {"a": deep}
    with pytest.raises(Untranslatable):
        KINDS["Pod"].to_host(samples.pod() | {"spec": {"containers": [{"name": "a", "securityContext": deep}]}}, samples.VIEW)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a-x-b", "c"), ("a", "b-x-c")),
        (("default", "a" * 52 + "1104532"), ("default", "a" * 52 + "1114994")),
        (("default", "a" * 58 + "920"), ("default", "a" * 58 + "1737")),
        (("team", "a.b"), ("team", "a-b")),
    ],
)
def test_item_01_02_e1_to_e5_names_that_met_elsewhere_stay_apart(one: tuple[str, str], other: tuple[str, str]) -> None:
    names = {
        translate({"metadata": {"namespace": namespace, "name": name}})["metadata"]["name"] for namespace, name in (one, other)
    }
    assert len(names) == 2
