"""The desk: every door asks its node through it, whatever protocol its clients speak."""
