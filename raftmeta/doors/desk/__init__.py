"""What every door asks of its node."""
