"""The images that the upstream suite needs, built here under the names that the suite uses, without any registry.

They contain the suite's own Go programs, Debian's busybox, and Debian's builds of nginx, dig, curl and netcat instead of
upstream's other builds of the same programs (`REPLACED` lists them). Images of specs outside conformance (NFS, iSCSI, CSI, GCE)
are not built. This module starts nothing, and only `import_all` imports anything.

    e2e.test --list-images ──> recipe by the last part of the name ──> layers (cached) ──> image tar ──> containerd
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e import machine
from e2e.conformance.suite import SuiteError, source
from workstation.hostcluster import binaries
from workstation.hostcluster.component import RUN_DIR
from workstation.hostcluster.images import build, python_root
from workstation.hostcluster.images.layercache import cached_layer, file_key, key_of
from workstation.hostcluster.images.oci import Entry, ImageSpec, Layer

TOOLS = ("bash", "bind9-dnsutils", "curl", "iproute2", "iperf", "libc-bin", "netcat-openbsd", "util-linux")
WEB = ("nginx-light",)
SHELL = ("bash-static",)
IMPORTED = machine.DATA / "containerd" / "imported-suite.json"  # goes with the host's images; a tar's name shows its content
REPLACED: Mapping[str, str] = {
    "agnhost": "upstream's program; shell (bash) and tools from Debian instead of Alpine",
    "busybox": "Debian's static busybox, with bash as its shell",
    "nginx": "Debian's nginx",
    "nonroot": "Debian's static busybox as user 1234",
    "glibc-dns-testing": "Debian's dig, as upstream, in the same root as agnhost",
    "pause": "the embedded host's own pause",
    "etcd": "the embedded host's etcd",
}
_UNNEEDED = re.compile(
    r"^(usr/share/|var/|dev/|proc/|sys/|run/|boot/|tmp/|usr/include/|etc/(apt|dpkg|cron|systemd|init)|usr/lib/(locale|systemd|apt|dpkg)/"
    r"|usr/lib/[^/]+/(gconv|perl)/|usr/lib/python|usr/bin/(python|perl|apt|dpkg)|.*/libLLVM)"
)
_PASSWD = (
    b"root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n"
    b"nobody:x:65534:65534::/:/bin/false\n"
)
_GROUP = (
    b"root:x:0:\nwww-data:x:33:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
    b"nogroup:x:65534:\n"
)
_NGINX = b"""user root;
error_log /dev/stderr;
pid /run/nginx.pid;
events {}
http {
  types { text/html html; }
  access_log /dev/stdout;
  server { listen 80; root /usr/share/nginx/html; index index.html; }
}
"""
_PAGE = b"<!DOCTYPE html>\n<html><head><title>Welcome to nginx!</title></head><body><h1>Welcome to nginx!</h1></body></html>\n"
_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


@dataclass(frozen=True, slots=True)
class Kitchen:
    """Where layers are kept, and the suite's programs."""

    shop: build.Workshop
    programs: Mapping[str, Path]

    def layer(self, name: str, entries: list[Entry]) -> Layer:
        """One layer of a few entries; its cache key covers all that goes into it."""
        parts: list[str | bytes] = []
        for entry in entries:
            content = entry.content
            parts += [entry.path, entry.kind, str(entry.mode), file_key(content) if isinstance(content, Path) else content]
        return cached_layer(self.shop.cache, name, key_of(parts), lambda: entries)

    def debian(self, name: str, packages: tuple[str, ...]) -> Layer:
        """Debian's packages, extracted but not configured, on busybox's file system, in which /usr/bin is /bin."""
        key = key_of((python_root.SUITE, *packages, _UNNEEDED.pattern))

        def fill(tree: Path) -> None:
            command = ["mmdebstrap", "--variant=extract", "--mode=root", f"--include={','.join(packages)}"]
            python_root.run(f"Debian packages of the suite's {name}", [*command, python_root.SUITE, str(tree)])

        tree = python_root.make_tree(self.shop.cache / "trees" / f"suite-{name}-{key}", fill)
        return cached_layer(self.shop.cache, f"suite-{name}", key, lambda: _merged(tree))


def _merged(tree: Path) -> Iterator[Entry]:
    seen = set()
    for entry in python_root.tree_entries(tree, drop=_UNNEEDED):
        path = re.sub(r"^usr/bin/", "bin/", entry.path)
        if path in {"bin", "usr/bin", "sbin", "lib", "lib64"} or path in seen:
            continue
        seen.add(path)
        yield Entry(path, entry.kind, entry.content, entry.mode)


def _shell(kitchen: Kitchen) -> tuple[Layer, ...]:
    return build.busybox(kitchen.shop).layers


def _rooted(kitchen: Kitchen) -> tuple[Layer, ...]:
    """Shell, tools, and the users that the suite expects."""
    users = [Entry("etc/passwd", "file", _PASSWD), Entry("etc/group", "file", _GROUP), Entry("uploads", "dir", mode=0o777)]
    # Debian chooses one of several netcats when it configures the package, which does not happen here. Busybox's shell would
    # run its own netcat whatever the path is.
    users += [Entry("bin/nc", "link", "nc.openbsd"), Entry("bin/sh", "link", "bash")]
    return (*_shell(kitchen), kitchen.debian("tools", TOOLS), kitchen.layer("suite-users", users))


