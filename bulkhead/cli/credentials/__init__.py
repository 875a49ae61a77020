"""Credentials of the person who runs the command: where they come from, and where they are kept.

plugin        what kubectl calls by `exec`: an ExecCredential, from the cache while it is good
certificate   a certificate of an hour by a request on the host, for who administers it
cache         private files of this user, one for each identity; a lock, so that twenty kubectl sign in once
"""
