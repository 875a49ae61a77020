"""Laws of translation, over arbitrary input: it is a function, it changes nothing, and nothing a tenant sends breaks it."""

import copy
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import Untranslatable, metadata, references, selectors, tokens
from syncer.translate.kinds import podstatus as status
from syncer.translate.kinds.pod import POD_SPEC, ephemeral_containers
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles
from tests.syncer.translate import golden

LAWS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
_WORDS = [
    *POD_SPEC.fields,
    *"""name image env envFrom valueFrom fieldRef fieldPath configMap secret projected sources serviceAccountToken resources
    limits requests matchLabels labelSelector topologyKey requiredDuringSchedulingIgnoredDuringExecution
    preferredDuringSchedulingIgnoredDuringExecution nodeAffinity podAffinity namespaces namespaceSelector matchLabelKeys items
    path audience expirationSeconds metadata spec labels annotations data type clusterIP ports selector endpoints addresses
    addressType""".split(),  # noqa: SIM905  # fifty quoted words read worse
]
_TELLING = ["metadata.labels", "metadata.labels['a']", "1", "-1", "1e99", "nvidia.com/gpu", "web", "..", "a/b/c", "None"]
_LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.characters(codec=None),
    st.sampled_from(_TELLING),
)
_KEYS = st.sampled_from(_WORDS) | st.text(max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=25
)
GOOD = [yamlfiles.load(path) for _name, path in golden.cases()]


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in inside for path in _paths(item, (*at, key)))]


@st.composite
def broken(draw: st.DrawFn) -> Obj:
    """A good object with one or two places overwritten by anything."""
    obj = copy.deepcopy(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from([path for path in _paths(obj) if path and path[0] not in ("kind", "apiVersion")]))
        holder: Any = obj
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = draw(JSON)
    return obj


@LAWS
@given(st.dictionaries(_KEYS, JSON, max_size=5), st.sampled_from(sorted(KINDS)))
def test_anything_is_translated_or_refused(obj: Obj, kind: str) -> None:
    _translate(kind, obj)


@LAWS
@given(JSON, JSON)
def test_any_spec_is_translated_or_refused(spec: Any, labels: Any) -> None:
    obj = {"metadata": {"name": "a", "namespace": "b", "uid": "c", "labels": labels}, "spec": spec}
    for kind in KINDS:
        _translate(kind, obj)
    _others(obj)


@LAWS
@given(broken())
def test_laws_hold_for_broken_objects(obj: Obj) -> None:
    before = copy.deepcopy(obj)
    host = _translate(obj["kind"], obj)
    if obj["kind"] == "Pod":
        _others(obj)
    assert repr(obj) == repr(before)  # repr: nan is not equal to itself
    if host is not None:
        assert repr(_translate(obj["kind"], obj)) == repr(host)
        _check(host)


@pytest.mark.parametrize("name", dict(golden.cases()))
def test_laws_hold_for_good_objects(name: str) -> None:
    obj = yamlfiles.load(dict(golden.cases())[name])
    host = _translate(obj["kind"], obj)
    if host is not None:
        _check(host)


def _translate(kind: str, obj: Obj) -> Obj | None:
    try:
        return KINDS[kind].to_host(obj, samples.VIEW)
    except Untranslatable as error:
        str(error).encode()
        error.field.encode()
        return None


def _others(obj: Obj) -> None:
    """The functions beside `to_host` that the runtime asks about a tenant's pod."""
    references.of_pod(obj)
    for function in (tokens.token_requests, tokens.service_account):
        try:
            function(obj)
        except Untranslatable:
            continue
    try:
        ephemeral_containers(obj, samples.VIEW)
    except Untranslatable:
        return


def _check(host: Obj) -> None:
    meta = host["metadata"]
    assert set(meta) == {"name", "namespace", "labels", "annotations"}
    assert re.fullmatch(r"[a-z][-a-z0-9]{0,62}", meta["name"])
    assert meta["namespace"] == "bh-red-work"
    assert meta["labels"][marks.TENANT] == "red"
    assert meta["labels"][marks.SYNCED] == marks.SYNCED_BY_SYNCER
    assert meta["annotations"][marks.TENANT_UID] == samples.VIEW.tenant_uid
    for key, value in meta["labels"].items():
        name = key.rpartition("/")[2]
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", name)
        assert len(value) <= 63
    if host["kind"] == "Pod":
        _check_pod(host["spec"])


def _check_pod(spec: Obj) -> None:
    assert spec["serviceAccountName"] == "workload"
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["dnsPolicy"] == "None"
    assert not {"nodeName", "hostNetwork", "hostPID", "hostIPC", "schedulerName", "priority"} & set(spec)
    names = re.findall(r"'(?:secretName|claimName)': '([^']*)'", repr(spec.get("volumes")))
    assert all(re.fullmatch(r"[a-z][-a-z0-9]*-[0-9a-f]{32}", name) for name in names)
    for text in ("'namespace':", "'namespaces':", "'namespaceSelector':"):
        assert text not in repr(spec.get("affinity"))


_LABEL_KEYS = st.sampled_from(
    ["app", "example.com/a", "bulkhead.dev/tenant", "release", "app.kubernetes.io/name", "kueue.x-k8s.io/queue-name"]
)
_LABELS = st.dictionaries(_LABEL_KEYS, st.sampled_from(["a", "b", "red", ""]), max_size=4)
_VALUES = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2)
_TERMS = st.lists(
    st.fixed_dictionaries({"key": _LABEL_KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": _VALUES})
    | st.fixed_dictionaries({"key": _LABEL_KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    max_size=2,
)


@LAWS
@given(_LABELS, _LABELS, _TERMS, st.sampled_from(["team", "other"]), st.sampled_from(["team", "other"]))
def test_item_41_42_43_selectors_select_on_the_host_what_they_select_in_the_plane(
    labels: dict[str, str], wanted: dict[str, str], terms: list[Obj], here: str, there: str
) -> None:
    selector = {"matchLabels": wanted, "matchExpressions": terms}
    pod = samples.pod(metadata={"namespace": there, "labels": labels})
    pod["metadata"]["labels"] = labels
    host = KINDS["Pod"].to_host(pod, samples.VIEW)
    translated = selectors.label_selector(selector, "", selectors.own_namespace(here, samples.VIEW))
    assert _selects(translated, host["metadata"]["labels"]) == (here == there and _selects(selector, labels))


@given(st.text(alphabet="abkub/.-", min_size=1, max_size=8), st.text(alphabet="abkub/.-", min_size=1, max_size=8))
def test_item_05_different_label_keys_stay_different(one: str, other: str) -> None:
    try:
        keys = [metadata.host_label_key(key, "") for key in (one, other)]
    except Untranslatable:
        return
    assert (keys[0] == keys[1]) == (one == other)


def _selects(selector: Any, labels: dict[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for term in selector.get("matchExpressions", []):
        there = labels.get(term["key"])
        met = {
            "In": there in term.get("values", []),
            "NotIn": there not in term.get("values", []),
            "Exists": there is not None,
            "DoesNotExist": there is None,
        }
        if not met[term["operator"]]:
            return False
    return True


@LAWS
@given(JSON, JSON)
def test_status_of_any_virtual_pod(own: Any, spec: Any) -> None:
    virtual = {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": spec, "status": own}
    host = {"metadata": {"generation": 1}, "spec": {}, "status": {"phase": "Running", "containerStatuses": [{"name": "a"}]}}
    first = status.status_to_virtual(host, virtual, samples.VIEW)
    assert status.same(status.status_to_virtual(host, {**virtual, "status": first}, samples.VIEW), first)
