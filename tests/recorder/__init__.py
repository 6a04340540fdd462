"""The flight recorder, and what `raftmeta explain` makes of it."""
