"""This package makes the Kafka clients of a process, renews their credentials, and reads their statistics."""
