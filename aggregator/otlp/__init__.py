"""Pushes the hub's metrics, and a trace of each commit of the lake, to an OpenTelemetry collector."""
