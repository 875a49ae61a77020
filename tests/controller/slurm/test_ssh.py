"""Which requests get an ssh certificate, for which user and how long; how the CA is rotated; and what login nodes are told."""

from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import names
from controller.slurm.decide import ssh
from controller.slurm.decide.ssh import Issue, Refuse, Request, judge, request_of
from controller.slurm.objects import ssh as objects
from controller.slurm.objects import users as user_objects
from controller.slurm.spec import LoginSpec, UserSpec
from controller.slurm.spec.authority import KEPT, SPREAD, Authority, SshKey, from_data, stepped, to_data
from controller.slurm.spec.identities import principals_of
from controller.slurm.spec.keys import BadKeysError
from tests.kit import tenantsamples as samples
from tests.kit.slurmsamples import CASES, slurm_spec

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
ADA = "corp:ada@example.org"
HOSTS_ADA = "bulkhead:host:ada"


def tenant(**access: Any) -> dict[str, Any]:
    return samples.tenant(scheduling={"mode": "Slurm", "slurm": CASES["certificates"]}, access=access)


def answer(request: Request, *, drawn_for: str = "", recent: int = 0, **access: Any) -> ssh.Answer:
    return judge(request, tenant(**access), drawn_for=drawn_for, recent=recent, now=NOW)


def token(identity: str = ADA, *, seconds: int = 300, groups: tuple[str, ...] = ()) -> Request:
    return Request(identity, groups, NOW + timedelta(seconds=seconds))


def test_a_certificate_is_of_a_quarter_of_an_hour_and_never_outlives_its_token() -> None:
    assert answer(Request(HOSTS_ADA)) == Issue(("alice", "root"), NOW + timedelta(minutes=15))
    assert answer(token()) == Issue(("alice", "bob", "root"), NOW + timedelta(seconds=300))
    assert answer(token(seconds=3600)) == Issue(("alice", "bob", "root"), NOW + timedelta(minutes=15))
    assert answer(token("corp:bob@example.org")) == Issue(("bob",), NOW + timedelta(seconds=300))
    assert isinstance(answer(token(seconds=9)), Refuse)


@pytest.mark.parametrize(
    "request_",
    [
        Request("corp:eve"), token("corp:eve"), Request(""), Request("alice"), Request("bulkhead:host:alice"), token("alice"),
        Request("system:admin", ("system:masters",)), Request(ADA), token(ADA.upper()), Request("bulkhead:host:ada2"),
    ],
)  # fmt: skip
def test_a_user_that_the_tenant_does_not_name_gets_none(request_: Request) -> None:
    assert isinstance(answer(request_), Refuse)


@pytest.mark.parametrize(
    ("access", "refused"),
    [
        ({"revoked": [{"name": ADA}]}, {ADA}),
        ({"revoked": [{"kind": "User", "name": ADA}]}, {ADA}),
        ({"revoked": [{"kind": "Group", "name": "corp:left"}]}, {ADA}),
        ({"revoked": [{"kind": "Group", "name": ADA}]}, set()),
        ({"revoked": [{"name": ADA, "before": "2026-06-01T11:00:00Z"}]}, set()),
        ({"revokedUsers": ["ada"]}, {HOSTS_ADA}),
        ({"revokedUsers": [HOSTS_ADA]}, {HOSTS_ADA}),
        ({"revokedUsers": [ADA]}, set()),
    ],
)
def test_a_revoked_user_gets_none_and_login_nodes_learn_of_it(access: dict[str, Any], refused: set[str]) -> None:
    requests = [token(groups=("corp:left",)), Request(HOSTS_ADA)]
    assert {each.identity for each in requests if isinstance(answer(each, **access), Refuse)} == refused
    if access.get("revoked", [{}])[0].get("kind") != "Group":  # login nodes know of no groups
        assert ssh.revoked(tenant(**access)) & {ADA, HOSTS_ADA} == refused


@pytest.mark.parametrize(
    ("identities", "admin"),
    [([ADA], False), ([ADA, "corp:bob@example.org"], True), ([], True)],
    ids=["all are revoked", "one of two is", "there are none"],
)
def test_a_revoked_user_administers_nothing(identities: list[str], admin: bool) -> None:
    made = deepcopy(tenant(revoked=[{"name": ADA}]))
    made["spec"]["scheduling"]["slurm"]["users"] = [{"name": "ada", "uid": 10001, "admin": True, "identities": identities}]
    assert [user.admin for user in ssh.users_of(made)] == [admin]
    made["spec"]["access"] = {}
    assert [user.admin for user in ssh.users_of(made)] == [True]


def test_nothing_is_signed_by_a_ca_that_is_to_be_replaced() -> None:
    assert answer(token(), certificatesRevoked="now", drawn_for="before") is None
    assert isinstance(answer(token(), certificatesRevoked="now", drawn_for="now"), Issue)
    assert isinstance(answer(token(), drawn_for="once"), Issue)
    # Who gets none anyway is told at once.
    assert isinstance(answer(token("corp:eve"), certificatesRevoked="now"), Refuse)


