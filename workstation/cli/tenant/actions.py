"""`bulkhead tenant create | list | describe | why | snapshot | …`: the parser above them."""

from workstation.cli.parsing import Parser
from workstation.cli.tenant.acceptdata import add_accept_data
from workstation.cli.tenant.create import add_create
from workstation.cli.tenant.delete import add_delete
from workstation.cli.tenant.describe import add_describe
from workstation.cli.tenant.export import add_export
from workstation.cli.tenant.listing import add_list
from workstation.cli.tenant.recover import add_recover
from workstation.cli.tenant.restore import add_restore
from workstation.cli.tenant.retained import add_retained
from workstation.cli.tenant.snapshot import add_snapshot
from workstation.cli.tenant.verifysnapshot import add_verify_snapshot
from workstation.cli.tenant.why import add_why


def add_arguments(parser: Parser) -> None:
    """`tenant`."""
    parser.description = "Tenants of this cluster."
    actions = parser.actions("ACTION")
    for add in (
        add_create,
        add_list,
        add_describe,
        add_why,
        add_accept_data,
        add_recover,
        add_snapshot,
        add_verify_snapshot,
        add_restore,
        add_delete,
        add_retained,
        add_export,
    ):
        add(actions)
