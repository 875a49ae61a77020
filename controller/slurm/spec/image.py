"""What the Slurm image expects of a pod: programs, mount paths, variables, capabilities (docs/decisions/0014-slurm-mode.md).

Constants only. The image and these builders meet here and nowhere else.
"""

from typing import Final

ENTRYPOINT: Final = "/usr/local/sbin/slurm-entrypoint"  # its argument names the daemon
DATABASE_ENTRYPOINT: Final = "/usr/local/sbin/mariadb-entrypoint"

KEYS_PATH: Final = "/etc/slurm-keys-mount"
CONFIG_PATH: Final = "/etc/slurm-config-mount"
DBD_PATH: Final = "/etc/slurm-database-mount"
USERS_PATH: Final = "/etc/slurm-users"
HOST_KEYS_PATH: Final = "/etc/slurm-ssh-mount"
AUTHORIZED_KEYS_PATH: Final = "/etc/slurm-authorized-keys"
TRUST_PATH: Final = "/etc/slurm-ssh-trust"
PASSWORD_PATH: Final = "/etc/mariadb-mount"  # noqa: S105 - a path
HOME_PATH: Final = "/home"
RUN_PATH: Final = "/run"
STATE_PATH: Final = "/var/spool/slurmctld"
SPOOL_PATH: Final = "/var/spool/slurmd"
DATABASE_PATH: Final = "/var/lib/mysql"
SHM_PATH: Final = "/dev/shm"  # noqa: S108 - a mount of the pod's own

RUN_KEYS: Final = "/run/keys"
GPU_FILES: Final = "/run/slurm-gpus/nvidia"  # numbered from 0, whatever the numbers on the host are

SERVER_VARIABLE: Final = "SLURM_CONF_SERVER"
CONF_VARIABLE: Final = "SLURMD_CONF"
GPUS_VARIABLE: Final = "SLURMD_GPUS"

# After `drop: [ALL]`; all of these are among those that Pod Security's baseline lets a container add.
STEP_DOWN: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
CAPABILITIES: Final = {
    "slurmctld": STEP_DOWN,
    "slurmdbd": STEP_DOWN,
    "slurmrestd": ("SETGID", "SETUID"),
    "mariadb": STEP_DOWN,
    "slurmd": (*STEP_DOWN, "KILL", "SYS_CHROOT"),
    "login": (*STEP_DOWN, "AUDIT_WRITE", "KILL", "NET_BIND_SERVICE", "SYS_CHROOT"),
}
