"""Backfills: reading a past window of an edge again on purpose, beside the live flows, planned before it runs.

Whoever shows them uses `watch.BackfillWatch`: `look(now_s)` tells every backfill as a `watch.Progress`, without a wait.
"""
