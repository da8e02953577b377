"""The shape of the tree, read from its syntax: layers, foreign packages, sizes, docstrings, names."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A room imports only rooms before it; rooms of one rank do not import each other.
ROOMS = [
    {"escapes", "code_cache", "moments", "machine_clock", "count_text", "reasons", "regular_files", "shipped"},
    {"errors", "coordinates", "backoff", "measures", "bytes_column", "jit", "class_archive"},
    {"header_columns", "threads", "bounded_session", "repeated_warnings", "budgets"},
    {"config", "health"},
    {"kafka"},
    {"state"},
    {"schema"},
    {"privacy"},
    {"edges"},
    {"engine"},
    {"mirrormaker"},
    {"replicate"},
    {"lake"},
    {"backfill"},
    {"offsets", "lineage"},
    {"web"},
    {"observe"},
    {"audit", "report", "plan", "otlp"},
    {"page"},
    {"sandbox"},
    {"doctor"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}
# The parts of a large room, in their order; what lies beside them comes last.
PARTS = {
    "kafka": ["native", "client", "cluster", "readers", "writers", "probes"],
    "privacy": [
        "fields",
        "tokens",
        "operators",
        "policy",
        "plan",
        "batch",
        "ids",
        "json",
        "topic",
        "kernel",
        "review",
    ],
    "cli": ["terminal", "policy", "lake", "offsets", "backfill"],
    "lake": ["columns", "parquet", "storage", "tables", "cycle", "quality", "upkeep"],
    "replicate": ["flow", "discovery", "identity", "slot", "leadership", "epoch"],
}
ROOM_MODULES = 30
# Foreign packages with one home each, and the narrower part of them that another room may import.
HOMES = {
    "confluent_kafka": {"kafka": "confluent_kafka", "schema": "confluent_kafka.schema_registry"},
    "deltalake": {"lake": "deltalake"},
    "great_expectations": {"lake": "great_expectations"},
    "opentelemetry": {"otlp": "opentelemetry"},
    "openlineage": {"lineage": "openlineage"},
    "pyiceberg": {"lake": "pyiceberg"},
    "sqlalchemy": {"lake": "sqlalchemy"},
    "click": {"cli": "click"},
    "jinja2": {"page": "jinja2"},
    "starlette": {"web": "starlette", "page": "starlette", "observe": "starlette"},
    "authlib": {"schema": "authlib"},
    "boto3": {"schema": "boto3"},
    "httpx2": {"schema": "httpx2"},
    "uvicorn": {"web": "uvicorn"},
    "fastavro": {"lake": "fastavro", "schema": "fastavro", "sandbox": "fastavro"},
}
# What ARCHITECTURE.md calls pure; none of these may reach what speaks to a cluster, draws, or tells the time.
IMPURE = {"confluent_kafka", "pyspark", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid"}
# A type of values, which draws nothing by itself.
PURE_PARTS = {"uuid.UUID"}
# What asks the machine without an import that says so.
ASKED = {"datetime.now", "datetime.today", "datetime.utcnow", "date.today", "os.urandom", "os.environ", "os.getenv"}
# `encrypt` takes its nonces as an argument. Only their default draws: whoever forgot to give them would repeat them.
ASKS = {"aggregator.privacy.operators.encrypt": ["os.urandom"]}
DRAWERS = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "misc",
    "base",
    "manager",
    "managers",
    "shared",
    "stuff",
    "tools",
}
MODULE_LINES = 400
FUNCTION_LINES = 60

MODULES = sorted([*(ROOT / "aggregator").rglob("*.py"), *(ROOT / "jobs").rglob("*.py")])
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """The syntax of a module, read once for all rules."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(module: ast.Module) -> list[ast.AST]:
    """All of a module's syntax; a walk for each rule took longer than the rules."""
    return list(ast.walk(module))


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """Millions of nodes of syntax leave with this module's tests; every later collection of garbage would walk them."""
    yield
    tree.cache_clear()
    nodes.cache_clear()


def offenders(paths: Iterable[Path], found: Callable[[Path], object]) -> dict[str, object]:
    """What is wrong, by the file that it is in. One test asks of all files."""
    return {str(path.relative_to(ROOT)): wrong for path in paths if (wrong := found(path))}


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, methods and inner ones too."""
    return [node for node in nodes(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def imported(module: ast.Module, package: list[str]) -> Iterator[str]:
    """Dotted names of everything that a module imports, at its top or within a function."""
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{name}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from (argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant))


def room_of(path: Path) -> str | None:
    """The room that a file lies in; None for the package's own `__init__` and for jobs."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "aggregator" and parts[1] != "__init__" else None


