"""Who may speak with a node, and what protects bytes on wires and disks. Modules are imported by their names."""
