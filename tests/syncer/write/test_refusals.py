"""Which refusals of the host are told to the tenant, and which are only trouble."""

from pathlib import Path

from bulkhead.kube.errors import Cause, Forbidden, Unprocessable
from syncer.write import refusals


def refused(field: str) -> Unprocessable:
    message = f'Pod "web" is invalid: {field}: Invalid value: "x": field is immutable'
    return Unprocessable(422, "Invalid", message, (Cause(field, "FieldValueInvalid", "field is immutable"),))


def test_a_patch_for_a_replaced_object_is_not_a_refusal() -> None:
    assert refusals.explain(refused("metadata.uid"), "web") is None


def test_any_other_invalid_field_is_told() -> None:
    assert refusals.explain(refused("spec.containers"), "web") is not None


def test_what_the_controller_has_yet_to_note_is_waited_for_and_not_told() -> None:
    said = (
        "pods \"web-1f\" is forbidden: ValidatingAdmissionPolicy 'bulkhead-syncer-pods' with binding 'bulkhead-syncer-pods' "
        "denied request: pod: the controller has not noted yet what this tenant may do; "
        "it does so when it next reconciles the tenant"
    )
    policy = (Path(__file__).parents[3] / "charts/bulkhead/templates/admission-pods.yaml").read_text()
    assert f'message: "{said.partition("denied request: ")[2]}"' in policy
    assert refusals.explain(Forbidden(403, "Forbidden", said), "web") is None


def quota(asked: str, used: str, hard: str) -> str:
    text = f'pods "web-1f" is forbidden: exceeded quota: tenant-quota, requested: {asked}, used: {used}, limited: {hard}'
    found = refusals.explain(Forbidden(403, "Forbidden", text), "web")
    assert found is not None
    assert found.retriable
    return str(found)


def test_what_a_quota_lacks_is_told_in_the_tenants_words() -> None:
    said = quota(
        "requests.cpu=65,requests.memory=1Gi",
        "requests.cpu=0,requests.memory=256Gi",
        "requests.cpu=64,requests.memory=256Gi",
    )
    assert "asked for 65 cpu, 0 of 64 are in use; asked for 1Gi memory, 256Gi of 256Gi are in use." in said
    assert said.endswith(" It is more than can ever be in use: the pod starts when the quota is raised.")
    said = quota("count/pods=1", "count/pods=2k", "count/pods=2k")
    assert "asked for 1 pods (those that have ended are counted), 2k of 2k are in use." in said
    # Positive control: what fits into the whole quota waits for its turn.
    assert said.endswith(" The pod starts when enough is free.")
    assert quota("requests.memory=1Gi", "requests.memory=0", "requests.memory=1023Mi").endswith("when the quota is raised.")
    assert quota("requests.memory=1Gi", "requests.memory=1", "requests.memory=1024Mi").endswith("when enough is free.")


def test_the_bound_on_one_claim_is_told_without_the_hosts_names() -> None:
    said = (
        'persistentvolumeclaims "{}" is forbidden: maximum storage usage per PersistentVolumeClaim is 4Ti, but request is 9Pi'
    )
    text = said.format("data-0123456789abcdef0123456789abcdef")
    assert str(refusals.explain(Forbidden(403, "Forbidden", text), "data")) == said.format("data")
