"""The etcd door of a node, asked by a small client of HTTP/2 and gRPC."""