def upward(path: Path, module: ast.Module) -> list[str]:
    """Imports of `path` that no room of its rank may have."""
    room = room_of(path)
    own = len(ROOMS) if room is None else RANK[room]
    package = list(path.relative_to(ROOT).parent.parts)
    rooms = {name.split(".")[1] for name in imported(module, package) if name.startswith("aggregator.")}
    return sorted(other for other in rooms & set(RANK) if other != room and RANK[other] >= own)


def foreign_packages(path: Path, module: ast.Module) -> list[str]:
    """Imports of foreign packages that have their home in another room."""
    room = room_of(path) or ""
    found = []
    for name in imported(module, list(path.relative_to(ROOT).parent.parts)):
        homes = HOMES.get(name.split(".")[0])
        if homes is not None and not f"{name}.".startswith(f"{homes.get(room, '-')}."):
            found.append(name)
    return found


def test_every_room_has_a_rank():
    """A new room gets a rank here and a row in ARCHITECTURE.md."""
    assert {room for room in map(room_of, MODULES) if room is not None} <= set(RANK)


@pytest.mark.slow
def test_a_room_imports_only_rooms_above_it():
    """The order of the rooms is the order of the data flow; lazy imports count like any other."""
    assert offenders(MODULES, lambda path: upward(path, tree(path))) == {}


def part_of(name: str) -> int | None:
    """Where the part that a module's dotted name lies in stands in its room's order; None without such an order."""
    _, room, part = [*name.split("."), "", ""][:3]
    parts = PARTS.get(room)
    return None if parts is None else parts.index(part) if part in parts else len(parts)


def later_parts(path: Path, module: ast.Module) -> list[str]:
    """Imports of `path` from parts of its own room that come after its own."""
    own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    prefix = ".".join(own.split(".")[:2]) + "."
    found = {name for name in imported(module, list(path.relative_to(ROOT).parent.parts)) if name.startswith(prefix)}
    rank = part_of(own)
    return sorted(name for name in found if rank is not None and (part_of(name) or 0) > rank)


@pytest.mark.slow
def test_a_part_imports_only_parts_before_it():
    """A large room has an order within, as the rooms have among each other."""
    assert offenders(MODULES, lambda path: later_parts(path, tree(path))) == {}


def test_the_search_for_later_parts_finds_what_it_looks_for():
    """A part's own modules, and earlier ones, pass; a later one, and what lies beside the parts, is found."""
    path = ROOT / "aggregator" / "replicate" / "slot" / "example.py"
    text = "from aggregator.replicate.{} import name"
    assert later_parts(path, ast.parse("\n".join(map(text.format, ("flow.gaps", "slot.partition_guard"))))) == []
    assert later_parts(path, ast.parse(text.format("epoch.plan"))) == ["aggregator.replicate.epoch.plan.name"]
    assert later_parts(path, ast.parse(text.format("driver"))) == ["aggregator.replicate.driver.name"]


def test_a_folder_can_be_held_in_mind():
    """A folder has 30 modules at most; past that it is divided. `operators/` is a list: one module an operator."""
    folders = {path.parent for path in MODULES} - {ROOT / "aggregator" / "privacy" / "operators"}
    assert {
        str(folder.relative_to(ROOT)): found
        for folder in folders
        if (found := sum(path.stem != "__init__" for path in folder.glob("*.py"))) > ROOM_MODULES
    } == {}


def rooms_shown() -> dict[str, int]:
    """Every room of ARCHITECTURE's table, with the row that it is in."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("| room |") :].partition("\n\n")[0].splitlines()[2:]
    cells = [row.split(" | ")[0] for row in table if not row.startswith("| ↳")]
    return {name: row for row, cell in enumerate(cells) for name in re.findall(r"`(\w+)(?:\.py|/)`", cell)}


@pytest.mark.slow
def test_the_table_has_every_room_once_and_each_imports_from_above():
    """`cli/` is in the last row; a room imports what its own row or a row above it holds."""
    shown = rooms_shown()
    assert shown.keys() == RANK.keys()
    below = set()
    for path in MODULES:
        room = room_of(path)
        package = list(path.relative_to(ROOT).parent.parts)
        for name in imported(tree(path), package):
            other = name.split(".")[1] if name.startswith("aggregator.") else None
            if room in shown and other in shown and shown[other] > shown[room]:
                below.add((room, other))
    assert below == set()


def places(row: str) -> Iterator[Path]:
    """The modules that a row of a table names: a bare name is in the folder of the path before it."""
    folder = ROOT / "aggregator"
    for name in re.findall(r"`([\w/]+\.py)`", row):
        if "/" in name:
            folder = (ROOT if name.startswith("tests/") else ROOT / "aggregator") / Path(name).parent
        yield folder / Path(name).name


@pytest.mark.parametrize("head", ["| what changes |", "| rule |"])
def test_a_row_of_a_table_names_modules_that_are_there(head):
    """Whoever reads a bare name behind a path looks in the same folder."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = [row for table in text.split(head)[1:] for row in table.partition("\n\n")[0].splitlines()[2:]]
    found = [path for row in rows for cell in row.split(" | ") for path in places(cell)]
    assert len(found) > len(rows)
    assert [str(path) for path in found if not path.exists()] == []


