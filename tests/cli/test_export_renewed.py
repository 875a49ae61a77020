"""An export of a huge plane: it lasts longer than the certificate that it began with, and reads a million objects."""

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.kube import client
from bulkhead.kube.client import Client
from bulkhead.kube.codec import Page
from bulkhead.kube.errors import Unauthorized
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from workstation.cli.arguments import Host
from workstation.cli.credentials import certificate
from workstation.cli.credentials.certificate import Certificate
from workstation.cli.failures import CliError
from workstation.cli.tenant.export import _one, _Renewing, _Written
from workstation.cli.tenant.exported import Kind

TENANT = {"metadata": {"name": "red"}, "status": {"endpoint": "https://red.example.org", "certificateAuthority": "ca"}}
REFUSED = f"configmaps: {Unauthorized(401, 'Unauthorized', 'not known')}"
OBJECT = b'{"metadata": {"name": "mine", "namespace": "space"}}'


class Plane:
    """A plane that takes the certificate `second` alone, as one that has outlived the first."""

    def __init__(self) -> None:
        self.transport = self
        self.shown = b"first"
        self.asked: dict[str, Any] = {}

    def renew(self, config: KubeConfig) -> None:
        assert config.client_cert is not None
        self.shown = config.client_cert

    async def pages(self, *_: Any, **asked: Any) -> AsyncIterator[Page]:
        self.asked = asked
        if self.shown != b"second":
            raise Unauthorized(401, "Unauthorized", "not known")
        yield cast(Page, SimpleNamespace(items=[OBJECT]))


async def written(tmp_path: Path, left_seconds: float) -> _Written:
    renewing = _Renewing(cast(Client, None), Host(), TENANT, Certificate("first", "key", time.time() + left_seconds))
    found = _Written(objects=Counter())
    kind = Kind(Resource("", "v1", "configmaps", "ConfigMap", True))
    await _one(cast(Client, Plane()), kind, tmp_path / "1.yaml", found, lambda _: None, renewing=renewing)
    return found


async def test_a_certificate_that_ends_soon_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def current(*_: Any, **__: Any) -> Certificate:
        return Certificate("second", "key", time.time() + 3600)

    monkeypatch.setattr(certificate, "current", current)
    found = await written(tmp_path, left_seconds=200)
    assert (found.objects, found.unread) == ({"configmaps": 1}, [])
    # The control: the first one is used as long as it is good, and the plane's refusal is told.
    assert (await written(tmp_path, left_seconds=1000)).unread == [REFUSED]


async def test_without_another_certificate_the_present_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def current(*_: Any, **__: Any) -> Certificate:
        raise CliError("the controller did not answer")

    monkeypatch.setattr(certificate, "current", current)
    assert (await written(tmp_path, left_seconds=200)).unread == [REFUSED]


async def test_a_million_objects_of_a_kind_are_read_and_large_ones_in_parts(tmp_path: Path) -> None:
    plane = Plane()
    plane.shown = b"second"
    renewing = _Renewing(cast(Client, None), Host(), TENANT, Certificate("second", "key", time.time() + 3600))
    kind = Kind(Resource("", "v1", "configmaps", "ConfigMap", True))
    await _one(cast(Client, plane), kind, tmp_path / "1.yaml", _Written(), lambda _: None, renewing=renewing)
    assert plane.asked["limit"] * client._MOST_LIST_PAGES >= 1_000_000
    assert plane.asked["most"] > 1 << 30
