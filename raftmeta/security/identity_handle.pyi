"""The names in certificates for Python: for the client's check of a node, and for tools that make certificates."""

def parse_identity(uri: str) -> tuple[str, str, str] | None:
    """(role, cluster, name) of a URI in a certificate; role is "peer" or "client". None: it names nobody."""

def peer_uri(cluster: str, node: str) -> str:
    """The URI of a node in its certificate."""

def client_uri(cluster: str, principal: str) -> str:
    """The URI of a client in its certificate."""
