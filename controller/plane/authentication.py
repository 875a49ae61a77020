"""A plane's AuthenticationConfiguration: the identity providers that its API server trusts, and their keys. Pure.

The API server contacts no identity provider: what it reaches, its tenant also reaches, and a provider that does not answer
would keep it from loading any change, such as a revocation. The controller has fetched the keys (`controller.host.issuers`).
They are in ConfigMap `issuers`, and the syncer serves them (`syncer/issuers.py`) at an address that only the plane's pod
reaches.

    provider's keys ──> ConfigMap issuers ──> syncer ──TLS──> API server, which verifies tokens with them
                        authentication.json ────file, loaded again when it changes────^

A provider whose keys are unknown is left out, so that an API server always starts with the rendered configuration.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from bulkhead.api.names import TOKEN_ENDS
from bulkhead.api.objects import Obj
from bulkhead.api.providers import Provider
from controller.plane.parts import metadata
from controller.plane.spec import ISSUERS_PORT, PLANE, PlaneSpec
from controller.plane.ways import Revoked

ISSUERS: Final = "issuers"
FILE: Final = "authentication.json"
HEALTH_PATHS: Final = ("/livez", "/readyz", "/healthz")
_NAMES_IN_AN_EXPRESSION: Final = 16
_DISCOVERY: Final = ".well-known/openid-configuration"


def configuration(spec: PlaneSpec, shim_ca: str) -> Obj:
    """The AuthenticationConfiguration; `shim_ca` is the CA that verifies the syncer's server, PEM."""
    trusted = [_authenticator(spec, provider, keys, shim_ca) for provider, keys in _known(spec)]
    return untouched() | ({"jwt": trusted} if trusted else {})


def untouched() -> Obj:
    """The configuration of an API server that trusts no identity provider."""
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": path} for path in HEALTH_PATHS]},
    }


def config_maps(spec: PlaneSpec) -> list[Obj]:
    """ConfigMap `issuers`: the syncer's responses, and the source of each provider's keys."""
    if not spec.access.issuers:
        return []
    data: dict[str, str] = {}
    for provider, keys in _known(spec):
        data |= {
            f"{provider.name}.source": provider.source.digest,
            f"{provider.name}.keys": keys,
            f"{provider.name}.discovery": json.dumps(_document(spec, provider, keys), sort_keys=True),
        }
    meta = metadata(spec, ISSUERS, namespace=spec.namespace, component=PLANE)
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}]


def kept_keys(config_map: Obj | None, provider: Provider) -> str:
    """The keys that a provider had when it was last asked; empty if it had none, or was a different one."""
    data = (config_map or {}).get("data") or {}
    same = data.get(f"{provider.name}.source") == provider.source.digest
    return str(data.get(f"{provider.name}.keys") or "") if same else ""


def with_revoked(running: Obj, revoked: Sequence[Revoked]) -> Obj:
    """A running configuration with added rules that refuse what was revoked since, and no other change.

    It states itself how it names users and groups, so this needs neither class nor providers. Rules are never removed.
    """
    jwt = [_stricter(authenticator, revoked) for authenticator in running.get("jwt") or ()]
    return running | ({"jwt": jwt} if jwt else {})


def _stricter(authenticator: Obj, revoked: Sequence[Revoked]) -> Obj:
    mapped = authenticator["claimMappings"]
    username, groups = mapped["username"], (mapped.get("groups") or {}).get("claim", "")
    before = _revoked_before(revoked, str(username.get("prefix") or ""), str(username["claim"]), str(groups))
    made = dict(authenticator)
    for field, rules in (("claimValidationRules", before), ("userValidationRules", _revoked(revoked))):
        there = list(made.get(field) or ())
        expressions = {rule.get("expression") for rule in there}
        if more := [rule for rule in rules if rule["expression"] not in expressions]:
            made[field] = [*there, *more]
    return made


def _known(spec: PlaneSpec) -> Iterator[tuple[Provider, str]]:
    return ((trusted.provider, trusted.keys) for trusted in spec.access.issuers if trusted.keys)


def _place(spec: PlaneSpec, provider: Provider, keys: str) -> str:
    # New keys get a new address: the API server then loads its configuration again and forgets removed keys.
    version = hashlib.sha256(keys.encode()).hexdigest()[:16]
    return f"https://{spec.shim_address}:{ISSUERS_PORT}/{provider.name}/{version}"


def _document(spec: PlaneSpec, provider: Provider, keys: str) -> Obj:
    """The provider's OpenID Connect Discovery document, as far as a verifier reads it."""
    return {
        "issuer": provider.source.url,
        "jwks_uri": f"{_place(spec, provider, keys)}/keys",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256"],
    }


