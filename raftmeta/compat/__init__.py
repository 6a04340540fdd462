"""Programs written for another library, run on raftmeta without a change: one package for each library."""
