"""Every binary of the embedded host: its version, its official release file, and how it is built from its Go module.

The versions here and in each `go.mod` must be the same; a test compares them. One program has its source here.
"""

import hashlib
import platform
from dataclasses import dataclass, replace
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """The architecture of this machine, by Go's name."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise RuntimeError(f"unsupported machine: {machine}; the embedded host runs on x86_64 and aarch64")
    return _ARCHITECTURES[machine]


@dataclass(frozen=True, slots=True)
class Download:
    """One file of an official release. `members` maps paths in the archive to binaries; empty if the file is the binary.

    `checksums` is the release's own list of SHA-256 sums: either one bare digest or lines of `digest  file`.
    """

    url: str
    checksums: str
    members: tuple[tuple[str, str], ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to get a component."""

    component: str
    version: str
    files: tuple[str, ...]
    downloads: tuple[Download, ...]  # empty: its releases contain no binaries, so it is always built
    package: str = "tool"  # what `go build` builds: the module's `tool` lines, or one package
    ldflags: str = ""
    tags: str = ""
    cgo: bool = False
    needs: tuple[str, ...] = ()  # Debian packages that the build needs
    foreign: str = ""  # the architecture, if it is not this machine's


def _kubernetes(arch: str) -> Recipe:
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
    return _kubernetes_of("kubernetes", "v1.36.3", names, arch)


def _oldest_kubernetes(arch: str) -> Recipe:
    return _kubernetes_of("kubernetes-1.34", "v1.34.4", ("kube-apiserver",), arch)


def _kubernetes_of(component: str, version: str, names: tuple[str, ...], arch: str) -> Recipe:
    at = f"https://dl.k8s.io/release/{version}/bin/linux/{arch}"
    stamp = "k8s.io/component-base/version"
    _, minor, _ = version.removeprefix("v").split(".")
    ldflags = f"-X {stamp}.gitVersion={version} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={minor} -X {stamp}.gitTreeState=clean"
    downloads = tuple(Download(f"{at}/{name}", f"{at}/{name}.sha256", name=name) for name in names)
    return Recipe(component, version, names, downloads, ldflags=ldflags)


def _etcd(arch: str) -> Recipe:
    version = "v3.6.16"
    at = f"https://github.com/etcd-io/etcd/releases/download/{version}"
    folder = f"etcd-{version}-linux-{arch}"
    download = Download(f"{at}/{folder}.tar.gz", f"{at}/SHA256SUMS", ((f"{folder}/etcd", "etcd"),))
    return Recipe("etcd", version, ("etcd",), (download,), package="go.etcd.io/etcd/server/v3")


def _etcdutl(arch: str) -> Recipe:
    server = _etcd(arch)
    (file,) = server.downloads
    folder = f"etcd-{server.version}-linux-{arch}"
    return Recipe("etcdutl", server.version, ("etcdutl",), (replace(file, members=((f"{folder}/etcdutl", "etcdutl"),)),))


def _containerd(arch: str) -> Recipe:
    version = "v2.4.2"
    names = ("containerd", "containerd-shim-runc-v2", "ctr")
    file = f"https://github.com/containerd/containerd/releases/download/{version}/containerd-{version[1:]}-linux-{arch}.tar.gz"
    download = Download(file, f"{file}.sha256sum", tuple((f"bin/{name}", name) for name in names))
    ldflags = f"-X github.com/containerd/containerd/v2/version.Version={version}"
    return Recipe("containerd", version, names, (download,), ldflags=ldflags, tags="no_btrfs,no_devmapper,no_zfs")


def _runc(arch: str) -> Recipe:
    version = "v1.5.2"
    at = f"https://github.com/opencontainers/runc/releases/download/{version}"
    download = Download(f"{at}/runc.{arch}", f"{at}/runc.sha256sum", name="runc")
    needs = ("gcc", "libc6-dev", "libseccomp-dev", "pkg-config")
    return Recipe(
        "runc", version, ("runc",), (download,), ldflags=f"-X main.version={version[1:]}", tags="seccomp", cgo=True, needs=needs
    )


def _coredns(arch: str) -> Recipe:
    version = "v1.15.0"
    file = f"https://github.com/coredns/coredns/releases/download/{version}/coredns_{version[1:]}_linux_{arch}.tgz"
    return Recipe("coredns", version, ("coredns",), (Download(file, f"{file}.sha256", (("coredns", "coredns"),)),))