@pytest.mark.slow
def test_a_foreign_package_stays_in_its_room():
    """Only the room of Kafka speaks to librdkafka (the registry client apart), only the lake to Delta, and so on."""
    assert offenders(MODULES, lambda path: foreign_packages(path, tree(path))) == {}


@pytest.mark.slow
def test_one_module_writes_to_the_terminal():
    """`cli/terminal/output.py` shows what came from elsewhere as it may be shown; nothing else prints."""
    writers = {"print", "click.echo", "click.secho", "click.echo_via_pager", "sys.stdout.write", "sys.stderr.write"}

    def said(path: Path) -> list[str]:
        return [name for node in nodes(tree(path)) if (name := called(node)) in writers]

    assert list(offenders(MODULES, said)) == ["aggregator/cli/terminal/output.py"]


def names_caught(handler: ast.ExceptHandler) -> set[str]:
    """Names of the errors that a handler takes."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    return {ast.unparse(kind).rpartition(".")[2] for kind in kinds}


def own_translations(module: ast.Module) -> list[int]:
    """Lines that make an error of their own out of an OSError."""
    handlers = [
        node for node in nodes(module) if isinstance(node, ast.ExceptHandler) and "OSError" in names_caught(node)
    ]
    return [one.lineno for one in handlers if any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(one))]


# The libraries of the two formats have errors of their own, and texts that say more or must not be shown.
TRANSLATORS = {
    "aggregator/lake/tables/storage_errors.py",
    "aggregator/lake/tables/delta.py",
    "aggregator/lake/tables/delta_errors.py",
    "aggregator/lake/tables/iceberg_errors.py",
}


@pytest.mark.slow
def test_errors_of_a_storage_are_translated_in_one_place():
    """In the lake, `storage_errors` makes an error of the tree out of an OSError; nobody else does by hand."""
    lake = [path for path in MODULES if room_of(path) == "lake"]
    assert set(offenders(lake, lambda path: own_translations(tree(path)))) == TRANSLATORS


def test_the_search_for_translations_finds_what_it_looks_for():
    """One of several errors counts; to let it pass on does not."""
    text = "try:\n    f()\nexcept (ValueError, OSError) as error:\n    {}"
    assert own_translations(ast.parse(text.format("raise FatalError('x') from None"))) == [3]
    assert own_translations(ast.parse(text.format("close()\n    raise"))) == []


def called(node: ast.AST) -> str:
    """The dotted name that a call calls; empty for anything else."""
    return (
        ast.unparse(node.func) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) else ""
    )


def exit_numbers(module: ast.Module) -> list[int]:
    """Lines that end a process, or name its end, by a number."""
    found = []
    for node in nodes(module):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call) and called(node).rpartition(".")[2] in {"SystemExit", "exit", "_exit"}:
            values = node.args
        elif isinstance(node, ast.Assign) and "exit" in ast.unparse(node.targets[0]).lower():
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        elif isinstance(node, ast.FunctionDef) and node.name == "exit_code":
            values = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]
            values += [
                one for each in ast.walk(node) if isinstance(each, ast.IfExp) for one in (each.body, each.orelse)
            ]
        found += [one.lineno for one in values if isinstance(one, ast.Constant) and type(one.value) is int]
    return found


@pytest.mark.slow
def test_exit_codes_stand_in_one_table():
    """`ExitCode` alone gives them numbers."""
    assert offenders(MODULES, lambda path: exit_numbers(tree(path))) == {}


NUMBERS = ["raise SystemExit(4)", "ctx.exit(1)", "os._exit(5)", "EXIT_LOST, EXIT_WRONG = 5, 1", "exit_code = 78"]


@pytest.mark.parametrize("text", [*NUMBERS, "def exit_code():\n    return ExitCode.HELD if x else 0 if y else z"])
def test_the_search_for_exit_codes_finds_what_it_looks_for(text):
    """Each way in which a number has stood somewhere."""
    assert exit_numbers(ast.parse(text)) != []
    assert exit_numbers(ast.parse("raise SystemExit(ExitCode.HELD)\nexit_code = ExitCode.FAILED")) == []


@pytest.mark.slow
def test_a_module_says_what_it_is():
    """Every module opens with a docstring; a package's empty `__init__` may hold nothing else."""
    assert offenders(MODULES, lambda path: not (ast.get_docstring(tree(path)) or "").strip()) == {}