def test_more_than_thirty_a_minute_are_too_many() -> None:
    assert isinstance(answer(token(), recent=29), Issue)
    assert isinstance(answer(token(), recent=30), Refuse)


def test_of_a_requests_extra_only_a_moment_is_read() -> None:
    assert request_of("a", ["g"], {names.TOKEN_ENDS: ["1780315200"]}) == Request("a", ("g",), NOW)
    for broken in ([], [""], ["x"], ["-5"], ["1.5"], ["9" * 40], "1780315200", None, [None], ["\N{FULLWIDTH DIGIT ONE}7"]):
        assert request_of("a", [], {names.TOKEN_ENDS: broken}).token_ends is None


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), unique=True), max_size=6), st.sampled_from(["a", "b", "d"]))
def test_a_person_is_only_a_user_that_names_them_and_root_only_as_an_admin(named: list[list[str]], identity: str) -> None:
    users = [UserSpec(f"u{at}", 10000 + at, admin=at % 2 == 0, identities=tuple(each)) for at, each in enumerate(named)]
    found = principals_of(identity, users)
    assert {user.name for user in users if identity in user.identities} == set(found) - {"root"}
    assert ("root" in found) == any(user.admin and identity in user.identities for user in users)


# -- the CA


def keys() -> Any:
    numbers = count(1)
    return lambda: SshKey(f"private {(at := next(numbers))}", f"public {at}")


def test_a_rotation_is_learnt_before_it_signs_and_the_old_key_forgotten_after_its_last_certificate() -> None:
    draw = keys()
    first = Authority(draw(), rotated="")
    at = NOW

    def step(kept: Authority, seconds: float = 0, rotate: str = "x") -> Authority:
        nonlocal at
        at += timedelta(seconds=seconds)
        spread = dict.fromkeys(kept.trusted, NOW)
        return stepped(kept, rotate=rotate, revoke="", now=at, draw=draw, spread=spread)

    staged = step(first)
    assert (staged.signing, staged.trusted) == (first.signing, ("public 1", "public 2"))
    assert step(staged, SPREAD.total_seconds() - 1) == staged
    promoted = step(staged, 1)
    assert (promoted.signing.public, promoted.trusted) == ("public 2", ("public 2", "public 1"))
    assert step(promoted, KEPT.total_seconds() - 1) == promoted
    alone = step(promoted, 1)
    assert alone.trusted == ("public 2",)
    assert step(alone, 10**6) == alone
    assert step(alone, rotate="y").staged is not None
    assert ssh.CERTIFICATE_LIFE + timedelta(minutes=10) < KEPT, "longer than any certificate, with what clocks differ"


def test_a_key_that_no_login_node_has_yet_signs_nothing() -> None:
    """The plane does not answer while a rotation is requested."""
    draw = keys()
    staged = advanced(Authority(draw()), NOW, draw)
    assert staged.staged is not None
    fresh, late = staged.staged.public, NOW + 10 * SPREAD
    assert advanced(staged, late, draw) == staged
    assert advanced(staged, late, draw, {staged.signing.public: NOW}) == staged
    assert advanced(staged, late, draw, {fresh: late - SPREAD + timedelta(seconds=1)}) == staged
    assert advanced(staged, late, draw, {fresh: late - SPREAD}).signing.public == fresh


def advanced(kept: Authority, now: datetime, draw: Any, spread: dict[str, datetime] | None = None, **asked: str) -> Authority:
    return stepped(kept, now=now, draw=draw, spread=spread or {}, **({"rotate": "x", "revoke": ""} | asked))


def test_a_revocation_leaves_nothing_older_and_is_carried_out_once() -> None:
    draw = keys()
    kept = advanced(Authority(draw()), NOW, draw)
    revoked = advanced(kept, NOW, draw, revoke="now")
    assert not set(revoked.trusted) & set(kept.trusted)
    assert (revoked.revoked, revoked.staged, revoked.previous) == ("now", None, "")
    assert advanced(revoked, NOW + KEPT, draw, revoke="now") == revoked
    assert advanced(revoked, NOW + KEPT, draw) == revoked


def test_what_is_kept_is_read_again_and_what_is_broken_refused() -> None:
    draw = keys()
    for kept in (Authority(draw()), Authority(draw(), staged=draw(), previous="p", rotated="r", revoked="v", since="s")):
        assert from_data(to_data(kept)) == kept
        assert "private" not in repr(kept)
    for broken in (
        {},
        {"authority.json": "%"},
        {"authority.json": "e30="},
        {"authority.json": "bnVsbA=="},
        {"authority.json": "W10="},
    ):
        with pytest.raises(BadKeysError):
            from_data(broken)
    # A moment that cannot be read holds nothing up.
    had = Authority(draw(), staged=draw(), since="?")
    assert advanced(had, NOW, draw, dict.fromkeys(had.trusted, NOW - SPREAD), rotate="").staged is None


# -- what login nodes and people are given