def _kwok(arch: str) -> Recipe:
    version = "v0.8.0"
    at = f"https://github.com/kubernetes-sigs/kwok/releases/download/{version}/kwok-linux-{arch}"
    ldflags = f"-X sigs.k8s.io/kwok/pkg/consts.Version={version}"
    return Recipe("kwok", version, ("kwok",), (Download(at, f"{at}.sha256", name="kwok"),), ldflags=ldflags)


def _helm(arch: str) -> Recipe:
    version = "v4.3.1"
    file = f"https://get.helm.sh/helm-{version}-linux-{arch}.tar.gz"
    download = Download(file, f"{file}.sha256sum", ((f"linux-{arch}/helm", "helm"),))
    return Recipe("helm", version, ("helm",), (download,), ldflags=f"-X helm.sh/helm/v4/internal/version.version={version}")


def _metrics_server(_: str) -> Recipe:
    version = "v0.9.0"  # its releases hold manifests and images, but no binaries
    return Recipe(
        "metrics-server", version, ("metrics-server",), (), ldflags=f"-X k8s.io/client-go/pkg/version.gitVersion={version}"
    )


def _dex(_: str) -> Recipe:
    # Release v2.41.1: its module path has no `/v2`, so the module proxy knows it only by its commit.
    version = "v0.0.0-20240807174518-43956db7fd75"
    needs = ("gcc", "libc6-dev")
    return Recipe("dex", version, ("dex",), (), ldflags="-X main.version=v2.41.1", cgo=True, needs=needs)


def _registry(_: str) -> Recipe:
    version = "v3.1.2"
    stamp = "github.com/distribution/distribution/v3/version"
    return Recipe("registry", version, ("registry",), (), ldflags=f"-X {stamp}.version={version}")


def _metallb(_: str) -> Recipe:
    return Recipe("metallb", "v0.15.3", ("controller",), ())


def _contour(_: str) -> Recipe:
    version = "v1.33.8"
    stamp = "github.com/projectcontour/contour/internal/build"
    return Recipe("contour", version, ("contour",), (), ldflags=f"-X {stamp}.Version={version}")


def _kueue(_: str) -> Recipe:
    version = "v0.17.0"  # its releases hold manifests and images, but not the manager
    return Recipe("kueue", version, ("kueue",), (), ldflags=f"-X sigs.k8s.io/kueue/pkg/version.GitVersion={version}")


def _otelcol(_: str) -> Recipe:
    # Parts of one release (v0.161.0 of some is v1.67.0 of others), joined by main.go here: its publisher alone has programs.
    version = "v0.161.0"
    return Recipe("otelcol", version, ("otelcol",), (), package=".", ldflags=f"-X main.version={version}")


def _startafter(_: str) -> Recipe:
    # Its source is here, and its version follows from it.
    source = Path(__file__).parent / "startafter" / "main.go"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return Recipe("startafter", f"v0-{digest[:12]}", ("startafter",), (), package=".")


_RECIPES = {
    "kubernetes": _kubernetes,
    "etcd": _etcd,
    "etcdutl": _etcdutl,
    "containerd": _containerd,
    "runc": _runc,
    "coredns": _coredns,
    "kwok": _kwok,
    "helm": _helm,
    "metrics-server": _metrics_server,
    "dex": _dex,
    "registry": _registry,
    "kubernetes-1.34": _oldest_kubernetes,
    "metallb": _metallb,
    "contour": _contour,
    "kueue": _kueue,
    "otelcol": _otelcol,
    "startafter": _startafter,
}
ON_REQUEST = (
    "dex",
    "registry",
    "kubernetes-1.34",
    "metallb",
    "contour",
    "kueue",
    "otelcol",
)  # fetched only if a caller asks for them
COMPONENTS = tuple(_RECIPES)


def recipe(component: str, machine: str | None = None) -> Recipe:
    """How to get a component, for this machine or another architecture."""
    if component not in _RECIPES:
        raise ValueError(f"unknown component: {component}; the components are {', '.join(_RECIPES)}")
    if machine in (None, architecture()):
        return _RECIPES[component](architecture())
    return replace(_RECIPES[component](str(machine)), foreign=str(machine))
