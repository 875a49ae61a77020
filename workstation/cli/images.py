"""`bulkhead images list | build | push`: arguments, printing and exit codes; the work is in `workstation.images`."""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workstation import wholefile
from workstation.cli import homefolder, values
from workstation.cli.arguments import Form, add_output, form_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document, plain, table
from workstation.cli.parsing import RAW, Actions, Parser
from workstation.hostcluster import binaries
from workstation.hostcluster.images.oci import architecture
from workstation.hostcluster.images.python_root import ImageError
from workstation.hostcluster.progress import Reporter
from workstation.images import building, catalogue, credentials, place, valuesfile
from workstation.images.archive import Archive, ArchiveError
from workstation.images.pushing import Push, Pushed
from workstation.images.registry import Registry, RegistryRefusedError
from workstation.images.transport import ProxyError, RegistryError, Transport, TrustError, trust
from workstation.images.uploads import Uploads, alone

_MAX_PASSWORD_CHARACTERS: Final = 16_384
_SHOWN_VALUES: Final = 5
_SECRET: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ListRequest:
    """`images list`."""

    # The folder of the archives.
    folder: Path
    form: Form


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """`images build [IMAGE…]`; no image means all images, and no architecture means this machine's."""

    folder: Path
    images: tuple[str, ...]
    architectures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PushRequest:
    """`images push REGISTRY [IMAGE…]`."""

    build: BuildRequest
    where: place.Place
    # Whether to build missing images first.
    builds: bool
    # None: take it from docker's config.json; the password comes from stdin.
    username: str | None
    auth_file: str | None
    ca_file: Path | None
    values_file: Path
    pull_secrets: tuple[str, ...]
    form: Form


def add_arguments(parser: Parser) -> None:
    """`images list | build | push`."""
    parser.description = "The images of Bulkhead, for clusters that pull from your own registry."
    actions = parser.actions("ACTION")
    listing = actions.add_parser("list", aliases=["ls"], help="list the images", description="List the images.")
    listing.shows("bulkhead images list", "bulkhead images list -o json | jq -r '.[].name'")
    _add_folder(listing)
    add_output(listing)
    listing.does(lambda options: ListRequest(_folder(options), form_of(options)), list_images)
    build = actions.add_parser(
        "build",
        help="build archives of the images, each with an SBOM",
        description="Build the images as OCI archives, each with an SBOM (SPDX). An archive that is up to date is kept.",
    )
    build.shows("bulkhead images build", "bulkhead images build --folder /srv/archives")
    _add_folder(build)
    _add_choice(build)
    build.does(_build_request, build_images)
    _add_push(actions)


def _add_folder(parser: Parser) -> None:
    parser.add_argument(
        "--folder", metavar="DIR", help="folder of the archives and their SBOMs (default ~/.cache/bulkhead/archives)"
    )


def _add_choice(parser: Parser) -> None:
    parser.add_argument(
        "images", metavar="IMAGE", nargs="*", help="names of images, as `images list` shows them (default: all)"
    )
    parser.add_argument(
        "--architecture",
        metavar="ARCH",
        choices=["amd64", "arm64"],
        action="append",
        default=[],
        help="amd64 or arm64; may be repeated (default: this machine's). Programs of the other one are cross-compiled, which "
        "needs a Go toolchain and, for Kubernetes, many minutes",
    )


