"""The names in certificates for Python: for a client's check of a node."""

def parse_identity(uri: str) -> tuple[str, str, str] | None:
    """(role, cluster, name) of a URI in a certificate; role is "peer" or "client". None: it names nobody."""
