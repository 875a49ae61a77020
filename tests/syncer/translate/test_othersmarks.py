"""What others on the host have noted on a copy is kept by a write that replaces it whole, and nothing of ours beside it."""

from typing import Any

from bulkhead.api.objects import Obj
from syncer.translate import othersmarks
from syncer.translate.kinds import configmap, secret
from syncer.translate.metadata import APPLIED, WANTED
from tests.kit import translationsamples as samples

FOREIGN = {"labels": {"velero.io/backup": "nightly"}, "annotations": {"reflector.example.org/to": "a"}}


def made(**labels: str) -> Obj:
    meta = {"name": "c", "namespace": "team", "uid": "u", "labels": labels}
    return configmap.to_host({"metadata": meta, "data": {"a": "1"}}, samples.VIEW)


def noted(on: Obj, **more: Any) -> Obj:
    meta: Obj = samples.merged(on, {"metadata": FOREIGN | {"uid": "h", "resourceVersion": "1"} | more})["metadata"]
    return meta


def test_marks_and_finalizers_of_others_stay() -> None:
    kept = othersmarks.kept(made(app="a"), noted(made(app="a"), finalizers=["example.org/hold"]))
    assert kept["metadata"]["labels"] == made(app="a")["metadata"]["labels"] | FOREIGN["labels"]
    assert kept["metadata"]["annotations"] == made(app="a")["metadata"]["annotations"] | FOREIGN["annotations"]
    assert kept["metadata"]["finalizers"] == ["example.org/hold"]
    assert kept["data"] == {"a": "1"}
    assert not kept["metadata"].keys() & {"uid", "resourceVersion"}


def test_what_the_tenant_took_away_goes_and_what_it_changed_is_as_it_is_now() -> None:
    kept = othersmarks.kept(made(app="new"), noted(made(app="old", tier="db")))["metadata"]
    assert kept["labels"]["app"] == "new"
    assert "tier" not in kept["labels"]
    assert kept["annotations"][APPLIED] == made(app="new")["metadata"]["annotations"][APPLIED]


def test_what_is_ours_and_no_longer_wanted_goes() -> None:
    there = noted(made())
    there["annotations"] |= {WANTED: "x", "bulkhead.dev/of-an-earlier-release": "x"}
    kept = othersmarks.kept(made(), there)["metadata"]
    assert kept["annotations"] == made()["metadata"]["annotations"] | FOREIGN["annotations"]


def test_a_key_that_others_and_the_tenant_set_is_the_tenants() -> None:
    there = noted(made()) | {"labels": {"app": "theirs"}}
    assert othersmarks.kept(made(app="own"), there)["metadata"]["labels"]["app"] == "own"


def test_a_copy_without_foreign_notes_is_written_as_wanted() -> None:
    assert othersmarks.kept(made(app="a"), made(app="b")["metadata"]) == made(app="a")
    empty = {"uid": "h", "labels": None, "annotations": None, "finalizers": None}
    assert othersmarks.kept(made(), empty) == made()


def test_nothing_that_is_given_is_changed() -> None:
    desired, there = made(), noted(made(), finalizers=["f"])
    othersmarks.kept(desired, there)["metadata"]["finalizers"].append("g")
    assert desired == made()
    assert there == noted(made(), finalizers=["f"])


def test_secrets_are_no_different() -> None:
    meta = {"name": "c", "namespace": "team", "uid": "u"}
    desired = secret.to_host({"metadata": meta, "data": {"a": "MQ=="}}, samples.VIEW)
    assert othersmarks.kept(desired, noted(desired))["metadata"]["labels"].items() >= FOREIGN["labels"].items()
