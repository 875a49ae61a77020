"""`bulkhead ssh`: the login nodes of a tenant's Slurm, with a certificate for 15 minutes, through the tenant's API.

command       what the command does: runs ssh, prints a block for ssh's configuration, or carries ssh's bytes
certificate   a key that is created here, the certificate that the tenant's plane returns, and the files that ssh reads
plane         the tenant's kubeconfig for the user who runs the command: that of `bulkhead login`, or a new one
"""
