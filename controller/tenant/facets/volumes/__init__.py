"""The volumes under the plane's etcd, which grow while it runs."""
