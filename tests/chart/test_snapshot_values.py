"""Values of the chart that say where snapshots go: what reaches the controller, and what is refused before it starts."""

from typing import Final

import pytest

from bulkhead.api.objects import Obj
from controller.settings import SettingsError, load
from controller.snapshots.places import OWN
from tests.kit.helmchart import environment, of_kind, rendered

RECIPIENT: Final = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"


def _controller(*arguments: str) -> Obj:
    """The controller's pod."""
    (made,) = [
        obj for obj in rendered(*arguments) if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "bulkhead-controller"
    ]
    pod: Obj = made["spec"]["template"]["spec"]
    return pod


def test_where_snapshots_go_reaches_the_controller() -> None:
    assert not load(environment()).backup_target
    given = environment(
        "--set", "backup.target=s3://backups/of-this-host", "--set", "backup.endpoint=http://minio:9000",
        "--set", "backup.plainHTTP=true", "--set", f"backup.recipients={{{RECIPIENT}}}", "--set", "backup.credentialsSecret=s3",
    )  # fmt: skip
    settings = load(given)
    assert str(settings.backup_place) == "s3://backups/of-this-host"
    assert settings.backup_place.plain_http
    assert settings.backup_recipients == (RECIPIENT,)
    assert "AWS_ACCESS_KEY_ID" not in given  # the Secret is mounted, so that a rotated one counts
    pod = _controller(
        "--set", "backup.target=s3://backups", "--set", f"backup.recipients={{{RECIPIENT}}}",
        "--set", "backup.credentialsSecret=s3",
    )  # fmt: skip
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["credentials"] == f"{settings.backup_credentials}/{OWN}"
    assert {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume} == {
        "credentials": "s3"
    }
    volume = environment("--set", "backup.volumeClaim=disk", "--set", f"backup.recipients={{{RECIPIENT}}}")
    assert str(load(volume).backup_place) == "file:///backups"


def test_further_places_reach_the_controller_each_with_credentials_of_its_own() -> None:
    arguments = (
        "--set", f"backup.recipients={{{RECIPIENT}}}",
        "--set", "backup.targets.archive.target=s3://archive/a", "--set", "backup.targets.archive.credentialsSecret=archive-s3",
        "--set", "backup.targets.cold.volumeClaim=cold",
    )  # fmt: skip
    given = environment(*arguments)
    settings = load(given)
    assert {found.name: str(found.place) for found in settings.named_targets} == {
        "archive": "s3://archive/a", "cold": "file:///targets/cold",
    }  # fmt: skip
    assert all(found.recipients == (RECIPIENT,) for found in settings.named_targets)
    pod = _controller(*arguments)
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["target-cold"] == "/targets/cold"
    assert mounts["credentials-archive"] == f"{settings.backup_credentials}/archive"
    assert pod["securityContext"]["fsGroup"] == 65532
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets["credentials-archive"] == "archive-s3"


@pytest.mark.parametrize(
    ("arguments", "surge"),
    [
        ((), 1),
        (("backup.volumeClaim=disk",), 0),
        (("backup.targets.cold.volumeClaim=cold",), 0),
        (("backup.targets.cold.volumeClaim=cold", "controller.replicas=2"), 1),
    ],
)
def test_a_volume_of_one_node_does_not_block_an_upgrade(arguments: tuple[str, ...], surge: int) -> None:
    """The next pod could not mount it, and so would not be ready, while the former one has it."""
    set_by = [f"backup.recipients={{{RECIPIENT}}}", *arguments]
    (made,) = of_kind("Deployment", *(part for argument in set_by for part in ("--set", argument)))
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": surge, "maxUnavailable": 1 - surge}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("backup.targets.a.target=s3://backups",), "backup.targets.a.credentialsSecret"),
        (("backup.targets.a.target=s3://backups", "backup.targets.a.credentialsSecret=s3"), "backup.targets.a.recipients"),
        (("backup.targets.a.endpoint=https://x",), "set target or volumeClaim"),
        (("backup.targets.a.target=s3://backups", "backup.targets.a.volumeClaim=x"), "set target or volumeClaim"),
        (("backup.targets.A_B.volumeClaim=x",), "backup/targets"),
        (("backup.target=s3://backups",), "backup.recipients must have"),
        (("backup.volumeClaim=disk",), "backup.recipients must have"),
        (("backup.target=s3://backups", "backup.volumeClaim=disk", f"backup.recipients={{{RECIPIENT}}}"), "set one of them"),
        (("backup.target=https://backups",), "backup/target"),
        (("backup.recipients={age1x}",), "backup/recipients"),
        (("backup.keys=x",), "'keys' not allowed"),
    ],
)
def test_a_place_for_snapshots_that_cannot_work_is_refused(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(AssertionError) as refused:
        rendered(*(part for argument in arguments for part in ("--set", argument)))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"BULKHEAD_BACKUP_TARGET": "s3://backups"}, "BULKHEAD_BACKUP_RECIPIENTS"),
        ({"BULKHEAD_BACKUP_TARGET": "x", "BULKHEAD_BACKUP_RECIPIENTS": RECIPIENT}, "BULKHEAD_BACKUP_TARGET"),
        ({"BULKHEAD_BACKUP_RECIPIENTS": "age1x"}, "BULKHEAD_BACKUP_RECIPIENTS"),
    ],
)
def test_the_controller_does_not_start_with_a_place_that_cannot_work(environment: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load(environment)
