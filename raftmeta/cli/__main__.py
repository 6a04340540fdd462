"""python -m raftmeta.cli, where the console script is not on the path."""

from raftmeta.cli import main

main()
