"""The controller's settings come from its environment; one that makes no sense stops it."""

import pytest

from controller.settings import SettingsError, load


def test_settings_come_from_the_environment() -> None:
    made = load({"BULKHEAD_WORKERS": "3", "BULKHEAD_DNS_UPSTREAMS": "", "BULKHEAD_KUBERNETES_VERSIONS": "v1.36.3, v1.35.1"})
    assert made.workers == 3
    assert made.dns_upstreams == ()
    assert made.kubernetes_versions == ("v1.36.3", "v1.35.1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"BULKHEAD_WORKERS": "many"},
        {"BULKHEAD_WORKERS": "0"},
        {"BULKHEAD_SERVICE_RANGE": "10.0.0.0/33"},
        {"BULKHEAD_SERVICE_RANGE": "10.112.0.1/12"},
        {"BULKHEAD_SLICE_PREFIX": "30"},
        {"BULKHEAD_PLANE_CLIENT_CIDRS": "everywhere"},
    ],
)
def test_a_setting_that_makes_no_sense_stops_the_controller_and_is_named(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        load(wrong)
