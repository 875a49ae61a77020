"""The platform's pull secret: only on pods of the platform's own images, whoever created them."""

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from syncer.translate.kinds import pod as pods
from syncer.translate.reasons import Untranslatable
from tests.kit.translationsamples import POD, pod, view

OWN, OTHER = "r.example.org/slurm:1@sha256:abc", "r.example.org/private:1"
VIEW = replace(view(), pull_secret="bulkhead-pull", own_images=frozenset({OWN}))
CONTAINER = POD["spec"]["containers"][0]


def pulled(images: list[str], under: Any = VIEW, **spec: Any) -> list[str]:
    containers = [CONTAINER | {"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    made = pods.for_creation(pod({"containers": containers, **spec}), under)
    return [each["name"] for each in made["spec"].get("imagePullSecrets", ())]


def test_pods_of_the_platforms_own_images_are_pulled_with_its_secret() -> None:
    assert pulled([OWN]) == ["bulkhead-pull"]
    assert pulled([OWN, OWN], volumes=[{"name": "v", "image": {"reference": OWN}}]) == ["bulkhead-pull"]


@pytest.mark.parametrize("images", [[OTHER], [OWN, OTHER], [OTHER, OWN], [f"{OWN} "], [f"{OWN}x"], [OWN.upper()]])
def test_no_other_pod_is(images: list[str]) -> None:
    with contextlib.suppress(Untranslatable):
        assert pulled(images) == []


def test_an_init_container_or_a_volume_of_another_image_is_enough_to_lose_it() -> None:
    assert pulled([OWN], initContainers=[CONTAINER | {"name": "i", "image": OTHER}]) == []
    assert pulled([OWN], volumes=[{"name": "v", "image": {"reference": OTHER}}]) == []


def test_a_tenant_that_names_the_secret_gets_its_own_of_that_name() -> None:
    (named,) = pulled([OTHER], imagePullSecrets=[{"name": "bulkhead-pull"}])
    assert named != "bulkhead-pull"


def test_without_the_setting_there_is_none() -> None:
    assert pulled([OWN], replace(VIEW, pull_secret="")) == []


@pytest.mark.parametrize(("image", "let_in"), [(OWN, True), (OTHER, False)])
def test_beside_them_no_debug_container_of_another_image_is_pulled(image: str, let_in: bool) -> None:
    debugged = pod({"containers": [CONTAINER | {"image": OWN}], "ephemeralContainers": [{"name": "debug", "image": image}]})
    if let_in:
        assert pods.ephemeral_containers(debugged, VIEW)
    else:
        with pytest.raises(Untranslatable, match="of its own images only"):
            pods.ephemeral_containers(debugged, VIEW)
    assert pods.ephemeral_containers(debugged, view())
