"""Credentials of the person who runs the command: where they come from, and where they are kept.

plugin        what kubectl calls by `exec`: an ExecCredential, from the cache while it is good
certificate   a certificate of an hour by a request on the host, for who administers it
token         an ID token of the tenant's identity provider: kept, renewed by refresh token, or signed in for
browser       signing in with a browser here: authorization code with PKCE, the answer on the loopback address
device        signing in on another device, by a code that is shown here
provider      what is asked of an identity provider, within bounds
handed        the file that an admin hands to people without rights on the host
arguments     the options of signing in
choice        which provider a Tenant's people sign in to
cache         private files of this user, one for each identity; a lock, so that twenty kubectl sign in once
"""
