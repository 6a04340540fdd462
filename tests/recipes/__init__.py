"""Recipes on real nodes in this process, each contract on both faces; some with real processes, kill -9 and SIGSTOP."""
