"""Keys as data: a rotation has two halves, and no daemon ever meets a signature that it cannot verify."""

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slurm.keygen import make_auth_key, make_keys
from controller.slurm.spec.keys import (
    KEPT_KEYS,
    AuthKey,
    BadKeysError,
    SlurmKeys,
    from_data,
    promoted,
    retired,
    staged,
    to_data,
    waiting,
)
from tests.kit.slurmsamples import KEYS

STEPS = st.lists(st.tuples(st.sampled_from(["stage", "promote", "retire"]), st.integers(1, 5000)), max_size=12)


def entries(keys: SlurmKeys) -> dict[str, dict[str, object]]:
    return {entry["kid"]: entry for entry in json.loads(keys.jwks())["keys"]}


def test_made_keys_differ_and_survive_being_kept() -> None:
    one, other = make_keys(), make_keys()
    assert from_data(to_data(one)) == one
    assert {one.jwt, one.auth[0].secret, one.database_password}.isdisjoint(
        {other.jwt, other.auth[0].secret, other.database_password}
    )
    assert one.ssh_host_key.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert one.ssh_host_key_public.startswith("ssh-ed25519 ")


def test_the_file_is_what_auth_slurm_reads() -> None:
    made = entries(KEYS)
    assert made["first"] == {
        "alg": "HS256",
        "kty": "oct",
        "kid": "first",
        "k": base64.b64encode(b"x" * 32).decode(),
        "use": "default",
    }
    assert made["second"]["exp"] == 1_800_000_000
    assert "use" not in made["second"]


def test_a_rotation_in_two_halves() -> None:
    keys = replace(KEYS, auth=KEYS.auth[:1])
    both = staged(keys, AuthKey("fresh", b"n" * 32))
    assert [(key.kid, key.expires) for key in both.auth] == [("first", None), ("fresh", None)]
    assert entries(both)["first"].get("use") == "default"
    assert staged(both, AuthKey("fresh", b"n" * 32)) == both
    signing = promoted(both, now=1000, overlap=60)
    assert [(key.kid, key.expires) for key in signing.auth] == [("fresh", None), ("first", 1060)]
    assert promoted(signing, now=2000, overlap=60) == signing
    assert retired(signing, now=1059) == signing
    assert [key.kid for key in retired(signing, now=1060).auth] == ["fresh"]


@given(STEPS)
def test_who_signs_could_be_verified_one_step_before_and_verifies_one_step_after(steps: list[tuple[str, int]]) -> None:
    keys, now = make_keys(), 0
    for step, seconds in steps:
        now += seconds
        before = keys
        if step == "stage":
            keys = staged(keys, make_auth_key())
        elif step == "promote":
            keys = promoted(keys, now=now, overlap=6000)
        else:
            keys = retired(keys, now=now)
        assert keys.auth[0].kid in {key.kid for key in before.auth}
        assert before.auth[0].kid in {key.kid for key in keys.auth}
        assert keys.auth[0].expires is None
        assert len({key.kid for key in keys.auth}) == len(keys.auth) <= KEPT_KEYS
        assert sum("use" in entry for entry in entries(keys).values()) == 1
        assert from_data(to_data(keys)) == keys
        assert len([key for key in keys.auth[1:] if key.expires is None]) == (waiting(keys) is not None)


@pytest.mark.parametrize(
    "broken",
    [
        {"slurm.jwks": ""},
        {"slurm.jwks": base64.b64encode(b"{}").decode()},
        {"slurm.jwks": base64.b64encode(b'{"keys": []}').decode()},
        {"slurm.jwks": base64.b64encode(b'{"keys": [{"kid": "a", "k": "c2hvcnQ="}]}').decode()},
        {"slurm.jwks": base64.b64encode(b"[1]").decode()},
        {"jwt_hs256.key": base64.b64encode(b"short").decode()},
        {"jwt_hs256.key": "not base64"},
    ],
)
def test_kept_keys_that_cannot_be_used_are_refused_without_being_told(broken: dict[str, str]) -> None:
    with pytest.raises(BadKeysError) as caught:
        from_data(to_data(KEYS) | broken)
    assert "c2hvcnQ" not in str(caught.value)


def test_the_mark_of_a_password_is_new_with_it_and_may_be_missing() -> None:
    assert make_keys().password_mark != make_keys().password_mark != ""
    kept = to_data(KEYS)
    assert from_data(kept).password_mark == ""
    with pytest.raises(BadKeysError):
        from_data(kept | {"database-password-mark": "not base64"})


def test_missing_keys_are_refused() -> None:
    data = to_data(KEYS)
    for name in data:
        with pytest.raises(BadKeysError):
            from_data({key: value for key, value in data.items() if key != name})
