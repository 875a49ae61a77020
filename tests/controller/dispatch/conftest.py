"""The fixture of the tests of the ledger's writes."""

import pytest

from tests.controller.dispatch.world import World


@pytest.fixture
def world() -> World:
    return World()
