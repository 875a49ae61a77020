"""The entrypoint of the Slurm image as root, on volumes that are writable for all users: what a user may replace there.

It runs in namespaces of its own, on this machine's programs, up to where it would become the daemon. Then a user of the cluster
looks around.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.slurm.spec import image
from tests.kit import machine
from workstation.hostcluster.images.build import PROJECT

SCRIPT = PROJECT / "images/slurm/rootfs/usr/local/sbin/slurm-entrypoint"
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
ALICE, BOB = 10001, 10002
AS_BOB = f"setpriv --reuid={BOB} --regid={BOB} --clear-groups"

# Where tini would start the daemon, with what a test wants to see; the end of it ends all others.
STUBS = {
    "tini": 'exec sh -c "$LOOK"',
    "timeout": "exit 0",  # all daemons answer at once
    "sleep": "exec /bin/sleep 0.02",
    "pkill": "exit 0",
    # Bob is quick: between the creation of a home and the change of its owner he puts a link in its place.
    "mkdir": f'/bin/mkdir "$@" || exit 1; for last; do :; done; [ "$last" != /home/alice ] || {AS_BOB} sh -c '
    f"'mv /home/alice /home/.mine && ln -s /etc/victim /home/alice' 2> /dev/null; exit 0",
}  # fmt: skip

Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a daemon's entrypoint and give what `look`, a script as root, prints; `before` makes what lies there already."""
    machine.namespaces("the entrypoint", *NAMESPACES, instead="the scenarios of Slurm show the same on the embedded host")
    root = tmp_path / "root"
    folders = ["stubs", "etc/slurm-keys-mount", "etc/slurm-users", "etc/slurm-ssh-mount", "proc", "dev", "usr"]
    for name in [*folders, "run", "home", "tmp", "var/spool/slurmd", "etc/slurm"]:
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name, body in STUBS.items():
        (root / "stubs" / name).write_text(f"#!/bin/sh\n{body}\n")
        (root / "stubs" / name).chmod(0o755)
    (root / "entrypoint").write_text(SCRIPT.read_text())
    (root / "etc/slurm-keys-mount/slurm.jwks").write_text("{}")
    (root / "etc/slurm-ssh-mount/ssh_host_ed25519_key").write_text("key")
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (root / "etc/victim").write_text("root's")
    users = {"alice": ALICE, "bob": BOB}
    (root / "etc/slurm-users/passwd").write_text("".join(f"{n}:*:{u}:{u}::/home/{n}:/bin/bash\n" for n, u in users.items()))
    for path in (tmp_path, *tmp_path.parents):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):  # noqa: S108 - bob walks in from the root that he is given
            path.chmod(0o755)

    def run(daemon: str, look: str, before: str = "true") -> subprocess.CompletedProcess[str]:
        # As the kubelet and the provisioner make them.
        script = f"""
            mount --rbind /usr {root}/usr; mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev
            for each in run home var/spool/slurmd dev/shm; do mount -t tmpfs -o mode=0777 "$each" "{root}/$each"; done
            export PATH=/stubs:/usr/sbin:/usr/bin SLURM_CONF_SERVER=ctl:1 LOOK="$1"
            PATH=/usr/sbin:/usr/bin chroot {root} sh -euc "$2"
            exec chroot {root} sh /entrypoint "$0"
        """
        words = [*NAMESPACES, "sh", "-euc", script, daemon, look, before]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_nothing_blocks_a_new_home(start: Start) -> None:
    done = start("login", "stat -c '%n %a %u' /home /home/alice /home/bob /etc/victim")
    assert done.stdout.splitlines() == [
        "/home 755 0",
        f"/home/alice 700 {ALICE}",
        f"/home/bob 700 {BOB}",
        "/etc/victim 644 0",
    ], done


def test_a_home_stays_its_users_and_what_lies_there_is_left_as_it_is(start: Start) -> None:
    before = f"mkdir /home/bob; chown {BOB} /home/bob; {AS_BOB} ln -s /etc/victim /home/alice"
    tries = "; ".join(f"{AS_BOB} {try_}" for try_ in ("mv /home/alice /home/x", "mv /home/bob /home/y", "mkdir /home/z"))
    look = f"{tries}; stat -c '%n %F %u' /home/* /etc/victim"
    done = start("login", look, before)
    assert done.stdout.splitlines() == [
        f"/home/alice symbolic link {BOB}",
        f"/home/bob directory {BOB}",
        "/etc/victim regular file 0",
    ]
    assert f"/home/alice is not a directory of alice's own (symbolic link {BOB}): left as it is" in done.stderr
    assert "bob's own" not in done.stderr


