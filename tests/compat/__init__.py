"""Programs of other libraries on raftmeta."""
