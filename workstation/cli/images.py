"""`bulkhead images list | build | push`: arguments, printing and exit codes; the work is in `workstation.images`."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Final

from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, plain, table
from workstation.hostcluster import binaries
from workstation.hostcluster.files import write_file
from workstation.hostcluster.images.oci import architecture
from workstation.hostcluster.images.python_root import ImageError
from workstation.hostcluster.progress import Reporter
from workstation.images import building, catalogue, credentials, place, valuesfile
from workstation.images.archive import Archive, ArchiveError
from workstation.images.pushing import Push, Pushed
from workstation.images.registry import Registry, RegistryRefusedError
from workstation.images.transport import RegistryError, Transport, TrustError, trust
from workstation.images.uploads import Uploads

_MOST_PASSWORD: Final = 16_384
_SECRET: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def _folder(options: argparse.Namespace) -> Path:
    return Path(options.folder).expanduser() if options.folder else binaries.cache_dir() / "archives"


def _chosen(options: argparse.Namespace) -> tuple[catalogue.Image, ...]:
    try:
        return catalogue.chosen(options.images)
    except catalogue.UnknownImageError as error:
        raise CliError(str(error), next_step="bulkhead images list", code=Exit.USAGE) from error


def _shown(image: catalogue.Image, folder: Path) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": image.name, "tag": image.tag, "description": image.about.description}
    try:
        with Archive(building.archive_path(folder, image)) as archive:
            machines = [each.architecture for each in archive.manifests()]
            return {**shown, "digest": archive.digest, "architectures": machines, "bytes": archive.size()}
    except FileNotFoundError:
        return shown
    except ArchiveError as error:
        return {**shown, "error": str(error)}


def list_images(options: argparse.Namespace) -> int:
    """Every image, and what of it is built."""
    shown = [_shown(image, _folder(options)) for image in catalogue.published()]
    if options.output == "json":
        document(shown, "json")
        return Exit.DONE
    rows = [
        (
            f"{each['name']}:{each['tag']}",
            f"{each['bytes'] / 1e6:.0f} MB" if "bytes" in each else "",
            ",".join(each.get("architectures", ())),
            each.get("digest", each.get("error", "not built"))[: 19 if "digest" in each else None],
            each["description"],
        )
        for each in shown
    ]
    table(("IMAGE", "SIZE", "BUILT FOR", "DIGEST", "WHAT IT IS"), rows)
    return Exit.DONE


def _build(options: argparse.Namespace, report: Reporter) -> list[Path]:
    images = _chosen(options)
    machines = dict.fromkeys((*([] if options.architecture else [architecture()]), *options.architecture))
    try:
        return building.build(images, _folder(options), [building.workshop(machine) for machine in machines], report)
    except (ImageError, RuntimeError) as error:
        raise CliError(str(error)) from error


def build_images(options: argparse.Namespace) -> int:
    """Build archives and SBOMs, and print where they lie."""
    with Reporter() as report:
        made = _build(options, report)
    for path in made:
        print(path)
    return Exit.DONE


def _credentials(options: argparse.Namespace, where: place.Place) -> credentials.Credentials | None:
    if bool(options.username) != options.password_stdin:
        raise CliError("--username and --password-stdin go together", code=Exit.USAGE)
    if options.username:
        password = sys.stdin.read(_MOST_PASSWORD + 1).rstrip("\r\n")
        if not password or len(password) > _MOST_PASSWORD:
            raise CliError("no password came from stdin, or a very long one", code=Exit.USAGE)
        return credentials.Credentials(options.username, password)
    path = Path(options.auth_file) if options.auth_file else credentials.default_file()
    try:
        found = credentials.from_file(path, where.host)
    except credentials.CredentialsError as error:
        raise CliError(str(error), next_step="give --username and --password-stdin", code=Exit.USAGE) from error
    if options.auth_file and found is None:
        raise CliError(f"{path} has no credentials for {where.host}", code=Exit.USAGE)
    return found


def _archives(options: argparse.Namespace, report: Reporter) -> list[Path]:
    if not options.no_build:
        return _build(options, report)
    folder = _folder(options)
    paths = [building.archive_path(folder, image) for image in _chosen(options)]
    if missing := [path.name for path in paths if not path.is_file()]:
        raise CliError(
            f"{folder} lacks {', '.join(missing)}", next_step="leave out --no-build, or name the images that are there"
        )
    return paths


def push_images(options: argparse.Namespace) -> int:
    """Push archives, and write the values file."""
    try:
        where = place.parse(options.registry, plain=options.plain_http)
    except place.PlaceError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    if wrong := [name for name in options.pull_secret if not _SECRET.fullmatch(name)]:
        raise CliError(f"{wrong[0]!r} is no name of a Secret", code=Exit.USAGE)
    who = _credentials(options, where)
    try:
        with Transport(trust(Path(options.ca_file) if options.ca_file else None)) as transport, Reporter() as report:
            registry = Registry(where, transport, who)
            registry.check()
            pushed = _push(registry, _archives(options, report), report)
    except RegistryRefusedError as error:
        raise CliError(str(error), next_step="give --username and --password-stdin, or --auth-file") from error
    except TrustError as error:
        raise CliError(str(error), next_step="name the registry's authority with --ca-file") from error
    except (RegistryError, ArchiveError) as error:
        raise CliError(str(error), next_step="run the same command again: it goes on where it was") from error
    _write_values(options, where, pushed)
    return Exit.DONE


def _push(registry: Registry, paths: list[Path], report: Reporter) -> list[Pushed]:
    push = Push(registry, Uploads(binaries.cache_dir() / "uploads.json"), report)
    pushed = []
    for path in paths:
        with Archive(path) as archive:
            pushed.append(push.image(archive))
    return pushed


def _write_values(options: argparse.Namespace, where: place.Place, pushed: list[Pushed]) -> None:
    rows = [
        (f"{each.name}:{each.tag}", each.digest, each.sent, each.there, f"{each.bytes_sent / 1e6:.1f} MB") for each in pushed
    ]
    table(("IMAGE", "DIGEST", "BLOBS SENT", "THERE ALREADY", "SENT"), rows)
    path = Path(options.values)
    digests = valuesfile.digests_in(path, where.text) | {f"{each.name}:{each.tag}": each.digest for each in pushed}
    write_file(path, valuesfile.values(where.text, digests, options.pull_secret).encode())
    print(f"The chart takes them so: helm install … -f {plain(path)}")
