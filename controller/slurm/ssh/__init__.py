"""Issues users' ssh certificates for a tenant's login nodes (docs/decisions/0039-ssh-certificates.md).

authorities   the CA of each cluster, kept on the host: drawn once, rotated, replaced when certificates are revoked
certify       signs what was decided
desks         reads requests in planes, and answers them

`controller.slurm.decide.ssh` decides which identity gets a certificate; `controller.slurm.objects.ssh` builds the configuration
of login nodes.
"""
