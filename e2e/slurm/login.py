"""How the tests become a user of a Slurm cluster in its login pod, without the command that users have for it. Pure."""

from collections.abc import Sequence

# `kubectl exec` begins as root without a login: go to the user's home and become the user there, with the user's environment.
_BECOME = """user="$1"; shift
cd "$(getent passwd "$user" | cut -d: -f6)" 2>/dev/null || cd /
exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups --reset-env -- bash -lc 'exec "$@"' bash "$@"
"""


def inside(user: str, words: Sequence[str]) -> list[str]:
    """The command line that runs a command in the login pod as a user; no shell splits the words again."""
    return ["sh", "-c", _BECOME, "sh", user, *words]
