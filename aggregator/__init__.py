"""One hub that reads every regional Kafka cluster once, strips personal data, and delivers to central Kafka and a lake."""
