"""`bulkhead ssh`: the login nodes of a tenant's Slurm, by a certificate of a quarter of an hour and through the tenant's API.

command       what the words of the command line do: ssh itself, a block for ssh's own configuration, the way for ssh's bytes
certificate   a key drawn here, the certificate that the tenant's plane answers with, and the files that ssh reads
plane         the kubeconfig of the tenant for who runs the command: the one of `bulkhead login`, or one made for now
"""
