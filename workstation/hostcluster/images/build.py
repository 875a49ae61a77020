"""Builds every image of the embedded host, or finds it in the cache.

The content of each image is here, in one function for each; `oci` writes the bytes, and `layercache` remembers the inputs. It
is called when the host starts and when the code has changed. It imports nothing into containerd.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bulkhead
from workstation.hostcluster import binaries
from workstation.hostcluster.component import Progress
from workstation.hostcluster.images import proxy_root, python_root, slack, slurm_root, startafter
from workstation.hostcluster.images.layercache import cached_layer, drop_older, drop_unused_blobs, file_key, key_of
from workstation.hostcluster.images.oci import Entry, ImageSpec, Layer, architecture, image_key, write_image
from workstation.hostcluster.images.pause import pause_entries
from workstation.hostcluster.images.python_root import ImageError

BULKHEAD = f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}"
KUBERNETES = "docker.io/bulkhead/kubernetes:v1.36.3"
ETCD = "docker.io/bulkhead/etcd:v3.6.16"
COREDNS = "docker.io/bulkhead/coredns:v1.15.0"
PAUSE = "registry.k8s.io/pause:3.10"
BUSYBOX = "docker.io/library/busybox:1.36"
SLURM = f"docker.io/bulkhead/slurm:{slurm_root.SLURM_VERSION}"
PROXY = f"docker.io/bulkhead/proxy:{proxy_root.PROXY_VERSION}"
MARIADB = f"docker.io/bulkhead/mariadb:{slurm_root.MARIADB_VERSION}"

PROJECT = Path(bulkhead.__file__).resolve().parent.parent

FindBinaries = Callable[[str], Mapping[str, Path]]


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where images are built, and where their parts come from."""

    cache: Path
    binaries: FindBinaries
    project: Path
    architecture: str = field(default_factory=architecture)

    def layer(self, name: str) -> str:
        """The name of a layer; architectures other than the machine's have names of their own."""
        return name if self.architecture == architecture() else f"{name}.{self.architecture}"


def _skeleton() -> list[Entry]:
    """What programs expect of any file system: users, and a folder for temporary files."""
    passwd = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\nbulkhead:x:65532:65532::/:/bin/false\n"
    group = b"root:x:0:\nnogroup:x:65534:\nbulkhead:x:65532:\n"
    return [
        Entry("etc/passwd", "file", passwd),
        Entry("etc/group", "file", group),
        Entry("etc/nsswitch.conf", "file", b"hosts: files dns\n"),
        Entry("tmp", "dir", mode=0o1777),
        Entry("run", "dir", mode=0o755),
        Entry("var/run", "link", "/run"),
        Entry("proc", "dir", mode=0o755),
        Entry("sys", "dir", mode=0o755),
        Entry("dev", "dir", mode=0o755),
    ]


def _program_layer(shop: Workshop, component: str, names: Iterable[str]) -> Layer:
    files = shop.binaries(component)
    return _layer_of(
        shop, component, [entry for name in names for entry in slack.entries(name, files[name], shop.architecture)]
    )


def _layer_of(shop: Workshop, component: str, programs: Sequence[Entry]) -> Layer:
    contents = (entry.content for entry in programs)
    key = key_of([file_key(part) if isinstance(part, Path) else part for part in contents])
    return cached_layer(shop.cache, shop.layer(component), key, lambda: [*_skeleton(), *programs])


def _program(shop: Workshop, name: str) -> Layer:
    """One program at its usual place, in a layer of its own."""
    file = shop.binaries(name)[name]
    entries = [Entry(f"usr/local/bin/{name}", "file", file, 0o755)]
    return cached_layer(shop.cache, shop.layer(name), key_of([file_key(file)]), lambda: entries)


def _busybox() -> Path:
    found = shutil.which("busybox")
    if found is None:
        raise ImageError("busybox image: busybox is not installed (apt-get install busybox-static)")
    path = Path(found).resolve()
    with path.open("rb") as stream:
        if b"/ld-" in stream.read(4096):
            raise ImageError(f"busybox image: {path} is not linked statically (apt-get install busybox-static)")
    return path


