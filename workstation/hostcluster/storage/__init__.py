"""Dynamic local volumes of the embedded host: a folder and a `local` PersistentVolume for each claim."""
