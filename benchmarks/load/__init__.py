"""Load generators: what keeps a node, a peer or the limit busy, and times it."""
