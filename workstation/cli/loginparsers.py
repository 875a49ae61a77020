"""Parsers of ways in and out: `login`, `logout`, `revoke`, `ssh`, `kubeconfig`, `connect`, and `credential`. They load fast."""

import argparse

from workstation.cli.parsers import RAW, Commands, add_wait, later


def add_logins(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`login`, `logout` and `revoke`."""
    login = commands.add_parser(
        "login",
        parents=[shared],
        help="log in to a tenant: a kubeconfig without secrets, and a credential that renews itself",
        description="Log in to a tenant: by its identity provider, in a browser or by a code on another device;\n"
        "where it has none, or with --certificate, as who you are on the host, by a certificate of an hour.\n"
        "The credential is kept in your cache; the kubeconfig names this command, by which kubectl fetches the next one.",
        epilog="examples:\n  bulkhead login red\n  bulkhead login red --device\n  kubectl bulkhead login red\n"
        "without any right on the host, with the file that the tenant's admin gave you (bulkhead kubeconfig red --oidc):\n"
        "  bulkhead login -f red.yaml\n"
        "  bulkhead connect red -- kubectl get pods\n"
        "or without a file:\n  bulkhead login red --server https://red.k8s.example.org --server-ca red.crt "
        "\\\n      --issuer-url https://login.example.org --client-id bulkhead-red\n",
        usage="%(prog)s [options] (TENANT | -f FILE)",
        formatter_class=RAW,
    )
    login.add_argument("tenant", metavar="TENANT", nargs="?", help="the tenant")
    login.add_argument("-f", "--file", metavar="FILE", help="the file that the tenant's admin gave you")
    login.add_argument("--issuer", metavar="NAME", help="which of its identity providers (default: the first)")
    login.add_argument("--certificate", action="store_true", help="as who you are on the host, although it has a provider")
    _add_issuer(login)
    login.add_argument("--server", metavar="URL", help="the tenant's API, for who may not read the Tenant")
    login.add_argument("--server-ca", metavar="FILE", help="what that is verified with")
    login.add_argument("--tls-server-name", metavar="NAME", help="what it is asked for, where its address says another name")
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


def add_ssh(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`ssh TENANT [-- COMMAND…]`."""
    parser = commands.add_parser(
        "ssh",
        parents=[shared],
        usage="%(prog)s [options] TENANT [--user NAME] [-- COMMAND ...]",
        help="a login node of a tenant's Slurm by ssh, as who you are in the tenant",
        description="Open a login node of a tenant's Slurm by your system's ssh. A key is drawn here, and the tenant signs a\n"
        "certificate of a quarter of an hour for it, for the Slurm users that its admin lets you be. Who you are is what\n"
        "`bulkhead login` says; the connection goes through the tenant's API, so nothing has to be exposed.",
        epilog="examples:\n  bulkhead ssh red\n  bulkhead ssh red --user alice -- sbatch train.sh\n"
        "  bulkhead ssh red --print-config >> ~/.ssh/config     then: ssh red.slurm, scp train.sh red.slurm:, rsync …\n",
        formatter_class=RAW,
    )
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument("-u", "--user", metavar="NAME", help="the Slurm user (default: the first that you may be)")
    parser.add_argument("--login", metavar="FILE", help="a kubeconfig of the tenant (default: what `bulkhead login` wrote)")
    parser.add_argument("--issuer", metavar="NAME", help="sign in to this identity provider, where you did not log in yet")
    parser.add_argument("--certificate", action="store_true", help="as who you are on the host, although it has a provider")
    parser.add_argument(
        "--tunnel",
        choices=("auto", "always", "never"),
        default="auto",
        help="reach the tenant's API through the host's: where there is no other way (auto, the default), always or never",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--print-config", action="store_true", help="print a block for ~/.ssh/config, for ssh, scp, rsync")
    what.add_argument("--renew", action="store_true", help="have a certificate that is good, and end; that block calls it")
    what.add_argument("--proxy", action="store_true", help="carry ssh's bytes from stdin to stdout; ssh calls it")
    parser.set_defaults(handler=later("ssh.command", "run"), command=(), scope=())


def add_kubeconfig(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`kubeconfig TENANT`."""
    parser = commands.add_parser(
        "kubeconfig",
        parents=[shared],
        help="print or write a kubeconfig of a tenant, without secrets",
        description="Print a kubeconfig of a tenant, or write it to a file that only you can read. It holds no secret: kubectl "
        "calls this command for a certificate of an hour, with your kubeconfig of the host, and again when that ends.",
        epilog="examples:\n  bulkhead kubeconfig red -o red.yaml\n"
        "  bulkhead kubeconfig red --oidc -o red.yaml     to hand out: bulkhead login -f red.yaml, or kubectl as it is\n",
        formatter_class=RAW,
    )
    parser.add_argument("--static", action="store_true", help="put a certificate of an hour into it, for automation")
    people = parser.add_mutually_exclusive_group()
    people.add_argument(
        "--oidc",
        action="store_true",
        help="for people who sign in at the tenant's identity provider and have no right on the host: hand them this file",
    )
    people.add_argument("--issuer", metavar="NAME", help="the same for this one of several providers")
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to write it; - is stdout, the default")
    parser.set_defaults(handler=later("access", "print_kubeconfig"), certificate=False, scope=())


def add_connect(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`connect TENANT [-- COMMAND…]`."""
    parser = commands.add_parser(
        "connect",
        parents=[shared],
        help="a shell or one command inside a tenant",
        usage="%(prog)s [options] (TENANT | -f FILE) [-- COMMAND ...]",
        description="Run a command, or your shell, with KUBECONFIG pointing at a tenant. The kubeconfig is removed at the end. "
        "Where the tenant's API server is not reached from here, connections go through the host's API (port-forward). "
        "Without any right on the host you sign in at the tenant's identity provider, with the file that its admin gave you "
        "(bulkhead kubeconfig red --oidc), or with what `bulkhead login` kept of it.",
        epilog="examples:\n  bulkhead connect red -- kubectl get pods -A\n  bulkhead connect red\n"
        "without any right on the host:\n  bulkhead connect -f red.yaml -- kubectl get pods\n",
        formatter_class=RAW,
    )
    parser.add_argument(
        "--tunnel",
        choices=("auto", "always", "never"),
        default="auto",
        help="go through the host's API: where there is no other way (auto, the default), always or never",
    )
    parser.add_argument("-f", "--file", metavar="FILE", help="the file that the tenant's admin gave you")
    _add_way(parser)
    parser.add_argument("tenant", metavar="TENANT", nargs="?", help="the tenant")
    command = parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="what to run (default: your shell)"
    )
    command.required = False  # else an error about a missing TENANT would ask for a COMMAND too
    parser.set_defaults(handler=later("access", "connect"))


def add_credential(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`credential certificate`: what kubeconfigs call; not for people, so the list of commands leaves it out."""
    credential = commands.add_parser("credential", description="Print a credential for kubectl (client-go credential plugin).")
    kinds = credential.add_subparsers(metavar="KIND", required=True)
    certificate = kinds.add_parser(
        "certificate", parents=[shared], description="A certificate of an hour for the host's admins."
    )
    certificate.add_argument("tenant", metavar="TENANT", help="the tenant")
    certificate.set_defaults(handler=later("credentials.plugin", "certificate"))

    token = kinds.add_parser("token", parents=[shared], description="An ID token of an identity provider.")
    token.add_argument("tenant", metavar="TENANT", help="the tenant")
    _add_issuer(token)
    token.set_defaults(handler=later("credentials.plugin", "token"))


def _add_issuer(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("identity provider")
    group.add_argument("--issuer-url", metavar="URL", help="its issuer, instead of what the Tenant says")
    group.add_argument("--client-id", metavar="ID", help="the client that signs in there, an audience of the tenant")
    group.add_argument("--discovery-url", metavar="URL", help="its discovery document, where that is not below the issuer")
    authority = group.add_mutually_exclusive_group()
    authority.add_argument("--issuer-ca", metavar="FILE", help="what it is verified with (default: this machine's authorities)")
    authority.add_argument("--issuer-ca-data", metavar="BASE64", help="the same, as it stands in kubeconfigs")
    group.add_argument("--scope", metavar="SCOPE", action="append", default=[], help="ask for this scope too; may be repeated")
    group.add_argument(
        "--redirect-port", metavar="PORT", type=_port, default=0, help="where the browser's answer comes (default: any)"
    )
    _add_way(parser)


def _add_way(parser: argparse.ArgumentParser) -> None:
    """`--browser` and `--device`."""
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--browser", action="store_true", help="sign in with a browser on this machine")
    way.add_argument("--device", action="store_true", help="sign in on another device, by a code that is shown here")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 1024 to 65535")
    return int(text)
