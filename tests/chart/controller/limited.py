"""A controller that has the chart's rights alone."""

from bulkhead.kube.client import Client
from tests.kit.controllerhost import ControllerHost


class Limited(ControllerHost):
    """A controller with the chart's rights alone; what is asked of the host beside it is the admin's."""

    def __init__(self, admin: Client, limited: Client) -> None:
        super().__init__(limited)
        self.client = admin