@pytest.mark.slow
def test_a_module_that_a_docstring_names_is_there():
    """As in `privacy.topic.values`: a room, its part, a module, and perhaps a name in it; keys of YAML are no such."""
    keys = {line.split(":")[0].strip() for line in (ROOT / "configs/hub.full.yaml").read_text().splitlines()}

    def lost(path: Path) -> list[str]:
        names = re.findall(r"`((?:[a-z_]+\.){2,}[A-Za-z_]+)`", path.read_text(encoding="utf-8"))
        rooms = [
            name.split(".")
            for name in names
            if (ROOT / "aggregator" / name.split(".")[0]).is_dir() and not name.endswith(".json")
        ]
        return [
            ".".join(parts)
            for parts in rooms
            if not any((ROOT / "aggregator").joinpath(*parts[:n]).with_suffix(".py").exists() for n in (2, 3, 4))
            and not keys.issuperset(parts[1:])
        ]

    assert offenders(MODULES, lost) == {}


@pytest.mark.slow
def test_a_docstring_names_the_result_itself():
    """A function that answers is described by its answer, one that acts by a verb; no answer begins with "Return"."""

    def begins(path: Path) -> list[str]:
        texts = {node.name: ast.get_docstring(node) or "" for node in functions(path)}
        return [name for name, text in texts.items() if text.startswith(("Return", "Yield"))]

    assert offenders(MODULES, begins) == {}


@pytest.mark.slow
def test_modules_and_functions_stay_short():
    """A module has 400 lines at most, a function 60; past that a noun is missing."""

    def long(path: Path) -> list[str]:
        return [n.name for n in functions(path) if (n.end_lineno or n.lineno) - n.lineno + 1 > FUNCTION_LINES]

    assert offenders(MODULES, lambda path: path.read_text(encoding="utf-8").count("\n") > MODULE_LINES) == {}
    assert offenders(MODULES, long) == {}


def test_there_are_no_drawers():
    """A name says what is inside; `utils` and its like say nothing."""

    def words(path: Path) -> set[str]:
        return {word for part in path.relative_to(ROOT).with_suffix("").parts for word in part.split("_")}

    assert offenders(MODULES, lambda path: words(path) & DRAWERS) == {}


def test_jobs_are_thin():
    """An entry point for spark-submit holds no logic: under 40 lines."""
    jobs = (ROOT / "jobs").glob("*.py")
    assert offenders(jobs, lambda path: path.read_text(encoding="utf-8").count("\n") >= 40) == {}


@pytest.mark.slow
def test_every_test_states_its_rule():
    """The docstring of a test is the rule that it proves."""

    def bare(path: Path) -> list[str]:
        return [n.name for n in functions(path) if n.name.startswith("test_") and not ast.get_docstring(n)]

    assert offenders(TESTS, bare) == {}


@pytest.mark.slow
def test_no_test_imports_from_another():
    """What several tests need has a module of its own, beside them; so each can be changed alone."""

    def borrowed(path: Path) -> list[str]:
        found = imported(tree(path), list(path.relative_to(ROOT).parent.parts))
        return [name for name in found if name.startswith("tests.") and ".test_" in name]

    assert offenders((ROOT / "tests").rglob("*.py"), borrowed) == {}


def test_the_files_are_there():
    """A rule that looks at no file holds nothing."""
    assert len(MODULES) > 300
    assert len(TESTS) > 200


