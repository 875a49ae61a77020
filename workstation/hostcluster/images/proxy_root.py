"""The content of the proxy's image: HAProxy of Debian's stable suite with its libraries, and no shell, tool or key."""

import re
from pathlib import Path
from typing import Final

from workstation.hostcluster.images.slurm_root import NEVER, DebianTree

PROXY_VERSION: Final = "3.0"

PROXY_TREE: Final = DebianTree(
    name="proxy",
    packages=("base-files", "haproxy"),
    version_of="haproxy",
    version=PROXY_VERSION,
    unneeded=re.compile(
        rf"^({NEVER}|usr/share/|etc/(?!ssl|ld\.so)|usr/bin/|usr/sbin/(?!haproxy$)|usr/lib/(init|lsb|os-release|console-setup)"
        r"|usr/libexec/|.*/lib(pam|db-|semanage|sepol|audit|gdbm|nss_(compat|hesiod))[^/]*$)"
    ),
    suite="trixie",
)


def program(tree: Path) -> list[str]:
    """The command that runs HAProxy from its tree, independent of the machine's libraries."""
    loader = next(tree.glob("usr/lib/*/ld-linux-*.so.*"))
    return [str(loader), "--library-path", str(loader.parent), str(tree / "usr/sbin/haproxy")]
