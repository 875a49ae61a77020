"""A tenant's identity providers are its class's, in its class's words."""

import pytest

from bulkhead.api.providers import Source, providers

CORP = {
    "name": "corp",
    "url": "https://login.example.org/",
    "audiences": ["bulkhead-{tenant}", "bulkhead"],
    "claims": {"username": "email", "groups": "groups"},
    "requiredClaims": {"tenant": "{tenant}", "hd": "example.org"},
    "requiredGroups": ["gpu-{tenant}"],
    "maxTokenAge": "2h",
}
ALL = {"name": "partners", "url": "https://p.example.org", "audiences": ["x"], "prefix": "p:", "everyTenant": True}


def test_what_the_class_says_is_filled_in_for_the_tenant() -> None:
    asked = {"oidc": [{"issuer": "corp", "requiredGroups": ["eu-{tenant}"]}]}
    (corp,) = providers("team-a", asked, {"issuers": [CORP]})
    assert corp.audiences == ("bulkhead-team-a", "bulkhead")
    assert (corp.prefix, corp.username_claim, corp.groups_claim, corp.max_age) == ("corp:", "email", "groups", 7200)
    assert corp.required_claims == (("hd", "example.org"), ("tenant", "team-a"))
    # What the tenant asks for is text.
    assert corp.required_groups == (("gpu-team-a",), ("eu-{tenant}",))
    assert corp.source.discovery == "https://login.example.org/.well-known/openid-configuration"


def test_a_tenant_has_those_that_it_names_and_those_of_every_tenant() -> None:
    offered = {"issuers": [CORP, ALL]}
    assert [each.name for each in providers("a", {}, offered)] == ["partners"]
    assert [each.name for each in providers("a", {"oidc": [{"issuer": "corp"}]}, offered)] == ["corp", "partners"]
    assert providers("a", {"oidc": [{"issuer": "elsewhere"}]}, offered)[0].prefix == "p:"
    assert providers("a", {"oidc": [{"issuer": "corp"}]}, {}) == ()


@pytest.mark.parametrize("age", [None, "", "m", "x", "-1m", "1d"])
def test_without_a_duration_tokens_live_a_quarter_of_an_hour(age: str | None) -> None:
    (made,) = providers("a", {}, {"issuers": [ALL | {"maxTokenAge": age}]})
    assert made.max_age == 900


def test_another_authority_or_address_is_another_source() -> None:
    sources = [
        Source("https://a"),
        Source("https://a", "https://b"),
        Source("https://a", "", "pem"),
        Source("https://a", "pem"),
    ]
    assert len({each.digest for each in sources}) == len(sources)