def _add_push(actions: Actions) -> None:
    push = actions.add_parser(
        "push",
        help="push the images into a registry, and write a values file for the chart",
        description="Push the images into a registry, and write a values file with their digests. Missing archives are built "
        "first. What the registry has is not sent again, and an interrupted push continues where it stopped. "
        "HTTPS_PROXY, HTTP_PROXY and NO_PROXY count, as they do for docker.",
        epilog="examples:\n"
        "  bulkhead images push registry.example.org/bulkhead\n"
        "  bulkhead images push registry.example.org/bulkhead --username ci --password-stdin < password\n"
        "  bulkhead images push 10.0.0.1:5000/bulkhead --ca-file ca.crt --pull-secret registry --values images.yaml\n"
        "  bulkhead images push registry.example.org/bulkhead --architecture amd64 --architecture arm64\n"
        "  helm install bulkhead charts/bulkhead -n bulkhead-system -f images.yaml\n",
        formatter_class=RAW,
    )
    _add_folder(push)
    push.add_argument("registry", metavar="REGISTRY", help="HOST[:PORT][/PATH]; every image becomes a repository below it")
    _add_choice(push)
    push.add_argument(
        "--no-build",
        action="store_true",
        help="push the archives in the folder; build nothing",
    )
    push.add_argument("-u", "--username", metavar="NAME", help="user of the registry (default: from docker's config.json)")
    push.add_argument("--password-stdin", action="store_true", help="read the user's password from stdin")
    push.add_argument("--auth-file", metavar="FILE", help="a config.json with credentials, instead of docker's own")
    push.add_argument("--ca-file", metavar="FILE", help="the CA of the registry's certificate (default: the system's)")
    push.add_argument("--plain-http", action="store_true", help="without TLS: the network can read the password")
    push.add_argument(
        "--values",
        metavar="FILE",
        default="bulkhead-images.yaml",
        help="the values file, for the images alone (default bulkhead-images.yaml)",
    )
    push.add_argument(
        "--pull-secret",
        metavar="NAME",
        type=_secret,
        action="append",
        default=[],
        help="a Secret in the chart's namespace with which clusters pull; is written into the values file; may be repeated",
    )
    add_output(push)
    push.does(_push_request, push_images)


def _secret(text: str) -> str:
    if not _SECRET.fullmatch(text):
        raise values.wrong("the name of a Secret", text)
    return text


def _build_request(options: argparse.Namespace) -> BuildRequest:
    return BuildRequest(_folder(options), tuple(options.images), tuple(options.architecture))


def _push_request(options: argparse.Namespace) -> PushRequest:
    try:
        where = place.parse(options.registry, plain=options.plain_http)
    except place.PlaceError as error:
        raise CliError(str(error), next_step="give HOST[:PORT][/PATH]", code=Exit.USAGE) from error
    if bool(options.username) != options.password_stdin:
        raise CliError("--username and --password-stdin go together", next_step="give both or none", code=Exit.USAGE)
    return PushRequest(
        build=_build_request(options),
        where=where,
        builds=not options.no_build,
        username=options.username,
        auth_file=options.auth_file,
        ca_file=Path(options.ca_file) if options.ca_file else None,
        values_file=Path(options.values),
        pull_secrets=tuple(options.pull_secret),
        form=form_of(options),
    )


def _folder(options: argparse.Namespace) -> Path:
    return homefolder.expanded(options.folder) if options.folder else binaries.cache_dir() / "archives"


def _chosen(images: tuple[str, ...]) -> tuple[catalogue.Image, ...]:
    try:
        return catalogue.chosen(images)
    except catalogue.UnknownImageError as error:
        raise CliError(str(error), next_step="bulkhead images list", code=Exit.USAGE) from error


def _shown(image: catalogue.Image, folder: Path) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": image.name, "tag": image.tag, "description": image.about.description}
    try:
        with Archive(building.archive_path(folder, image)) as archive:
            machines = [manifest.architecture for manifest in archive.manifests()]
            return {**shown, "digest": archive.digest, "architectures": machines, "bytes": archive.size()}
    except FileNotFoundError:
        return shown
    except ArchiveError as error:
        return {**shown, "error": str(error)}


def list_images(request: ListRequest) -> int:
    """Every image, and which archives of it exist."""
    shown = [_shown(image, request.folder) for image in catalogue.published()]
    if request.form != "table":
        document(shown, request.form)
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
    table(("IMAGE", "SIZE", "BUILT FOR", "DIGEST", "DESCRIPTION"), rows)
    return Exit.DONE


def _build(request: BuildRequest, report: Reporter) -> list[Path]:
    images = _chosen(request.images)
    machines = dict.fromkeys(request.architectures or (architecture(),))
    try:
        return building.build(images, request.folder, [building.workshop(machine) for machine in machines], report)
    except (ImageError, RuntimeError) as error:
        raise CliError(str(error)) from error


def build_images(request: BuildRequest) -> int:
    """Build archives and SBOMs, and print their paths."""
    with Reporter() as report:
        made = _build(request, report)
    for path in made:
        print(path)
    return Exit.DONE


def _credentials(request: PushRequest) -> credentials.Credentials | None:
    where = request.where
    if request.username:
        password = sys.stdin.read(_MAX_PASSWORD_CHARACTERS + 1).rstrip("\r\n")
        if not password or len(password) > _MAX_PASSWORD_CHARACTERS:
            raise CliError("the password on stdin is empty or too long", code=Exit.USAGE)
        return credentials.Credentials(request.username, password)
    path = Path(request.auth_file) if request.auth_file else credentials.default_file()
    try:
        found = credentials.from_file(path, where.host)
    except credentials.CredentialsError as error:
        raise CliError(str(error), next_step="give --username and --password-stdin", code=Exit.USAGE) from error
    if request.auth_file and found is None:
        raise CliError(f"{path} has no credentials for {where.host}", code=Exit.USAGE)
    return found


