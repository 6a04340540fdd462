"""The assignors, against their promises (docs/assignors.md) and small exhaustive searches."""
