"""What closes device variables lies in immutable ConfigMaps: other contents under the same name would stop every pass."""

import hashlib
import json

from bulkhead.api import devices

# Contents by name. Where this fails, the contents have changed: give `devices.ENVIRONMENT` the next number and add its line.
CONTENTS = {"devices-v1": "9d85488011291aa7"}


def test_other_contents_have_another_name() -> None:
    contents = [devices.environment(), *(devices.environment(vendor) for vendor in devices.VENDORS)]
    digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:16]
    assert CONTENTS[devices.ENVIRONMENT] == digest