def busybox(shop: Workshop) -> ImageSpec:
    """A shell and its applets, for demos and tests."""
    program = _busybox()

    def entries() -> Iterator[Entry]:
        yield from _skeleton()
        yield Entry("bin/busybox", "file", program, 0o755)
        yield Entry("usr/bin", "link", "../bin")
        yield Entry("root", "dir", mode=0o700)
        for applet in python_root.run("busybox image", [str(program), "--list"]).split():
            if applet != "busybox":
                yield Entry(f"bin/{applet}", "link", "busybox")

    layer = cached_layer(shop.cache, "busybox", key_of([file_key(program)]), entries)
    return ImageSpec(BUSYBOX, (layer,), command=("sh",), user="", environment={"PATH": "/bin:/usr/bin"})


def pause(shop: Workshop) -> ImageSpec:
    """The process that holds a pod's namespaces."""
    program = _busybox()
    entries = pause_entries(Entry("bin/busybox", "file", program, 0o755))
    contents = [entry.content for entry in entries if isinstance(entry.content, bytes)]
    layer = cached_layer(shop.cache, "pause", key_of(contents), lambda: entries)
    return ImageSpec(PAUSE, (layer,), entrypoint=("/pause",), user="65535:65535")


def etcd(shop: Workshop) -> ImageSpec:
    """The store of a tenant's plane."""
    return ImageSpec(ETCD, (_program_layer(shop, "etcd", ["etcd"]),), command=("etcd",), environment=_PATH)


def kubernetes(shop: Workshop) -> ImageSpec:
    """API server and controller manager of a tenant's plane; the second one starts once the first is healthy."""
    server, manager = "kube-apiserver", "kube-controller-manager"
    files, waits = shop.binaries("kubernetes"), shop.binaries(startafter.COMPONENT)[startafter.COMPONENT]
    programs = [
        *slack.entries(server, files[server], shop.architecture),
        *startafter.entries(manager, files[manager], waits),
    ]
    return ImageSpec(KUBERNETES, (_layer_of(shop, "kubernetes", programs),), command=(server,), environment=_PATH)


def coredns(shop: Workshop) -> ImageSpec:
    """Name service of the host and of each tenant."""
    return ImageSpec(COREDNS, (_program_layer(shop, "coredns", ["coredns"]),), entrypoint=("coredns",), environment=_PATH)


def one_program(shop: Workshop, name: str, program: Path, at: str) -> ImageSpec:
    """A statically linked program at a path below the root, and nothing else; for pods of tests."""
    entries = [*_skeleton(), Entry(at, "file", program, 0o755)]
    layer = cached_layer(shop.cache, f"program-{program.name}", key_of([file_key(program), at]), lambda: entries)
    return ImageSpec(name, (layer,), entrypoint=(f"/{at}",))


_PATH = {"PATH": "/usr/local/bin"}


def bulkhead_image(shop: Workshop) -> ImageSpec:
    """Controller, syncer and what fills the volumes of restored planes; the pod's command decides which one runs."""
    compiler = python_root.debian_root(shop.cache)
    root = python_root.debian_root(shop.cache, shop.architecture)
    site = python_root.site_packages(shop.cache, shop.project / "requirements.lock", compiler, shop.architecture)
    own = python_root.own_tree(shop.cache, shop.project, compiler)
    layers = (
        cached_layer(shop.cache, shop.layer("debian"), root.name, lambda: [*_skeleton(), *python_root.root_entries(root)]),
        cached_layer(shop.cache, shop.layer("site"), site.name, lambda: python_root.site_entries(site)),
        _program(shop, "etcdutl"),
        # On it the data of a clone is made the clone's own (controller/restores/owning.py).
        _program_layer(shop, "etcd", ["etcd"]),
        cached_layer(shop.cache, "own", own.name, lambda: python_root.tree_entries(own, f"{python_root.APP}/")),
    )
    environment = {
        "PATH": "/usr/bin",
        "PYTHONPATH": f"/{python_root.APP}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",
    }
    return ImageSpec(BULKHEAD, layers, command=("python3",), environment=environment, working_dir=f"/{python_root.APP}")


