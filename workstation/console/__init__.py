"""The console: a picture of the host that a browser shows. Nothing here reads a cluster.

    picture   what there is to see, frozen            page     one HTML file: picture, style and script
    session   which requests are answered             server   the pages over loopback, with server-sent events
    assets/   style and script, plain, without a build

`workstation/cli/console/` observes a cluster and decides what the picture has.
"""