def _archives(request: PushRequest, report: Reporter) -> list[Path]:
    if request.builds:
        return _build(request.build, report)
    folder = request.build.folder
    paths = [building.archive_path(folder, image) for image in _chosen(request.build.images)]
    if missing := [path.name for path in paths if not path.is_file()]:
        raise CliError(
            f"{folder} lacks {', '.join(missing)}", next_step="leave out --no-build, or name the images that are there"
        )
    return paths


def push_images(request: PushRequest) -> int:
    """Push archives, and write the values file."""
    _refuse_other_values(request.values_file)
    credentials = _credentials(request)
    with alone(binaries.cache_dir() / "push.lock", sys.stderr.write):
        _write_values(request, _pushed(request, credentials))
    return Exit.DONE


def _pushed(request: PushRequest, found: credentials.Credentials | None) -> list[Pushed]:
    """Push the archives, which are built first where they are missing."""
    try:
        with Transport(trust(request.ca_file)) as transport, Reporter() as report:
            registry = Registry(request.where, transport, found)
            registry.check()
            return _push(registry, _archives(request, report), report)
    except RegistryRefusedError as error:
        raise CliError(str(error), next_step="give --username and --password-stdin, or --auth-file") from error
    except TrustError as error:
        raise CliError(str(error), next_step="give the CA of the registry's certificate with --ca-file") from error
    except ProxyError as error:
        raise CliError(str(error), next_step="correct it, or name the registry in NO_PROXY", code=Exit.USAGE) from error
    except (RegistryError, ArchiveError) as error:
        raise CliError(str(error), next_step="run the same command again: it continues where it stopped") from error


def _refuse_other_values(path: Path) -> None:
    """A push writes the whole file, so it would lose what an admin has written there."""
    if reason := valuesfile.unwritable(path):
        raise CliError(f"--values {path}: {reason}", next_step="give another file", code=Exit.USAGE)
    try:
        others = valuesfile.others_in(path)
    except OSError as error:
        raise CliError(f"--values {path}: {error.strerror}", code=Exit.USAGE) from error
    if others:
        shown = ", ".join(plain(name, 60) for name in others[:_SHOWN_VALUES]) + (", …" if len(others) > _SHOWN_VALUES else "")
        raise CliError(
            f"--values {path} has more than images ({shown}), and would be overwritten; nothing was pushed",
            next_step="give a file for the images alone, such as --values images.yaml, and both files to helm",
            code=Exit.USAGE,
        )


def _push(registry: Registry, paths: list[Path], report: Reporter) -> list[Pushed]:
    push = Push(registry, Uploads(binaries.cache_dir() / "uploads.json"), report)
    pushed = []
    for path in paths:
        with Archive(path) as archive:
            pushed.append(push.image(archive))
    return pushed


def _write_values(request: PushRequest, pushed: list[Pushed]) -> None:
    path, where = request.values_file, request.where
    digests = valuesfile.digests_in(path, where.text) | {f"{image.name}:{image.tag}": image.digest for image in pushed}
    path.parent.mkdir(parents=True, exist_ok=True)
    with wholefile.replacing(path, mode=0o644) as file:
        file.write(valuesfile.values(where.text, digests, request.pull_secrets).encode())
    if request.form != "table":
        document({"valuesFile": str(path), "images": [_sent(image) for image in pushed]}, request.form)
        return
    rows = [
        (
            f"{push_result.name}:{push_result.tag}",
            push_result.digest,
            push_result.sent,
            push_result.there,
            f"{push_result.bytes_sent / 1e6:.1f} MB",
        )
        for push_result in pushed
    ]
    table(("IMAGE", "DIGEST", "BLOBS SENT", "ALREADY THERE", "SENT"), rows)
    print(f"Give the values file to the chart: helm install … -f {plain(path)}")


def _sent(image: Pushed) -> dict[str, Any]:
    return {
        "name": image.name,
        "tag": image.tag,
        "digest": image.digest,
        "blobsSent": image.sent,
        "blobsThere": image.there,
        "bytesSent": image.bytes_sent,
    }
