"""What one configuration says of several real identity providers, each by its own rules, to a real kube-apiserver."""

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from controller.plane.ways import Revoked
from tests.kit.believing import NASTY, OURS, THEIRS, Believer, issuer_of, keys_of, resolved
from tests.kit.dex import PUBLIC, Dex, running

pytestmark = [pytest.mark.apiserver, pytest.mark.signin, pytest.mark.asyncio(loop_scope="module")]
# By name: of the class, of the tenant, how long tokens live.
PROVIDERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "corp": ({}, {}, "10m"),
    "strict": ({}, {}, "1h"),
    "lenient": ({"maxTokenAge": "1h"}, {}, "1h"),
    "grouped": (
        {"requiredGroups": ["gpu-{tenant}", *(each.removeprefix("corp:") for each in NASTY)]},
        {"requiredGroups": ["eu"]},
        "10m",
    ),
    "bare": ({"claims": {"username": "email"}}, {"requiredGroups": ["eu"]}, "10m"),
    "elsewhere": ({"emailDomains": ["example.com"]}, {}, "10m"),
    "domains": ({"emailDomains": ["Example.ORG", "example.com"], "requiredClaims": {"name": "ada"}}, {}, "10m"),
}  # fmt: skip
# A few rules of each kind beside each other, where no token has groups.
REVOKED = (Revoked("Group", "bare:left", 1), Revoked("User", "bare:eve", 1))
Providers = Mapping[str, Dex]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Believer]:
    async with Believer(tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dexes(plane: Believer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Providers]:
    """The providers, once the API server believes them."""
    with contextlib.ExitStack() as stack:
        started = {
            name: stack.enter_context(running(tmp_path_factory.mktemp(name), audiences=(OURS, THEIRS), lifetime=lifetime))
            for name, (_, _, lifetime) in PROVIDERS.items()
        }
        known = []
        for name, (offered, asked, _) in PROVIDERS.items():
            (made,) = resolved("team-a", issuer_of(started[name], name=name, **offered), **asked)
            known.append((made, await keys_of(made)))
        await plane.believe(*known, revoked=REVOKED)
        yield started


async def test_who_signs_in_has_the_prefixed_name_and_groups(plane: Believer, dexes: Providers) -> None:
    corp = dexes["corp"]
    ours = corp.browser("linus", ["system:masters", "gpu"], OURS)
    found = await plane.who(ours)
    assert found is not None
    assert found["username"].startswith("corp:linus")
    assert set(found["groups"]) == {"corp:system:masters", "corp:gpu", "system:authenticated"}
    # What is issued upon the token (an ssh certificate) ends with it.
    body = ours.split(".")[1]
    ends = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["exp"]
    assert found["extra"]["bulkhead.dev/token-ends"] == [str(ends)]
    # What is for another tenant, or for no tenant, is refused.
    assert await plane.who(corp.password("ada", THEIRS)) is None
    assert await plane.who(corp.password("ada", PUBLIC)) is None
    assert ((await plane.who(corp.password("ada", OURS))) or {})["username"] == "corp:ada@example.org"


async def test_tokens_that_live_long_are_refused_unless_the_class_says_so(plane: Believer, dexes: Providers) -> None:
    assert await plane.who(dexes["strict"].password("ada", OURS)) is None
    assert ((await plane.who(dexes["lenient"].password("ada", OURS))) or {})["username"] == "lenient:ada@example.org"


async def test_groups_are_asked_for(plane: Believer, dexes: Providers) -> None:
    grouped = dexes["grouped"]
    inside, outside = (grouped.browser("linus", groups, OURS) for groups in (["gpu-team-a", "eu"], ["gpu-team-b", "eu"]))
    assert await plane.who(inside) is not None
    assert await plane.who(outside) is None
    assert await plane.who(grouped.password("ada", OURS)) is None
    # Without a claim for groups no user is in a group.
    assert await plane.who(dexes["bare"].browser("linus", ["gpu-team-a", "eu"], OURS)) is None


async def test_domains_and_claims_are_asked_for(plane: Believer, dexes: Providers) -> None:
    assert await plane.who(dexes["elsewhere"].password("ada", OURS)) is None
    domains = dexes["domains"]
    assert ((await plane.who(domains.password("ada", OURS))) or {})["username"] == "domains:ada@example.org"
    assert await plane.who(domains.password("grace", OURS)) is None