def test_a_revoked_user_is_in_no_file_and_has_no_right() -> None:
    spec = slurm_spec(CASES["certificates"])
    login = LoginSpec(replicas=2, revoked=frozenset({ADA}))
    (trust,) = objects.trust(spec, login, ("ssh-ed25519 AAAA",))
    assert trust["data"] == {
        "user-ca.pub": "ssh-ed25519 AAAA\n",
        "alice": f"{HOSTS_ADA}\n",
        "bob": "corp:bob@example.org\n",
        "root": f"{HOSTS_ADA}\n",
    }
    subjects = [obj["subjects"] for obj in objects.rights(spec, login) if "subjects" in obj]
    assert [[each["name"] for each in found] for found in subjects] == [[HOSTS_ADA, "corp:bob@example.org"]] * 2


@pytest.mark.parametrize("where", ["tenant", "class", "nowhere"])
def test_keys_are_off_where_tenant_or_class_wants_certificates_alone(where: str) -> None:
    from controller.settings import Settings
    from controller.slurm.decide.resolve import resolve

    asked = CASES["everything"] | {"login": CASES["everything"]["login"] | {"certificatesOnly": where == "tenant"}}
    way = {"certificatesOnly": where == "class", "portForwarding": True}
    bounds = samples.tenant_class(scheduling={"slurm": {"ssh": way}})
    spec = resolve(samples.tenant(scheduling={"mode": "Slurm", "slurm": asked}), bounds, Settings())
    assert spec is not None
    assert spec.login is not None
    assert (spec.login.forwarding.ports, spec.login.forwarding.agent) == (True, False)
    assert bool(user_objects.authorized_keys(spec)["data"]) is (where == "nowhere")


def key(letter: str, comment: str = "") -> str:
    return f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{letter * 24}{comment and ' ' + comment}"


def opened(revoked: set[str], *users: UserSpec, root: tuple[str, ...] = ()) -> dict[str, str]:
    login = LoginSpec(root_keys=root, revoked=frozenset(revoked))
    found: dict[str, str] = user_objects.authorized_keys(replace(slurm_spec(), users=users, login=login))["data"]
    return found


def test_keys_of_a_user_whose_identities_are_all_revoked_open_nothing() -> None:
    alice = UserSpec("alice", 10001, (key("a"), key("b")), admin=True, identities=(ADA, HOSTS_ADA))
    bob = UserSpec("bob", 10002, (key("c"),), identities=("corp:bob@example.org",))
    plain = UserSpec("robot", 10003, (key("d"),))
    everybody = {"alice": f"{key('a')}\n{key('b')}\n", "bob": f"{key('c')}\n", "robot": f"{key('d')}\n"}
    assert opened(set(), alice, bob, plain) == everybody | {"root": everybody["alice"]}
    # Who may still be the user keeps the keys of the user.
    assert opened({ADA}, alice, bob, plain) == everybody | {"root": everybody["alice"]}
    left = {"bob": f"{key('c')}\n", "robot": f"{key('d')}\n"}
    assert opened({ADA, HOSTS_ADA, "corp:eve"}, alice, bob, plain) == left
    assert opened({ADA, HOSTS_ADA}, alice) == {}


def test_a_revoked_users_key_opens_no_other_account_either() -> None:
    alice = UserSpec("alice", 10001, (key("a", "ada@laptop"),), identities=(ADA,))
    shared = UserSpec("shared", 10002, (key("a"), key("c")))
    admin = UserSpec("carol", 10003, (key("e"),), admin=True)
    root = (key("a", "old comment").replace("ssh-ed25519", "sk-ssh-ed25519@openssh.com"), key("f"))
    assert opened({ADA}, alice, shared, admin, root=root) == {
        "shared": f"{key('c')}\n", "carol": f"{key('e')}\n", "root": f"{key('f')}\n{key('e')}\n",
    }  # fmt: skip


@pytest.mark.parametrize(
    "access",
    [
        {"revoked": [{"name": ADA}, {"name": "bulkhead:host:ada"}]},
        {"revoked": [{"kind": "User", "name": ADA}], "revokedUsers": ["ada"]},
    ],
)
def test_what_a_tenant_revokes_is_what_its_login_nodes_get(access: dict[str, Any]) -> None:
    from controller.settings import Settings
    from controller.slurm.decide.resolve import resolve

    users = [{"name": "alice", "uid": 10001, "sshKeys": [key("a")], "identities": [ADA, HOSTS_ADA]}]
    asked = CASES["everything"] | {"users": users, "login": {}}

    def data(**access: Any) -> dict[str, str]:
        wanted = samples.tenant(scheduling={"mode": "Slurm", "slurm": asked}, access=access)
        spec = resolve(wanted, samples.tenant_class(), Settings())
        assert spec is not None
        found: dict[str, str] = user_objects.authorized_keys(spec)["data"]
        return found

    assert data() == {"alice": f"{key('a')}\n"}
    assert data(**access) == {}
    # A certificate from before this moment is no longer accepted; the users that hold it still exist.
    before = {"revoked": [{"name": each, "before": "2026-01-01T00:00:00Z"} for each in (ADA, HOSTS_ADA)]}
    assert data(**before) == {"alice": f"{key('a')}\n"}
