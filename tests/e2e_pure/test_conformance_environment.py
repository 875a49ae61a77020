"""The class in which the conformance suite runs."""

from controller.decide.admit import refuse
from e2e import install
from e2e.conformance import environment
from tests.kit.tenantsamples import case, tenant


def test_the_class_of_the_suite_and_those_of_the_examples_contradict_nothing() -> None:
    examples = [each for each in install.example_objects() if each["kind"] == "TenantClass"]
    assert examples
    for each in (environment.tenant_class(), *examples):
        assert refuse(case(tenant(quota=None), each)) is None


def test_a_pod_of_the_suite_that_requests_little_may_have_the_limit_of_its_class() -> None:
    resources = environment.tenant_class()["spec"]["quota"]["resources"]
    assert resources["memory"]["maxPerPod"]
    assert not [name for name, bound in resources.items() if "maxLimitRequestRatio" in bound]
