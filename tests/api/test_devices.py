"""What closes device variables lies in immutable ConfigMaps: other contents under the same name would stop every pass."""

import hashlib
import json

import pytest

from bulkhead.api import devices

# Contents by name. Where this fails, the contents have changed: give `devices.ENVIRONMENT` the next number and add its line.
CONTENTS = {"devices-v1": "9d85488011291aa7"}


def test_other_contents_have_another_name() -> None:
    contents = [devices.environment(), *(devices.environment(vendor) for vendor in devices.VENDORS)]
    digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:16]
    assert CONTENTS[devices.ENVIRONMENT] == digest


@pytest.mark.parametrize(
    ("variable", "hands"),
    [
        ("NVIDIA_VISIBLE_DEVICES", True),
        (" NVIDIA_VISIBLE_DEVICES ", True),
        ("DOCKER_RESOURCE_GPU", True),
        ("HABANA_VISIBLE_DEVICES_MORE", True),
        ("NVIDIA_VISIBLE_DEVICES_MORE", False),
        ("PATH", False),
    ],
)
def test_which_variables_hand_out_devices(variable: str, *, hands: bool) -> None:
    assert devices.hands_out_devices(variable) is hands


@pytest.mark.parametrize(
    ("prefix", "could"),
    [
        ("NVIDIA_VISIBLE_", True),  # and the key DEVICES
        ("NVIDIA_DRIVER_", True),
        ("DOCKER_", True),  # begins a prefix
        ("HABANA_VISIBLE_DEVICES_A", True),
        (" AMD_", True),
        ("", False),
        ("APP_", False),
    ],
)
def test_which_prefixes_could_hand_out_devices(prefix: str, *, could: bool) -> None:
    assert devices.could_hand_out_devices(prefix) is could
