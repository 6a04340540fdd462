"""TLS for fuzzers."""

def use(certificate: bytes, key: bytes, authorities: bytes, cluster: bytes) -> None:
    """Give the targets of TLS a certificate of a node, its key and its authority, in PEM. Once; later calls do nothing.

    Raises ValueError: they do not fit.
    """