BAD = [
    ("config", "from aggregator.kafka import names", ["kafka"], []),
    ("config", "def f():\n    import aggregator.cli.main", ["cli"], []),
    ("config", "from ..kafka.names import HubNames", ["kafka"], []),
    ("config", "import importlib\nimportlib.import_module('aggregator.lake.storage.files')", ["lake"], []),
    ("kafka", "from aggregator import errors\nimport confluent_kafka.admin", [], []),
    ("config", "from confluent_kafka import Consumer", [], ["confluent_kafka.Consumer"]),
    ("schema", "from confluent_kafka.schema_registry import Schema", [], []),
    ("schema", "from confluent_kafka import Producer", [], ["confluent_kafka.Producer"]),
    ("observe", "from aggregator.sandbox import java", ["sandbox"], []),
]


@pytest.mark.parametrize(("room", "text", "rooms", "packages"), BAD)
def test_the_search_finds_what_it_looks_for(room, text, rooms, packages):
    """A search that never fails proves nothing: each way to write a forbidden import is found."""
    path = ROOT / "aggregator" / room / "example.py"
    assert upward(path, ast.parse(text)) == rooms
    assert foreign_packages(path, ast.parse(text)) == packages


def decisions() -> list[str]:
    """Modules that ARCHITECTURE.md names as those that decide: dotted, and of a folder all, however deep they lie."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paragraph = text[text.index("What decides is pure") :].partition("\n\n")[0]
    found = re.findall(r"`([\w/]+)/(?:\{([\w,]+)\}\.py)?`(?: ((?:`[\w. ]+`)))?", paragraph)
    modules = []
    for room, several, listed in found:
        names = several.split(",") if several else [name.removesuffix(".py") for name in listed.strip("`").split()]
        modules += [f"aggregator.{room.replace('/', '.')}.{name}" for name in names]
        modules += [] if names else [dotted(path) for path in MODULES if (ROOT / "aggregator" / room) in path.parents]
    return modules


def dotted(path: Path) -> str:
    """A module's name; a package's is that of its folder."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def reached(name: str) -> Iterator[tuple[str, str]]:
    """Everything impure that a module imports, directly or through others, and by which of them."""
    by_name = {dotted(path): path for path in MODULES}
    waiting, seen = [name], {name}
    while waiting:
        module = waiting.pop()
        package = list(by_name[module].relative_to(ROOT).parent.parts)
        for found in imported(tree(by_name[module]), package):
            if found.split(".")[0] in IMPURE and found not in PURE_PARTS:
                yield found, module
            parts = found.split(".")
            prefixes = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
            waiting += (prefixes & by_name.keys()) - seen
            seen |= prefixes


def test_what_decides_is_named():
    """The paragraph is read, and every module in it is there."""
    found = decisions()
    assert {"aggregator.replicate.flow.gaps", "aggregator.backfill.planner", "aggregator.edges.availability"} <= set(
        found
    )
    assert {"aggregator.privacy.topic.topic", "aggregator.privacy.kernel.strip"} <= set(found)
    assert set(found) <= {dotted(path) for path in MODULES}


@pytest.mark.parametrize("name", decisions())
def test_what_decides_reaches_no_client_no_clock_and_no_chance(name):
    """A decision gets time, randomness and environment as arguments, so that a test can give any."""
    assert sorted(reached(name)) == []


def asked(module: ast.Module) -> list[str]:
    """What a module asks of the machine: by the names that it uses, whether it calls them or passes them on."""
    names = {ast.unparse(node) for node in nodes(module) if isinstance(node, ast.Attribute)}
    return sorted(name for name in names if any(f".{name}".endswith(f".{one}") for one in ASKED))


def test_what_decides_asks_the_machine_nothing():
    """The day, random bytes and the environment come as arguments; `ASKS` names who has a default."""
    paths = {dotted(path): path for path in MODULES}
    assert {name: found for name in decisions() if (found := asked(tree(paths[name])))} == ASKS


def test_the_search_for_questions_finds_what_it_looks_for():
    """A call, a default, and a module's own name before it."""
    assert asked(ast.parse("day = datetime.now(UTC).date()")) == ["datetime.now"]
    assert asked(ast.parse("def f(nonces=os.urandom): ...\nx = os.environ['A']")) == ["os.environ", "os.urandom"]
    assert asked(ast.parse("datetime.datetime.now()")) == ["datetime.datetime.now"]


@pytest.mark.slow
def test_a_test_draws_when_it_runs_and_not_when_it_is_collected():
    """Workers that collect other test ids than each other run none."""

    def drawn(path: Path) -> list[int]:
        return [
            node.lineno
            for function in functions(path)
            for decorator in function.decorator_list
            for node in ast.walk(decorator)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in {"random", "secrets"}
        ]

    assert offenders(TESTS, drawn) == {}
