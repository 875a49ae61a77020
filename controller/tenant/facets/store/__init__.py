"""The plane's store: how full etcd is."""
