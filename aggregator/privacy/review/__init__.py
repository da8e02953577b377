"""Helps people who write policies: drafts, samples, comparisons and fixtures. Nothing here strips a record of a run."""
