"""Kafka's client protocol (docs/kafka.md, docs/kafka-requests.md)."""