def _agnhost_layers(kitchen: Kitchen) -> tuple[Layer, ...]:
    porter = source("test/images/agnhost/porter")
    program = [
        Entry("agnhost", "file", kitchen.programs["agnhost"], 0o755),
        Entry("agnhost-2", "link", "agnhost"),
        Entry("coredns", "file", kitchen.shop.binaries("coredns")["coredns"], 0o755),
        *(Entry(name, "file", porter / name) for name in ("localhost.crt", "localhost.key")),
    ]
    return (*_rooted(kitchen), kitchen.layer("suite-agnhost", program))


def _agnhost(kitchen: Kitchen, name: str) -> ImageSpec:
    return ImageSpec(name, _agnhost_layers(kitchen), ("pause",), ("/agnhost",), "", _PATH)


def _picture(folder: str) -> Callable[[Kitchen, str], ImageSpec]:
    def make(kitchen: Kitchen, name: str) -> ImageSpec:
        files = sorted(source(f"test/images/{folder}/html").iterdir())
        layer = kitchen.layer(f"suite-{folder}", [Entry(path.name, "file", path) for path in files])
        return ImageSpec(name, (*_agnhost_layers(kitchen), layer), ("test-webserver",), ("/agnhost",), "", _PATH)

    return make


def _busybox(kitchen: Kitchen, name: str) -> ImageSpec:
    # Busybox's own shell does not pass on variables with names that a shell cannot assign, such as `data-1`.
    shell = (kitchen.debian("shell", SHELL), kitchen.layer("suite-sh", [Entry("bin/sh", "link", "bash-static")]))
    return ImageSpec(name, (*_shell(kitchen), *shell), ("sh",), (), "", _PATH)


def _nonroot(kitchen: Kitchen, name: str) -> ImageSpec:
    return ImageSpec(name, _shell(kitchen), ("sh",), (), "1234", _PATH)


def _dig(kitchen: Kitchen, name: str) -> ImageSpec:
    return ImageSpec(name, _agnhost_layers(kitchen), ("bash",), (), "", _PATH)


def _nginx(kitchen: Kitchen, name: str) -> ImageSpec:
    files = [
        Entry("etc/nginx/nginx.conf", "file", _NGINX),
        Entry("usr/share/nginx/html/index.html", "file", _PAGE),
        Entry("var/log/nginx", "dir", mode=0o777),
        Entry("var/lib/nginx", "dir", mode=0o777),
        Entry("etc/passwd", "file", _PASSWD),
        Entry("etc/group", "file", _GROUP),
    ]
    layers = (*_shell(kitchen), kitchen.debian("web", WEB), kitchen.layer("suite-nginx", files))
    return ImageSpec(name, layers, ("nginx", "-g", "daemon off;"), (), "", _PATH)


def _program(program: str, path: str, *, mode: int = 0o755) -> Callable[[Kitchen, str], ImageSpec]:
    def make(kitchen: Kitchen, name: str) -> ImageSpec:
        layer = kitchen.layer(f"suite-{program}", [Entry(path, "file", kitchen.programs[program], mode)])
        return ImageSpec(name, (*_shell(kitchen), layer), (), (f"/{path}",), "", _PATH)

    return make


def _pause(kitchen: Kitchen, name: str) -> ImageSpec:
    spec = build.pause(kitchen.shop)
    return ImageSpec(name, spec.layers, spec.command, spec.entrypoint, spec.user)


def _etcd(kitchen: Kitchen, name: str) -> ImageSpec:
    spec = build.etcd(kitchen.shop)
    return ImageSpec(name, spec.layers, spec.command, spec.entrypoint, "", spec.environment)


RECIPES: Mapping[str, Callable[[Kitchen, str], ImageSpec]] = {
    "agnhost": _agnhost,
    "busybox": _busybox,
    "nginx": _nginx,
    "nonroot": _nonroot,
    "nautilus": _picture("nautilus"),
    "kitten": _picture("kitten"),
    "glibc-dns-testing": _dig,
    "nonewprivs": _program("nonewprivs", "usr/local/bin/nnp", mode=0o4755),
    "regression-issue-74839": _program("regression-issue-74839", "regression-issue-74839"),
    "sample-apiserver": _program("sample-apiserver", "sample-apiserver"),
    "pause": _pause,
    "etcd": _etcd,
}


def recipe_of(image: str) -> Callable[[Kitchen, str], ImageSpec] | None:
    """How an image is built. None for images that no conformance spec runs, and for registries that must not answer."""
    if image.startswith(("invalid.", "gcr.io/")):
        return None
    return RECIPES.get(image.rpartition("/")[2].partition(":")[0])


def import_all(cache: Path, programs: Mapping[str, Path], listed: list[str], note: Callable[[str], None]) -> dict[str, str]:
    """Build and import every image that has a recipe. Returns what replaces upstream's build, by image name."""
    imported = json.loads(IMPORTED.read_text()) if IMPORTED.exists() else {}
    kitchen = Kitchen(build.Workshop(cache / "images", binaries.ensure, build.PROJECT), programs)
    ctr, socket = str(binaries.ensure("containerd")["ctr"]), str(RUN_DIR / "containerd" / "containerd.sock")
    stood_in = {}
    for name in sorted(set(listed)):
        recipe = recipe_of(name)
        if recipe is None:
            continue
        stood_in[name] = REPLACED.get(name.rpartition("/")[2].partition(":")[0], "built from upstream's source")
        path = build.image_file(kitchen.shop, recipe(kitchen, name))
        if imported.get(name) == path.name:
            continue
        command = [ctr, "-a", socket, "-n", "k8s.io", "images", "import", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise SuiteError(f"import of {name}: {done.stderr.strip()[-800:]}; is the embedded host up?")
        note(f"image {name}")
        imported[name] = path.name
        IMPORTED.write_text(json.dumps(imported))
    return stood_in
