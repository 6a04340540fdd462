"""A member of a group: its state machine by hand, and its coordinator on a fake group that follows Kafka's table."""
