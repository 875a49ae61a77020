"""The home folder, and paths that begin with `~`. There may be none: `env -i`, a container without a passwd entry."""

from pathlib import Path

from workstation.cli.failures import CliError, Exit


def home() -> Path:
    """The home folder. Raises CliError if it is not known."""
    return expanded("~")


def expanded(given: str | Path) -> Path:
    """The path, with a leading `~` or `~user` replaced. Raises CliError if that user has no home folder."""
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise CliError(
            f"{given}: the home folder of that user is not known", next_step="set HOME, or give a whole path", code=Exit.USAGE
        ) from error
