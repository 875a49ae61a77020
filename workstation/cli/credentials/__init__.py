"""Credentials of the person who runs the command: where they come from, and where they are kept.

plugin        the command that kubectl calls by `exec`: prints an ExecCredential, from the cache while it is valid
certificate   a certificate for an hour, requested on the host; for admins of the host
token         an ID token of the tenant's identity provider: from the cache, by refresh token, or by signing in
browser       signing in with a browser on this machine: authorization code with PKCE, redirect to a loopback address
device        signing in on another device with a code that this machine shows
provider      bounded requests to an identity provider
handed        the file that an admin hands to users without rights on the host
arguments     the options of signing in
choice        the provider at which a Tenant's users sign in
cache         private files of this user, one for each identity; a lock, so that twenty kubectl processes sign in once
"""
