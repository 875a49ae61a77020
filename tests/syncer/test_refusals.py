"""Which refusals of the host are told to the tenant, and which are only trouble."""

from bulkhead.kube.errors import Cause, Unprocessable
from syncer import refusals


def refused(field: str) -> Unprocessable:
    message = f'Pod "web" is invalid: {field}: Invalid value: "x": field is immutable'
    return Unprocessable(422, "Invalid", message, (Cause(field, "FieldValueInvalid", "field is immutable"),))


def test_a_patch_for_an_object_that_was_replaced_is_no_refusal() -> None:
    assert refusals.explain(refused("metadata.uid"), "web") is None


def test_any_other_invalid_field_is_told() -> None:
    assert refusals.explain(refused("spec.containers"), "web") is not None
