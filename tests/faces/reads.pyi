"""The rounds of a follower's linearizable reads (raftmeta/engine/callers), whose leaders answer as a test likes."""

class ReadsHandle:
    """Member 1 of three, which follows member 2. Time passes only by pass_time."""

    def __init__(self) -> None: ...
    @property
    def served(self) -> int:
        """Reads that were answered OK."""
    def read(self) -> int:
        """One more read, asked of the leader at once; the context of its round."""
    def answer(self, context: int, index: int) -> None:
        """The leader's answer to the round of this context: reads may be served from `index` on."""
    def refuse(self, context: int) -> None:
        """Nothing was promised to the round of this context."""
    def know(self, committed: int, published: int) -> None:
        """Entries up to `committed` are here and known to be committed; readers see those up to `published`."""
    def pass_time(self, election_timeouts: int) -> int:
        """So many election time-outs pass; the context of the round that was asked for again, 0: none was."""
