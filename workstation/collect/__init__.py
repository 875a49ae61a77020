"""What the engineer on call sends to a colleague about one tenant: read, redacted, and written as one archive.

    redact    what may leave a cluster, of objects, events and logs (pure, from allowlists)
    sources   what is read: objects of the host, logs of the plane, answers of the plane (a list, as data)
    gather    reads the sources side by side within one deadline; a source that fails is named, and stops no other
    archive   files and a manifest into one .tar.gz, whole or not at all

Nothing is changed on the host or in the plane.
"""
