"""The table of commands: what each is for in one line, and the file in which its parser stands beside it.

Of these files only the one of the command that is named is imported: `bulkhead --help` and `bulkhead version` load none that
talks to a cluster or draws tables, and kubectl waits for one credential plugin and not for twenty commands.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from workstation.cli.parsing import Actions, Parser

# Options before the command that have a value.
_WITH_VALUE: Final = frozenset({"--kubeconfig", "--context", "--file", "-f", "--tunnel", "--write", "-o", "--output"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One command."""

    name: str
    # Its module below `workstation.cli`, with `add_arguments(parser)`.
    module: str
    # One line for the list of commands; empty for what programs call and people do not.
    summary: str = ""
    # Modules that stand in for it where this word follows the command.
    actions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


TABLE: Final = (
    Entry("host", "host", "start, stop and inspect a cluster on this machine"),
    Entry("preflight", "preflight", "check, before installing, whether this cluster can carry Bulkhead"),
    Entry("tenant", "tenant.actions", "create, list, describe and delete tenants"),
    Entry("login", "login", "log in to a tenant: a kubeconfig without secrets, and a credential that renews itself"),
    Entry("logout", "logout", "forget the credentials of a tenant on this machine"),
    Entry("revoke", "revoke", "end people's certificates of a tenant before their hour is over"),
    Entry("kubeconfig", "kubeconfig", "print or write a kubeconfig of a tenant, without secrets"),
    Entry("connect", "connect", "a shell or one command inside a tenant"),
    Entry(
        "slurm",
        "slurm",
        "a login shell or one command in a tenant's Slurm cluster",
        MappingProxyType({"token": "slurmtoken"}),
    ),
    Entry("ssh", "ssh.command", "a login node of a tenant's Slurm by ssh, as who you are in the tenant"),
    Entry("top", "quotas.top", "who has which GPUs, who borrows, what waits, and a map of the nodes"),
    Entry("why", "quotas.why", "why a tenant's pod waits, or when it is taken back"),
    Entry("cohort", "quotas.cohort", "who lends to whom, by what rules, and the queue"),
    Entry("quota", "quotas.trial", "try a changed quota, without changing it"),
    Entry("usage", "quotas.usage", "for how long tenants held GPUs"),
    Entry("audit", "audit", "who did what in a tenant's plane"),
    Entry("images", "images", "build Bulkhead's images and push them into a registry"),
    Entry("completion", "completion", "print a script with which a shell completes commands, options and tenants"),
    Entry("credential", "credentials.plugin"),
    Entry("version", "version", "print the versions of this command and of the host"),
    Entry("__complete", "complete"),
)


def named(words: Sequence[str]) -> str:
    """The first word that is neither an option nor the value of one; empty where there is none."""
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def add_all(actions: Actions, words: Sequence[str]) -> None:
    """A parser for each command; only the one that `words` name gets its options."""
    chosen = named(words)
    for entry in TABLE:
        # Without `help` the list of commands leaves it out.
        parser = actions.add_parser(entry.name, help=entry.summary) if entry.summary else actions.add_parser(entry.name)
        if entry.name == chosen:
            following = named(words[list(words).index(chosen) + 1 :])
            fill(parser, entry.actions.get(following, entry.module))


def fill(parser: Parser, module: str) -> None:
    """Import a command's file, and let it say what the command takes."""
    importlib.import_module(f"workstation.cli.{module}").add_arguments(parser)
