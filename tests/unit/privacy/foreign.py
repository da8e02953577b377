"""Custom operators that misbehave, installed into a folder as any package would be."""

from pathlib import Path

MODULE = '''
def explode(values):
    """Raises, with the values in its words."""
    raise ValueError(f"cannot do {values!r}")

def picky(values):
    """Raises for some values only."""
    if any("canary" in value for value in values):
        raise ValueError(f"cannot do {values!r}")
    return [value.upper() for value in values]

def mute(values):
    """Answers too few."""
    return list(values)[1:]

def odd(values):
    """Answers something of another type."""
    return [[value] for value in values]
'''
NAMES = ("explode", "picky", "mute", "odd")


def install(folder: Path) -> Path:
    """Make the package; the folder then belongs on the path."""
    info = folder / "failing_operators-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / "failing_operators.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failing-operators\nVersion: 1.0\n")
    lines = [f"{name} = failing_operators:{name}" for name in NAMES]
    (info / "entry_points.txt").write_text("\n".join(["[aggregator.operators]", *lines]))
    return folder
