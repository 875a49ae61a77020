"""The parsers of `login`, `logout` and `revoke`, and of `credential`, which kubeconfigs call. They load fast."""

import argparse

from bulkhead.cli.parsers import RAW, Commands, add_wait, later


def add_logins(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`login`, `logout` and `revoke`."""
    login = commands.add_parser(
        "login",
        parents=[shared],
        help="log in to a tenant: a kubeconfig without secrets, and a credential that renews itself",
        description="Log in to a tenant as who you are on the host. The credential is a certificate of an hour, kept in your "
        "cache; the kubeconfig names this command, by which kubectl fetches the next one.",
        epilog="examples:\n  bulkhead login red\n  bulkhead login red -o red.yaml\n  kubectl bulkhead login red\n",
        formatter_class=RAW,
    )
    login.add_argument("tenant", metavar="TENANT", help="the tenant")
    login.add_argument("-o", "--output", metavar="FILE", help="the kubeconfig (default: ~/.kube/bulkhead/TENANT.yaml)")
    login.set_defaults(handler=later("logins", "login"))

    logout = commands.add_parser(
        "logout",
        help="forget the credentials of a tenant on this machine",
        description="Remove what is kept of a tenant from your cache. It does not end the credential itself: that is `revoke`.",
    )
    logout.add_argument("tenant", metavar="TENANT", nargs="?", help="the tenant")
    logout.add_argument("--all", action="store_true", help="of every tenant")
    logout.set_defaults(handler=later("logins", "logout"))

    revoke = commands.add_parser(
        "revoke",
        parents=[shared],
        usage="%(prog)s [options] TENANT (USER ... | --all | --lift USER)",
        help="end people's certificates of a tenant before their hour is over",
        description="Revoke the certificates that people hold for a tenant. All of them end, as they are of one CA, and "
        "everybody else's kubectl is refused once and then has a new one; users that are named get none until that is lifted.",
        epilog="examples:\n  bulkhead revoke red alice@example.org\n  bulkhead revoke red --all\n"
        "  bulkhead revoke red --lift alice@example.org\n",
        formatter_class=RAW,
    )
    revoke.add_argument("tenant", metavar="TENANT", help="the tenant")
    revoke.add_argument("users", metavar="USER", nargs="*", help="users by the names that the host's API server gives them")
    revoke.add_argument("--all", action="store_true", help="end all certificates, and let everybody fetch a new one")
    revoke.add_argument("--lift", metavar="USER", action="append", default=[], help="let a user log in again; may be repeated")
    add_wait(revoke, "until the tenant's API server refuses them")
    revoke.set_defaults(handler=later("logins", "revoke"))


def add_credential(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`credential certificate`: what kubeconfigs call; not for people, so the list of commands leaves it out."""
    credential = commands.add_parser("credential", description="Print a credential for kubectl (client-go credential plugin).")
    kinds = credential.add_subparsers(metavar="KIND", required=True)
    certificate = kinds.add_parser(
        "certificate", parents=[shared], description="A certificate of an hour for the host's admins."
    )
    certificate.add_argument("tenant", metavar="TENANT", help="the tenant")
    certificate.set_defaults(handler=later("credentials.plugin", "certificate"))
