"""What is shared with a plane, decided on frozen data: what is written, what is left alone, and what never happens."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import Reason
from controller.shares import decide as module
from controller.shares.content import CONTENT_BYTES, PULLS, Absent, Content, Source, Unusable, content_of, copy_of
from controller.shares.decide import (
    Account,
    Copy,
    Create,
    Decision,
    Interior,
    Left,
    Point,
    Remove,
    Replace,
    Slot,
    Space,
    decide,
)
from controller.shares.spec import Item, Share, Where, shares_of
from controller.shares.status import Found, verdict

REGISTRY, BUNDLE = Item("Secret", "registry"), Item("ConfigMap", "ca-bundle")
SPACES = (Space("default"), Space("kube-system"), Space("team", {"tls": "true"}), Space("old", going=True))


def secret(type_: str = PULLS, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": "registry"}, "type": type_, "data": data or {".dockerconfigjson": "e30="}}


def content(item: Item = REGISTRY, **data: str) -> Content:
    found = content_of(item, secret(**data) if item.kind == "Secret" else {"data": data or {"ca.crt": "pem"}})
    assert isinstance(found, Content)
    return found


def decided(
    *shares: Share,
    sources: dict[Item, Source] | None = None,
    there: Interior | None = None,
    left: dict[Slot, Left] | None = None,
    conflicts: dict[Slot, bool] | None = None,
) -> Decision:
    known = {REGISTRY: content(), BUNDLE: content(BUNDLE)} | (sources or {})
    return decide(shares, known, there or Interior(SPACES), left or {}, conflicts or {})


def at(namespace: str, item: Item = REGISTRY) -> Slot:
    return Slot(item.kind, namespace, item.name)


def copy(namespace: str, item: Item = REGISTRY, version: str = "7", **more: Any) -> Copy:
    return Copy(at(namespace, item), f"uid-{namespace}", version, **more)


# -- what a Tenant has of its class's offer


OFFER = {
    "sharedSecrets": [
        {"name": "registry", "imagePullSecret": True},
        {"name": "wildcard", "onRequest": True, "namespaces": {"matchLabels": {"tls": "true"}}},
    ],
    "sharedConfigMaps": [{"name": "ca-bundle", "namespaces": {"names": ["team"]}}],
}


def test_a_class_gives_what_is_not_on_request() -> None:
    assert shares_of({}, OFFER) == (Share(REGISTRY, Where(), pulls=True), Share(BUNDLE, Where(names=("team",))))


def test_a_tenant_asks_for_what_is_on_request_and_says_where() -> None:
    asked = {
        "sharedSecrets": [{"name": "wildcard"}],
        "sharedConfigMaps": [{"name": "ca-bundle", "namespaces": {"names": ["x"]}}],
    }
    assert shares_of(asked, OFFER) == (
        Share(REGISTRY, Where(), pulls=True),
        Share(Item("Secret", "wildcard"), Where(labels=(("tls", "true"),))),
        Share(BUNDLE, Where(names=("x",))),
    )


def test_a_tenant_has_nothing_that_its_class_does_not_list() -> None:
    assert shares_of({"sharedSecrets": [{"name": "root-of-all"}], "sharedConfigMaps": "x"}, {}) == ()


@pytest.mark.parametrize(
    ("where", "covered"),
    [
        (Where(), {"default", "team"}),
        (Where(names=("team", "kube-system", "later")), {"team", "kube-system"}),
        (Where(labels=(("tls", "true"),)), {"team"}),
        (Where(names=()), set()),
    ],
)
def test_where_copies_are(where: Where, covered: set[str]) -> None:
    made = decided(Share(BUNDLE, where))
    assert {step.slot.namespace for step in made.steps if isinstance(step, Create)} == covered
    assert {slot.namespace for slot in made.wanted} == covered


# -- what is shared at all


@pytest.mark.parametrize(
    "type_", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"]
)
def test_a_secret_that_means_something_elsewhere_is_never_shared(type_: str) -> None:
    found = content_of(REGISTRY, secret(type_))
    assert isinstance(found, Unusable)
    assert type_ in found.why


def test_an_object_beyond_the_bound_is_not_shared() -> None:
    fits = content_of(BUNDLE, {"data": {"k": "x" * (CONTENT_BYTES - 1)}})
    assert isinstance(fits, Content)
    assert isinstance(content_of(BUNDLE, {"data": {"k": "x" * CONTENT_BYTES}}), Unusable)
    assert isinstance(content_of(BUNDLE, {"binaryData": {"k": "x" * CONTENT_BYTES}}), Unusable)


def test_nothing_of_the_source_but_its_content_reaches_a_plane() -> None:
    source = secret() | {
        "metadata": {"name": "registry", "annotations": {"who": "admin"}, "labels": {"a": "b"}},
        "immutable": True,
    }
    found = content_of(REGISTRY, source)
    assert isinstance(found, Content)
    made = copy_of(found, "team")
    assert made["metadata"]["labels"] == {"bulkhead.dev/shared": "true"}
    assert list(made["metadata"]["annotations"]) == ["kubernetes.io/description"]
    assert set(made) == {"apiVersion", "kind", "metadata", "data", "type"}


# -- copies


def test_a_copy_that_is_as_it_was_left_is_not_written() -> None:
    share, one = Share(REGISTRY, Where(names=("team",))), copy("team")
    there = Interior(SPACES, (one,))
    left = {one.slot: Left(content().digest, one.uid, one.version)}
    assert decided(share, there=there, left=left).steps == ()
    assert decided(share, there=there).steps == (Replace(one.slot, content(), one.uid, one.version),)


@pytest.mark.parametrize(
    ("there", "source"),
    [
        (copy("team", version="8"), content()),
        (Copy(at("team"), "another", "7"), content()),
        (copy("team"), content(**{".dockerconfigjson": "bmV3"})),
    ],
    ids=["another client wrote to it", "another of the name", "its source has changed"],
)
def test_a_copy_that_is_not_as_it_was_left_is_written_over(there: Copy, source: Content) -> None:
    left = {at("team"): Left(content().digest, "uid-team", "7")}
    made = decided(
        Share(REGISTRY, Where(names=("team",))), sources={REGISTRY: source}, there=Interior(SPACES, (there,)), left=left
    )
    assert made.steps == (Replace(at("team"), source, there.uid, there.version),)


def test_what_is_withdrawn_goes_by_uid_and_version() -> None:
    one = copy("team")
    assert decided(there=Interior(SPACES, (one,))).steps == (Remove(one.slot, one.uid, one.version),)
    assert decided(there=Interior(SPACES, (copy("team", going=True),))).steps == ()


def test_copies_go_with_their_source_and_stay_when_it_was_not_read() -> None:
    share, there = Share(REGISTRY), Interior(SPACES, (copy("team"),))
    gone = decided(share, sources={REGISTRY: Absent()}, there=there)
    assert [type(step) for step in gone.steps] == [Remove]
    assert "the host has no object of this name" in gone.troubles[0]
    unread = decided(share, sources={REGISTRY: Unusable("it was not read")}, there=there)
    assert unread.steps == ()
    assert unread.troubles == ("Secret registry: it was not read",)


def test_what_is_the_tenants_is_not_tried_again_at_once() -> None:
    share = Share(REGISTRY, Where(names=("team",)))
    assert decided(share, conflicts={at("team"): False}).steps == ()
    assert decided(share, conflicts={at("team"): True}).steps == (Create(at("team"), content()),)


def test_a_plane_holds_no_more_than_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COPIES", 3)
    many = tuple(Space(f"n{number}") for number in range(5))
    made = decided(Share(REGISTRY), there=Interior(many))
    assert len(made.wanted) == 3
    assert "2 copies are left out" in made.troubles[0]
    monkeypatch.setattr(module, "ALL_COPIES_BYTES", content().size)
    assert len(decided(Share(REGISTRY), there=Interior(many)).wanted) == 1


# -- pull secrets


PULLING = Share(REGISTRY, Where(names=("team",)), pulls=True)


def points(*accounts: Account, share: Share = PULLING, **more: Any) -> list[Point]:
    made = decided(share, there=Interior(SPACES, (copy("team"),), accounts), **more)
    return [step for step in made.steps if isinstance(step, Point)]


def test_the_default_account_pulls_with_it_and_keeps_the_tenants_own() -> None:
    own = Account("team", "u", "1", pulls=("mine",))
    assert points(own) == [Point(own, ("mine", "registry"), ("registry",))]
    done = Account("team", "u", "2", pulls=("mine", "registry"), ours=("registry",))
    assert points(done) == []


def test_an_account_loses_ours_alone_when_it_is_withdrawn() -> None:
    account = Account("default", "u", "1", pulls=("mine", "registry"), ours=("registry",))
    assert points(account) == [Point(account, ("mine",), ())]
    assert points(Account("default", "u", "1", pulls=("registry",))) == []


def test_an_account_pulls_on_with_a_secret_that_was_not_read() -> None:
    held = Account("team", "u", "1", pulls=("mine", "registry"), ours=("registry",))
    unread: dict[Item, Source] = {REGISTRY: Unusable("it was not read")}
    assert points(held, sources=unread) == []
    assert points(Account("team", "u", "1", pulls=("mine",)), sources=unread) == []  # nothing is added that way
    assert points(held, share=Share(REGISTRY, Where(names=("team",))), sources=unread) == [Point(held, ("mine",), ())]
    assert points(held, sources={REGISTRY: Absent()}) == [Point(held, ("mine",), ())]


def test_a_secret_of_the_tenants_own_is_not_pulled_with() -> None:
    assert points(Account("team", "u", "1"), conflicts={at("team"): False}) == []


def test_a_secret_of_another_type_is_not_pulled_with() -> None:
    tls = content_of(REGISTRY, secret("kubernetes.io/tls"))
    account = Account("team", "u", "1")
    assert points(account, sources={REGISTRY: tls}) == []
    assert "a pull secret must be of type" in decided(PULLING, sources={REGISTRY: tls}).troubles[0]


def test_an_account_that_is_not_there_yet_is_waited_for() -> None:
    assert decided(PULLING).waits
    assert not decided(PULLING, there=Interior(SPACES, (), (Account("team", "u", "1"),))).waits


# -- laws


names = st.sampled_from(["default", "kube-system", "team", "old", "x"])
copies = st.lists(st.builds(copy, names, st.sampled_from([REGISTRY, BUNDLE]), st.sampled_from(["7", "8"]), going=st.booleans()))
accounts = st.lists(st.builds(Account, names, st.just("u"), st.just("1"), st.tuples(st.sampled_from(["mine", "registry"]))))
given_shares = st.lists(
    st.builds(Share, st.sampled_from([REGISTRY, BUNDLE]), st.builds(Where, st.none() | st.tuples(names)), st.booleans()),
    max_size=2,
    unique_by=lambda share: share.item,
)


@given(given_shares, copies, accounts)
def test_every_step_is_for_what_is_shared_or_was_seen_with_our_label(
    shares: list[Share], there: list[Copy], listed: list[Account]
) -> None:
    seen = {(one.slot, one.uid, one.version) for one in there}
    made = decided(*shares, there=Interior(SPACES, tuple(there), tuple(listed)))
    for step in made.steps:
        match step:
            case Create(slot, _):
                assert slot in made.wanted
                assert slot not in {one.slot for one in there}
            case Replace(slot, _, uid, version):
                assert slot in made.wanted
                assert (slot, uid, version) in seen
            case Remove(slot, uid, version):
                assert slot not in made.wanted
                assert (slot, uid, version) in seen
            case Point(account, pulls, ours):
                assert set(pulls) - set(account.pulls) <= set(ours)
                assert set(account.pulls) - set(pulls) <= set(account.ours)


# -- the condition


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (None, Reason.PROVISIONING, ""),
        (Found(unread="no answer"), Reason.PLANE_UNREACHABLE, "no answer"),
        (Found(unread="too large", unreadable=True), Reason.PLANE_UNREADABLE, "too large"),
        (Found(conflicts=("Secret team/registry",)), Reason.SHARE_CONFLICT, "Secret team/registry; rename"),
        (Found(conflicts=tuple(map(str, range(20)))), Reason.SHARE_CONFLICT, "12 more"),
        (Found(troubles=("Secret a: gone",), conflicts=("b",)), Reason.SHARE_UNAVAILABLE, "Secret a: gone"),
        (Found(refused="no"), Reason.SHARE_CONFLICT, "refuses a copy: no"),
        (Found(copies=4, namespaces=2), Reason.APPLIED, "4 copies"),
        (Found(copies=4, namespaces=2, waits=True), Reason.APPLIED, "4 copies"),
    ],
)
def test_what_the_condition_says(found: Found | None, reason: Reason, words: str) -> None:
    said = verdict(found)
    assert said.reason is reason
    assert words in said.message
    assert (said.status == "True") is (reason is Reason.APPLIED)


def test_sizes_are_of_what_is_stored() -> None:
    encoded = base64.b64encode(b"x" * 300).decode()
    assert content(token=encoded).size == len("token") + len(encoded)