def proxy(shop: Workshop) -> ImageSpec:
    """HAProxy in front of tenants' planes. SIGUSR1 ends it gracefully: it accepts no new connections, and keeps the others."""
    tree = slurm_root.debian_tree(shop.cache, proxy_root.PROXY_TREE, shop.architecture)
    layer = cached_layer(
        shop.cache, shop.layer("proxy-debian"), key_of((tree.name, proxy_root.PROXY_TREE.unneeded.pattern)),
        lambda: [*_skeleton(), *slurm_root.tree_layer(tree, proxy_root.PROXY_TREE)],
    )  # fmt: skip
    command = ("haproxy", "-db", "-f", "/run/proxy/haproxy.cfg")
    return ImageSpec(PROXY, (layer,), command=command, environment={"PATH": "/usr/sbin"}, stop_signal="SIGUSR1")


def _debian_image(shop: Workshop, name: str, wanted: slurm_root.DebianTree, *, entrypoint: str) -> ImageSpec:
    """Debian's packages in one layer, our own files in another; containers start as root and drop privileges themselves."""
    tree = slurm_root.debian_tree(shop.cache, wanted, shop.architecture)
    own = slurm_root.own_files(shop.project, wanted.name)
    layers = (
        cached_layer(
            shop.cache, shop.layer(f"{wanted.name}-debian"), key_of((tree.name, wanted.unneeded.pattern)),
            lambda: [*_skeleton(), *slurm_root.tree_layer(tree, wanted)],
        ),
        cached_layer(
            shop.cache, f"{wanted.name}-own", slurm_root.own_key(shop.project, wanted.name),
            lambda: python_root.tree_entries(own),
        ),
    )  # fmt: skip
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "C.UTF-8"}
    return ImageSpec(name, layers, entrypoint=(entrypoint,), user="0:0", environment=environment)


def slurm(shop: Workshop) -> ImageSpec:
    """Every daemon of a tenant's Slurm, and the tools of its users on login nodes and workers."""
    return _debian_image(shop, SLURM, slurm_root.SLURM_TREE, entrypoint="/usr/local/sbin/slurm-entrypoint")


def mariadb(shop: Workshop) -> ImageSpec:
    """The database behind Slurm's accounting."""
    return _debian_image(shop, MARIADB, slurm_root.MARIADB_TREE, entrypoint="/usr/local/sbin/mariadb-entrypoint")


Recipe = Callable[[Workshop], ImageSpec]

RECIPES: Mapping[str, Recipe] = {
    PAUSE: pause,
    BUSYBOX: busybox,
    ETCD: etcd,
    KUBERNETES: kubernetes,
    COREDNS: coredns,
    BULKHEAD: bulkhead_image,
    PROXY: proxy,
}

# Built only on request (`--slurm`): they are large, and their packages are downloaded from Debian.
SLURM_RECIPES: Mapping[str, Recipe] = {SLURM: slurm, MARIADB: mariadb}

# The images that the host's own pods run.
HOST_RECIPES: Mapping[str, Recipe] = {PAUSE: pause, COREDNS: coredns}


def chosen(*, slurm: bool) -> Mapping[str, Recipe]:
    """The recipes of a host that imports images."""
    return {**RECIPES, **SLURM_RECIPES} if slurm else RECIPES


def image_file(shop: Workshop, spec: ImageSpec) -> Path:
    """The image's tar file, written if the cache has none."""
    name = spec.name.replace("/", "_").replace(":", "_")
    path = shop.cache / "tars" / f"{name}-{image_key(spec)}.tar"
    if path.is_file():
        path.touch()
        return path
    write_image(shop.cache, spec, path)
    drop_older(path.parent, f"{name}-{'?' * 16}.tar")
    return path


def ensure_images(
    cache_dir: Path,
    report: Progress,
    *,
    find_binaries: FindBinaries = binaries.ensure,
    project: Path = PROJECT,
    recipes: Mapping[str, Recipe] = RECIPES,
) -> list[Path]:
    """Every image as a tar that `ctr images import` reads; builds only what changed."""
    shop = Workshop(cache_dir / "images", find_binaries, project)
    made = []
    for name, recipe in recipes.items():
        report.detail(f"image {name}")
        started = time.monotonic()
        made.append(image_file(shop, recipe(shop)))
        took = time.monotonic() - started
        report.detail(f"image {name} {f'built in {took:.1f} s' if took > 0.5 else 'ready'}")
    drop_unused_blobs(shop.cache)
    return made
