"""The places that classes may name: what settings may say of them, and that each is opened with its own credentials."""

import json
from pathlib import Path
from typing import Any

import pytest

from bulkhead.snapshots.namedtargets import NamedTarget, read
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import TargetError
from controller.settings import SettingsError, load
from controller.snapshots.places import OWN, Places, opened, own_target

RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
ARCHIVE = {"target": "s3://archive/cluster-a", "endpoint": "https://minio:9000", "region": "eu", "recipients": [RECIPIENT]}


def test_each_place_has_its_own_address_and_recipients() -> None:
    found = read(json.dumps({"cold": {"target": "file:///targets/cold"}, "archive": ARCHIVE}), ("age1usual",))
    assert found == (
        NamedTarget("archive", Place("s3", "archive", "cluster-a", "https://minio:9000", "eu"), (RECIPIENT,)),
        NamedTarget("cold", Place("file", "/targets/cold"), ("age1usual",)),
    )
    assert read("{}") == ()


HOSTILE: dict[str, Any] = {
    "not JSON": "{",
    "a list": [],
    "a name with a path": {"../x": ARCHIVE},
    "a name in capitals": {"Archive": ARCHIVE},
    "an empty name": {"": ARCHIVE},
    "a long name": {"a" * 41: ARCHIVE},
    "too many": {f"t{number}": ARCHIVE for number in range(17)},
    "no object": {"archive": "s3://archive"},
    "another field": {"archive": ARCHIVE | {"credentials": "x"}},
    "no target": {"archive": {"recipients": [RECIPIENT]}},
    "a target that is a number": {"archive": ARCHIVE | {"target": 7}},
    "a target of another scheme": {"archive": ARCHIVE | {"target": "https://archive"}},
    "a target with credentials": {"archive": ARCHIVE | {"target": "s3://key:secret@archive"}},
    "a directory above": {"archive": ARCHIVE | {"target": "file:///targets/../etc"}},
    "an endpoint in the clear": {"archive": ARCHIVE | {"endpoint": "http://minio:9000"}},
    "an endpoint in the clear, nearly allowed": {"archive": ARCHIVE | {"endpoint": "http://minio", "plainHTTP": "false"}},
    "no recipients": {"archive": {"target": "s3://archive"}},
    "recipients that are a text": {"archive": ARCHIVE | {"recipients": RECIPIENT}},
    "a recipient that is not a key": {"archive": ARCHIVE | {"recipients": ["age1x"]}},
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_cannot_be_a_target_stops_the_controller_at_its_start(case: str) -> None:
    told = HOSTILE[case] if isinstance(HOSTILE[case], str) else json.dumps(HOSTILE[case])
    with pytest.raises(ValueError, match=r".") as refused:
        read(told)
    assert len(str(refused.value)) < 300
    with pytest.raises(SettingsError, match="BULKHEAD_BACKUP_TARGETS"):
        load({"BULKHEAD_BACKUP_TARGETS": told})


def test_a_named_place_is_never_opened_with_other_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "of-the-installation")
    archive, cold = (NamedTarget(name, Place("s3", "archive"), (RECIPIENT,)) for name in ("archive", "cold"))
    for name in ("archive", "cold"):
        (tmp_path / name).mkdir()
    (tmp_path / "cold" / "AWS_ACCESS_KEY_ID").write_text("cold-id")
    (tmp_path / "cold" / "AWS_SECRET_ACCESS_KEY").write_text("cold-secret")
    with pytest.raises(TargetError, match="target archive: its credentialsSecret has no AWS_ACCESS_KEY_ID"):
        opened(archive, tmp_path)
    assert opened(cold, tmp_path)._store.config["access_key_id"] == "cold-id"  # type: ignore[union-attr]
    # A Secret that is rotated counts at the next use.
    (tmp_path / "cold" / "AWS_ACCESS_KEY_ID").write_text("new-id\n")
    assert opened(cold, tmp_path)._store.config["access_key_id"] == "new-id"  # type: ignore[union-attr]
    (tmp_path / "cold" / "AWS_SECRET_ACCESS_KEY").unlink()
    with pytest.raises(TargetError, match="AWS_SECRET_ACCESS_KEY"):
        opened(cold, tmp_path)


def test_the_installations_own_place_is_opened_with_its_secret_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that a rotator keeps fresh ends within hours, and the controller runs for weeks."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "of-the-environment")
    place = Place("s3", "backups")
    assert own_target(place, tmp_path)._store.config.get("access_key_id") in {None, "of-the-environment"}  # type: ignore[union-attr]
    (tmp_path / OWN).mkdir()
    with pytest.raises(TargetError, match="the installation's target: its credentialsSecret has no AWS_ACCESS_KEY_ID"):
        own_target(place, tmp_path)
    for number in ("one", "two"):
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            (tmp_path / OWN / key).write_text(f"{key}-{number}\n")
        config = own_target(place, tmp_path)._store.config  # type: ignore[union-attr]
        assert (config["access_key_id"], config["session_token"]) == (
            f"AWS_ACCESS_KEY_ID-{number}",
            f"AWS_SESSION_TOKEN-{number}",
        )


def test_a_place_that_is_not_there_is_told_by_its_name() -> None:
    assert Places().at("") is None
    assert Places().at("archive") is None
    assert "backup.target and backup.recipients" in Places().missing("")
    assert "no target 'archive': add it to backup.targets" in Places().missing("archive")
