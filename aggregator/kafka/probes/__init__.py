"""This package probes a cluster's listeners for somebody who looks for a fault."""