def _authenticator(spec: PlaneSpec, provider: Provider, keys: str, shim_ca: str) -> Obj:
    mappings: Obj = {"username": {"claim": provider.username_claim, "prefix": provider.prefix}}
    # Credentials that are issued for a token expire with it (controller.slurm.ssh).
    mappings["extra"] = [{"key": TOKEN_ENDS, "valueExpression": "string(int(claims.exp))"}]
    if provider.groups_claim:
        mappings["groups"] = {"claim": provider.groups_claim, "prefix": provider.prefix}
    made: Obj = {
        "issuer": {
            "url": provider.source.url,
            "discoveryURL": f"{_place(spec, provider, keys)}/{_DISCOVERY}",
            "certificateAuthority": shim_ca,
            "audiences": list(provider.audiences),
            "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": mappings,
        "claimValidationRules": [*_claims(provider), *_before(spec, provider)],
    }
    rules = list(_revoked(spec.access.revoked))
    return made | ({"userValidationRules": rules} if rules else {})


def _claims(provider: Provider) -> Iterator[Obj]:
    """The rules that every token of a provider must pass."""
    yield _rule(
        f"claims[?'iat'].hasValue() && int(claims.exp) - int(claims.iat) <= {provider.max_age}",
        f"the token lives longer than the {provider.max_age} s that the class allows (maxTokenAge)",
    )
    yield from ({"claim": name, "requiredValue": value} for name, value in provider.required_claims)
    if provider.email_domains or provider.username_claim == "email":
        yield _rule("claims.?email_verified.orValue(false) == true", "the email address is not verified by the issuer")
    if provider.email_domains:
        ends = _text([f"@{domain}" for domain in provider.email_domains])
        yield _rule(
            f"{ends}.exists(domain, claims[?'email'].orValue('').lowerAscii().endsWith(domain))",
            "the email address is in none of the domains of the class (emailDomains)",
        )
    # An API server does not start if a rule occurs twice.
    for groups in dict.fromkeys(tuple(sorted(set(asked))) for asked in provider.required_groups):
        yield _rule(
            f"{_groups(provider.groups_claim)}.exists(group, group in {_text(groups)})",
            "the user is in no group that may sign in",
        )


def _before(spec: PlaneSpec, provider: Provider) -> Iterator[Obj]:
    return _revoked_before(spec.access.revoked, provider.prefix, provider.username_claim, provider.groups_claim)


def _revoked(revoked: Sequence[Revoked]) -> Iterator[Obj]:
    gone = "access of this user is revoked"
    for kind, expression in (("User", "!(user.username in {})"), ("Group", "!user.groups.exists(group, group in {})")):
        names = sorted({entry.name for entry in revoked if entry.kind == kind and entry.before is None})
        for some in _parts(names):
            yield _rule(expression.format(_text(some)), gone)


def _revoked_before(revoked: Sequence[Revoked], prefix: str, username: str, groups: str) -> Iterator[Obj]:
    """Rules that refuse tokens that were issued before a revocation, by the user's or group's name at the provider."""
    for kind in ("User", "Group"):
        before = {
            entry.name.removeprefix(prefix): entry.before
            for entry in revoked
            if entry.kind == kind and entry.before is not None and entry.name.startswith(prefix)
        }
        for some in _parts(sorted(before)) if kind == "User" or groups else ():
            names = f"[claims[{_text(username)}]]" if kind == "User" else _groups(groups)
            moments = _text({name: before[name] for name in some})
            early = f"name in {moments} && int(claims.iat) < {moments}[name]"
            yield _rule(f"!{names}.exists(name, {early})", "tokens of this user that were issued so early are revoked")


def _groups(claim: str) -> str:
    """An expression for the user's groups as a list, whether the token has a string, a list or nothing."""
    if not claim:
        return "[]"
    # CEL accepts a comprehension over a claim only as `dyn`.
    found = f"dyn(claims[?{_text(claim)}].orValue([]))"
    return f"(type({found}) == string ? [{found}] : {found})"


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The names in small parts: an API server does not start with an expression of more than 100,000 characters."""
    return (names[start : start + _NAMES_IN_AN_EXPRESSION] for start in range(0, len(names), _NAMES_IN_AN_EXPRESSION))


def _rule(expression: str, message: str) -> Obj:
    return {"expression": expression, "message": message}


def _text(value: object) -> str:
    """A value as a CEL literal; CEL accepts JSON's literals."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
