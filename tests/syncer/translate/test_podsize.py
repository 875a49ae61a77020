"""How large a pod may be, in the words that its owner reads."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer import settings
from syncer.translate import TenantView, Untranslatable
from syncer.translate.kinds import pod
from syncer.translate.reasons import Reason
from syncer.watch.view import static_view
from tests.kit import translationsamples as samples

VIEW = replace(samples.VIEW, most_per_pod={"memory": "64Gi", "cpu": "8"}, most_limit_request_ratio={"memory": "10"})


def sized(**resources: Any) -> Obj:
    own = samples.pod()
    own["spec"]["containers"][0]["resources"] = resources
    return own


def refused(own: Obj, view: TenantView = VIEW) -> Untranslatable:
    with pytest.raises(Untranslatable) as found:
        pod.for_creation(own, view)
    assert found.value.reason is Reason.TOO_LARGE
    assert not found.value.retriable
    return found.value


def test_a_pod_that_can_never_run_is_told_what_it_asks_for_and_what_it_may() -> None:
    said = str(refused(sized(requests={"memory": "65Gi"})))
    assert "requests 65Gi memory in all, and one pod may request at most 64Gi" in said
    assert "requests 8500m cpu" in str(refused(sized(limits={"cpu": "8.5"})))


def test_sidecars_and_init_containers_count_as_the_kubelet_counts_them() -> None:
    own = sized(requests={"cpu": "1"})
    own["spec"]["initContainers"] = [
        {"name": "s", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}},
        {"name": "i", "image": "x", "resources": {"requests": {"cpu": "6"}}},
    ]
    assert pod.for_creation(own, VIEW)
    own["spec"]["initContainers"][1]["resources"]["requests"]["cpu"] = "6001m"
    assert "8001m" in str(refused(own))


def test_a_limit_may_lie_so_far_above_its_request() -> None:
    said = str(refused(sized(requests={"memory": "1Gi"}, limits={"memory": "10241Mi"})))
    assert said.startswith(
        "spec.containers[0].resources.limits: a limit of 10241Mi memory, and at most 10 times the request of 1Gi"
    )
    for fine in (
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "10Gi"}},
        {"requests": {"memory": "1"}},
        {"limits": {"memory": "64Gi"}},
    ):
        assert pod.for_creation(sized(**fine), VIEW)


def test_what_runs_is_not_judged_again() -> None:
    assert pod.to_host(sized(requests={"memory": "65Gi"}), VIEW)
    assert pod.for_creation(sized(requests={"memory": "65Gi"}), samples.VIEW)


def test_what_the_pod_names_as_a_whole_no_container_requests_beside_it() -> None:
    own = sized(requests={"cpu": "1"})
    own["spec"]["containers"].append({"name": "b", "image": "x"})
    huge = {"hugepages-2Mi": "4Mi"}
    own["spec"]["resources"] = {"requests": {"memory": "1Mi", "cpu": "2", **huge}, "limits": huge}
    offered = replace(VIEW, allowed_resources=frozenset(huge))
    found = [each["resources"] for each in pod.for_creation(own, offered)["spec"]["containers"]]
    assert found == [{"requests": {"cpu": "1", "memory": "0"}}, {"requests": {"cpu": "0", "memory": "0"}}]
    assert "resources" not in pod.to_host(own, offered)["spec"]["containers"][1]


# -- what the class gives containers that say nothing

GIVEN = replace(
    samples.VIEW,
    most_per_pod={"cpu": "300m"},
    default_requests={"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "64Mi"},
)
LIMITED = replace(
    samples.VIEW, most_limit_request_ratio={"cpu": "10"}, default_requests={"cpu": "400m"}, default_limits={"cpu": "4"}
)


def many(count: int, **resources: Any) -> Obj:
    own = samples.pod()
    own["spec"]["containers"] = [{"name": f"c{at}", "image": "x", "resources": resources} for at in range(count)]
    return own


def test_what_the_class_gives_containers_counts_before_the_host_counts_it() -> None:
    assert pod.for_creation(many(30), GIVEN)
    said = str(refused(many(31), GIVEN))
    assert (
        "requests 310m cpu in all, with the 10m of each container that names none, and one pod may request at most 300m" in said
    )
    assert "in all, and" in str(refused(many(31, requests={"cpu": "10m"}), GIVEN))
    # A limit is a request, and what the pod names as a whole counts instead.
    assert pod.for_creation(many(3, limits={"cpu": "100m"}), GIVEN)
    assert "303m" in str(refused(many(3, limits={"cpu": "101m"}), GIVEN))
    assert pod.for_creation(many(31) | {"spec": many(31)["spec"] | {"resources": {"requests": {"cpu": "1m"}}}}, GIVEN)
    beside = many(30)
    beside["spec"]["initContainers"] = [{"name": "s", "image": "x", "restartPolicy": "Always"}]
    assert "310m" in str(refused(beside, GIVEN))


def test_the_syncer_judges_by_what_its_settings_say() -> None:
    said = {"requests": {"cpu": "10m"}, "limits": {"cpu": "4"}}
    own = {"tenant": "a", "tenantUID": "u", "planeNamespace": "bh-a", "workNamespace": "bh-a-work", "containerDefaults": said}
    view = static_view(settings.parse(json.dumps(own | {"mostPerClaim": "1Gi"}).encode()))
    assert (view.default_requests, view.default_limits, view.most_per_claim) == ({"cpu": "10m"}, {"cpu": "4"}, "1Gi")


def test_a_limit_that_the_class_gives_is_held_against_the_request_that_the_tenant_wrote() -> None:
    assert pod.for_creation(many(1), LIMITED)
    assert pod.for_creation(many(1, requests={"cpu": "400m"}), LIMITED)
    assert pod.for_creation(many(1, limits={"cpu": "40"}), LIMITED)
    assert str(refused(many(1, requests={"cpu": "399m"}), LIMITED)).startswith(
        "spec.containers[0].resources.limits: a limit of 4 cpu, which a container has that names none, "
        "and at most 10 times the request of 399m is allowed"
    )
    assert str(refused(many(1, requests={"cpu": "5"}), LIMITED)).startswith(
        "spec.containers[0].resources.requests: a request of 5 is more than the limit of 4 cpu, which a container has that"
    )
    assert pod.for_creation(many(1, requests={"cpu": "5"}, limits={"cpu": "6"}), LIMITED)


def test_beside_a_limit_of_the_pod_as_a_whole_its_containers_have_that_limit_and_no_ratio() -> None:
    own = many(2, requests={"cpu": "1m"})
    own["spec"]["containers"][0].pop("resources")
    own["spec"]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    found = [each["resources"] for each in pod.for_creation(own, LIMITED)["spec"]["containers"]]
    assert found == [{"requests": {"cpu": "0"}, "limits": {"cpu": "2"}}, {"requests": {"cpu": "1m"}, "limits": {"cpu": "2"}}]
    own["spec"]["resources"]["limits"]["cpu"] = "11"
    assert str(refused(own, LIMITED)).startswith("spec.resources.limits: a limit of 11 cpu, and at most 10 times")
