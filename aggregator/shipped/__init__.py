"""What travels with the package beside its code: schemas and policies of the demo, alerts, a dashboard, runbooks, jobs.

In a source tree these are links to its own folders; an installed package has their files.
"""

from pathlib import Path

_HERE = Path(__file__).parent
SCHEMAS, CONFIGS, RUNBOOKS = (_HERE / name for name in ("schemas", "configs", "runbooks"))
