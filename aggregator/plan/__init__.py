"""Plan and explanation: what a run would do now, and why a topic is replicated or is not; reads only."""
