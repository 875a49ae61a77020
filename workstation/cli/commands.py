"""The table of commands: a one-line summary of each, and the file that contains its parser.

Only the file of the named command is imported. So `bulkhead --help` and `bulkhead version` load nothing that talks to a cluster
or draws tables, and kubectl waits for one credential plugin instead of twenty commands.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from workstation.cli.parsing import Actions, Parser

# Options before the command that take a value.
_WITH_VALUE: Final = frozenset({"--kubeconfig", "--context", "--file", "-f", "--tunnel", "--write", "-o", "--output"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One command."""

    name: str
    # The command's module below `workstation.cli`, with `add_arguments(parser)`.
    module: str
    # The summary in the list of commands; empty for commands that only programs call.
    summary: str = ""
    # Modules that replace it if this word follows the command.
    actions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


TABLE: Final = (
    Entry("host", "host", "start, stop and inspect a cluster on this machine"),
    Entry("preflight", "preflight", "check whether this cluster can run Bulkhead, before you install it"),
    Entry("doctor", "doctor", "check an installation: what is missing, changed by hand, late or about to end"),
    Entry("tenant", "tenant.actions", "create, list, describe and delete tenants"),
    Entry("login", "login", "log in to a tenant: a kubeconfig without secrets, and a credential that renews itself"),
    Entry("logout", "logout", "remove the cached credentials of a tenant from this machine"),
    Entry("revoke", "revoke", "revoke users' certificates for a tenant before their hour is over"),
    Entry("kubeconfig", "kubeconfig", "print or write a kubeconfig of a tenant, without secrets"),
    Entry("connect", "connect", "run a shell or one command with a tenant's kubeconfig"),
    Entry(
        "slurm",
        "slurm",
        "run a login shell or one command in a tenant's Slurm cluster",
        MappingProxyType({"token": "slurmtoken"}),
    ),
    Entry("ssh", "ssh.command", "connect by ssh to a login node of a tenant's Slurm, as your user in the tenant"),
    Entry("top", "top", "show which tenants hold and borrow GPUs, what waits, and a map of the nodes"),
    Entry("console", "console.command", "open a page in the browser: what is wrong, a map of the GPUs, quotas and the queue"),
    Entry("why", "quotas.why", "explain why a tenant's pod waits, or when it will be evicted"),
    Entry("cohort", "quotas.cohort", "show which tenants lend to which, the rules, and the queue"),
    Entry("quota", "quotas.trial", "show your tenant's own quota; try a changed quota without changing it"),
    Entry("usage", "quotas.usage", "show for how long tenants held GPUs"),
    Entry("audit", "audit", "show who did what in a tenant's plane"),
    Entry("debug", "debug", "write an archive about one tenant, to get help"),
    Entry("chaos", "chaos.actions", "break a tenant on purpose, and measure what the others notice"),
    Entry("images", "images", "build Bulkhead's images and push them into a registry"),
    Entry("completion", "completion", "print a script with which a shell completes commands, options and tenants"),
    Entry("credential", "credentials.plugin"),
    Entry("version", "version", "print the versions of this command and of the host"),
    Entry("__complete", "complete"),
)


def named(words: Sequence[str]) -> str:
    """The first word that is neither an option nor an option's value; empty if there is none."""
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def add_all(actions: Actions, words: Sequence[str]) -> None:
    """A parser for each command; only the command that `words` names gets its options."""
    chosen = named(words)
    for entry in TABLE:
        # Without `help` the command is not in the list of commands.
        parser = actions.add_parser(entry.name, help=entry.summary) if entry.summary else actions.add_parser(entry.name)
        if entry.name == chosen:
            following = named(words[list(words).index(chosen) + 1 :])
            fill(parser, entry.actions.get(following, entry.module))


def fill(parser: Parser, module: str) -> None:
    """Import a command's file, which adds the command's options."""
    importlib.import_module(f"workstation.cli.{module}").add_arguments(parser)
