"""Plan and explanation: what a run would do now, and why a topic is replicated or not. This package only reads."""
