"""Backfills: read a past window of an edge again on request, beside the live flows, with a plan that is shown before it
runs.

Code that shows backfills uses `monitor.BackfillWatch`. Its `look(now_s)` returns every backfill as a
`monitor.Progress`, without waiting.
"""
