"""Identity providers of a tenant: what reaches its plane, what the status says, and that no plane restarts for them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.conditions import ConditionType, find_condition
from bulkhead.api.providers import Source
from controller.decide.admit import admit
from controller.decide.case import Admitted
from controller.decide.keysets import Answer
from controller.decide.plan import Plan, plan
from controller.existing import Existing, by_slot
from controller.plane.spec import PlaneSpec
from controller.plane.ways import Revoked
from controller.settings import SettingsError, load
from tests.controller.tenant.test_status import ready_findings
from tests.kit.statuses import compute
from tests.kit.tenantsamples import NOW, SLICE, case, material, plane_for, tenant, tenant_class

CORP = {"name": "corp", "url": "https://corp.example.org", "audiences": ["bulkhead-{tenant}"], "claims": {"groups": "groups"}}
OTHER = {"name": "other", "url": "https://other.example.org", "audiences": ["x"]}
ASKED: dict[str, Any] = {"access": {"oidc": [{"issuer": "corp"}]}}
KEYS, NEWER = '{"keys": [1]}', '{"keys": [2]}'
SOURCE = Source("https://corp.example.org")


def offer(*issuers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return tenant_class(access={"issuers": list(issuers)}, **more)


def built(answer: Answer | None = None, existing: Existing | None = None, **asked: Any) -> PlaneSpec:
    known = {SOURCE: answer} if answer is not None else {}
    return plane_for(tenant(**(ASKED | asked)), offer(CORP, OTHER), issuers=known, existing=existing or {})


def planned(spec: PlaneSpec, existing: Existing | None = None, *, held: bool = False) -> Plan:
    return plan(spec, material(spec), existing or {}, held=held)


def running(spec: PlaneSpec) -> Existing:
    return by_slot(planned(spec).rendered.everything())


def named(made: Plan, kind: str, name: str) -> dict[str, Any]:
    return next(obj for obj in made.rendered.everything() if (obj["kind"], obj["metadata"]["name"]) == (kind, name))


def believed(made: Plan) -> list[str]:
    told = json.loads(named(made, "ConfigMap", "plane-config")["data"]["authentication.json"])
    return [authenticator["issuer"]["url"] for authenticator in told.get("jwt", [])]


def condition(spec: PlaneSpec, before: dict[str, Any] | None = None) -> tuple[str, str, str] | None:
    made = compute(tenant(status=before), spec, ready_findings(), NOW)
    ready = find_condition(made["conditions"], ConditionType.READY)
    assert ready is not None
    assert ready["status"] == "True"
    found = find_condition(made["conditions"], ConditionType.ISSUERS_READY)
    return (found["status"], found["reason"], found["message"]) if found is not None else None


def test_a_provider_is_believed_once_its_keys_are_known() -> None:
    assert believed(planned(built())) == []
    assert believed(planned(built(Answer(trouble="it is silent")))) == []
    assert believed(planned(built(Answer(KEYS)))) == ["https://corp.example.org"]


def test_nothing_that_is_said_of_providers_restarts_a_plane() -> None:
    """An API server reloads by itself which issuers it trusts."""
    without = plane_for(tenant(), offer(CORP, OTHER))
    plain = named(planned(without), "StatefulSet", "plane")
    revoked = [{"kind": "User", "name": "corp:ada"}]
    for spec in (built(), built(Answer(KEYS)), built(Answer(NEWER), access=ASKED["access"] | {"revoked": revoked})):
        assert named(planned(spec), "StatefulSet", "plane") == plain
    # The positive control: of the other files it reads none again.
    assert named(planned(replace(without, identity="other")), "StatefulSet", "plane") != plain


def test_known_keys_stay_until_newer_ones_are_known() -> None:
    there = running(built(Answer(KEYS)))
    for answer in (None, Answer(trouble="it is silent")):
        spec = built(answer, there)
        assert named(planned(spec), "ConfigMap", "issuers")["data"]["corp.keys"] == KEYS
    assert named(planned(built(Answer(NEWER), there)), "ConfigMap", "issuers")["data"]["corp.keys"] == NEWER
    # Another authority, or another place, is another provider.
    moved = plane_for(tenant(**ASKED), offer(CORP | {"certificateAuthority": "pem"}), existing=there)
    assert believed(planned(moved)) == []


def test_other_keys_are_at_another_address_so_that_those_that_are_gone_are_forgotten() -> None:
    told = [named(planned(built(Answer(keys))), "ConfigMap", "plane-config")["data"] for keys in (KEYS, NEWER)]
    assert told[0] != told[1]


def test_what_no_provider_needs_is_removed() -> None:
    there = running(built(Answer(KEYS)))
    there = {slot: obj | {"metadata": obj["metadata"] | {"uid": "1"}} for slot, obj in there.items()}
    gone = planned(plane_for(tenant(), offer(CORP), existing=there), there).deletions
    assert [(deletion.slot.kind, deletion.slot.name) for deletion in gone] == [("ConfigMap", "issuers")]
    assert planned(built(Answer(KEYS), there), there).deletions == ()


def test_a_class_takes_a_provider_from_a_tenant_that_it_holds_at_once() -> None:
    there = running(built(Answer(KEYS)))
    status_of = {"class": {"name": "standard"}}
    asked = tenant(status=status_of, **ASKED)
    made = admit(case(asked, offer(OTHER), runs=True, existing=there))
    assert isinstance(made, Admitted)
    assert made.held is not None
    assert "spec.access.oidc[corp]: not one that the class has" in made.held.message
    assert believed(planned(replace(made.plane, service_slice=SLICE), there, held=True)) == []
    # And what a tenant that is held for something else revokes counts at once.
    beyond = tenant(
        status=status_of, controlPlane={"replicas": 3}, access=ASKED["access"] | {"revoked": [{"name": "corp:eve"}]}
    )
    made = admit(case(beyond, offer(CORP), runs=True, existing=there))
    assert isinstance(made, Admitted)
    assert made.held is not None
    config = named(planned(replace(made.plane, service_slice=SLICE), there, held=True), "ConfigMap", "plane-config")
    assert "corp:eve" in config["data"]["authentication.json"]


@pytest.mark.parametrize(
    ("before", "seconds"), [("2026-05-01T00:00:00Z", 1777593600), ("2026-05-01T00:00:00.5+00:00", 1777593601)]
)
def test_what_is_revoked_before_a_moment_reaches_the_plane_in_whole_seconds(before: str, seconds: int) -> None:
    revoked = [{"kind": "Group", "name": "corp:left", "before": before}, {"name": "corp:eve"}]
    spec = built(access=ASKED["access"] | {"revoked": revoked})
    assert spec.access.revoked == (Revoked("Group", "corp:left", seconds), Revoked("User", "corp:eve"))


def test_the_status_says_which_provider_is_silent_and_what_that_means_and_the_tenant_is_ready_all_the_same() -> None:
    assert condition(built(Answer(KEYS))) == ("True", "Ready", "users of corp may sign in")
    assert condition(built()) == ("False", "Provisioning", "being asked for its keys: corp")
    silent = "corp (https://corp.example.org): it is silent; "
    assert condition(built(Answer(trouble="it is silent"))) == (
        "False", "IssuerSilent", f"{silent}no user can sign in with it until it answers",
    )  # fmt: skip
    assert condition(built(Answer(KEYS, "it is silent"))) == (
        "False", "IssuerSilent", f"{silent}tokens signed with its last known keys still count",
    )  # fmt: skip


def test_groups_without_a_claim_admit_no_user_and_the_status_says_so() -> None:
    """Were they left out, as what is beyond a class, a tenant that is held would be open to all of them."""
    asked = {"access": {"oidc": [{"issuer": "corp", "requiredGroups": ["g"]}]}}
    bare = {key: value for key, value in CORP.items() if key != "claims"} | {"everyTenant": True}
    spec = plane_for(tenant(**asked), offer(bare), issuers={SOURCE: Answer(KEYS)})
    told = named(planned(spec), "ConfigMap", "plane-config")["data"]["authentication.json"]
    assert '"[].exists(group, group in [\\"g\\"])"' in told
    found = condition(spec)
    assert found is not None
    assert found[:2] == ("False", "InvalidConfiguration")
    assert "no user can sign in with it" in found[2]


def test_the_status_tells_of_names_that_no_provider_gives() -> None:
    access = ASKED["access"] | {"admins": [{"name": "ada"}, {"name": "corp:grace"}], "revoked": [{"name": "eve"}]}
    found = condition(built(Answer(KEYS), access=access))
    assert found == ("True", "Ready", "users of corp may sign in; none of theirs is named ada, eve: names begin with corp:")


def test_a_tenant_without_providers_no_longer_has_the_condition() -> None:
    before = compute(tenant(), built(Answer(KEYS)), ready_findings(), NOW)
    assert condition(plane_for(tenant(), offer(CORP)), before) is None


def test_an_older_tenant_with_a_provider_of_its_own_trusts_none() -> None:
    spec = built(access={"oidc": {"issuerURL": "https://corp.example.org", "clientID": "x"}})
    assert spec.access.issuers == ()


@pytest.mark.parametrize("proxy", ["", "http://proxy.example.org:3128", "http://[2001:db8::1]:3128/"])
def test_a_proxy_is_an_address(proxy: str) -> None:
    assert load({"BULKHEAD_ISSUER_PROXY": proxy}).issuer_proxy == proxy


@pytest.mark.parametrize("proxy", ["proxy:3128", "http://u:p@proxy", "file:///etc", "http://a b", "http://proxy/path"])
def test_a_malformed_proxy_stops_the_controller(proxy: str) -> None:
    with pytest.raises(SettingsError, match="BULKHEAD_ISSUER_PROXY"):
        load({"BULKHEAD_ISSUER_PROXY": proxy})