def test_a_home_that_was_never_handed_over_is(start: Start) -> None:
    """Its maker was ended in between; but what has something in it is not root's to give away."""
    done = start("login", "stat -c '%n %u' /home/*", "mkdir /home/alice /home/bob; touch /home/bob/file")
    assert done.stdout.splitlines() == [f"/home/alice {ALICE}", "/home/bob 0"]


def test_the_mode_that_an_admin_gave_stays(start: Start) -> None:
    assert start("login", "stat -c '%a %u' /home", "chmod 0711 /home").stdout == "711 0\n"
    assert start("slurmd", "stat -c '%a %u' /home", f"chown {BOB} /home; chmod 0755 /home").stdout == "755 0\n"


@pytest.mark.parametrize("daemon", ["login", "slurmd"])
def test_no_user_replaces_what_root_keeps(start: Start, daemon: str) -> None:
    look = f"""
        for each in /run/keys /run/slurm /var/spool/slurmd/conf; do {AS_BOB} mv "$each" "$each.old"; done
        {AS_BOB} mkdir /run/mine /var/spool/slurmd/mine
        stat -c '%n %a %u' /run /run/keys /dev/shm /var/spool/slurmd
        ls -d /run/*.old /run/mine /var/spool/slurmd/*.old /var/spool/slurmd/mine
    """
    done = start(
        daemon,
        look,
        "mkdir /var/spool/slurmd/conf" if daemon == "slurmd" else "chmod 1777 /dev/shm; chmod 755 /var/spool/slurmd",
    )
    assert done.stdout.splitlines() == [
        "/run 755 0",
        "/run/keys 755 0",
        f"{image.SHM_PATH} 1777 0",
        "/var/spool/slurmd 755 0",
    ], done.stderr


def test_what_a_user_left_in_run_is_not_used_again(start: Start) -> None:
    """The container restarts, and its /run is the one that an earlier version left open."""
    before = f"{AS_BOB} mkdir /run/keys; {AS_BOB} ln -s /etc/victim /run/keys/slurm.jwks.new; {AS_BOB} ln -s /etc /run/sshd"
    done = start("login", "stat -c '%n %u' /run/keys /run/sshd /etc/victim; cat /etc/victim; ls /run/keys", before)
    assert done.stdout == "/run/keys 0\n/run/sshd 0\n/etc/victim 0\nroot'sslurm.jwks\n", done.stderr


@pytest.mark.parametrize("daemon", ["login", "slurmd"])
@pytest.mark.parametrize(
    ("owner", "refused", "says"),
    [
        (65534, "chown", None),
        (BOB, "chown", f"/home belongs to user {BOB}, who could replace every home in it"),
        (65534, "chown chmod", "/home is writable for everybody and its mode cannot be changed"),
    ],
)
def test_a_home_that_every_user_may_change_is_refused(
    start: Start, daemon: str, owner: int, refused: str, says: str | None
) -> None:
    """A file server that gives root no rights is played by programs that fail there."""
    stub = '#!/bin/sh\n[ "$2" != /home ] || exit 1\nexec "/bin/${0##*/}" "$@"\n'
    before = f"for each in {refused}; do printf '%s' '{stub}' > /stubs/$each; chmod 755 /stubs/$each; done; chown {owner} /home"
    done = start(daemon, "stat -c %a /home", before)
    if says is None:
        assert done.stdout == "1777\n", done.stderr
    else:
        assert (done.returncode, done.stdout) == (78, "")
        assert says in done.stderr


# What slurmctld answers, one call of scontrol after the other: the first while it restarts.
ANSWERS = """cat > /stubs/timeout << 'END'
#!/bin/sh
[ "$2" = scontrol ] || exit 0
printf '%s\\n' "$3 $6" >> /tmp/asked
case "$(wc -l < /tmp/asked)" in
    1) echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1 ;;
    2 | 4) echo 'NodeName=w State=MIXED+DRAIN ThreadsPerCore=1 Reason=fan broken [root@2026-06-01T12:00:00] Comment=x' ;;
    3) exit 124 ;;
esac
END
"""


def test_a_worker_that_restarts_together_with_slurmctld_gives_up_its_jobs_all_the_same(start: Start) -> None:
    """Otherwise they count as running for ever, and hold the worker."""
    done = start("slurmd", "cut -d' ' -f1 /tmp/asked; tail -n1 /tmp/asked", ANSWERS)
    assert done.stdout.splitlines() == ["-o", "-o", "update", "-o", "update", "update reason=fan broken"], done.stderr


def test_a_worker_that_slurmctld_does_not_know_is_asked_about_once(start: Start) -> None:
    unknown = """cat > /stubs/timeout << 'END'
#!/bin/sh
[ "$2" = scontrol ] || exit 0
echo asked >> /tmp/asked
echo "Node w not found"
exit 1
END
"""
    assert start("slurmd", "cat /tmp/asked", unknown).stdout == "asked\n"
