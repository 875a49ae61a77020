"""Ssh certificates of people for a tenant's login nodes (docs/decisions/0039-ssh-certificates.md).

authorities   the CA of each cluster, kept on the host: drawn once, rotated, replaced when certificates are revoked
certify       signs what was decided
desks         reads requests in planes, and answers them

Who gets a certificate is decided in `controller.slurm.decide.ssh`; what login nodes are told is made in
`controller.slurm.objects.ssh`.
"""
