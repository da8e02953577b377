"""A hub reads every regional Kafka cluster once, strips personal data, and delivers each record exactly once."""
