"""The assignors, against their promises (docs/assignors.md), small exhaustive searches, and answers of Kafka 3.9."""
