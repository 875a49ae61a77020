"""A controller that has the chart's rights alone."""

from bulkhead.api.names import SYSTEM_NAMESPACE
from bulkhead.kube.client import Client
from bulkhead.work.clock import SystemClock
from controller.host.identitykeys import IdentityKeys
from tests.kit.controllerhost import ControllerHost


class Limited(ControllerHost):
    """A controller with the chart's rights alone; what is asked of the host beside it is the admin's."""

    def __init__(self, admin: Client, limited: Client) -> None:
        super().__init__(limited, identity=IdentityKeys(limited, SYSTEM_NAMESPACE, SystemClock()))
        self.client = admin
