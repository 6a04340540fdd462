"""Doors: foreign protocols in front of the same state, each in a room of its own, native and without the GIL."""
