"""An image without Docker: the instructions of a Dockerfile, done in folders that hold Debian's own packages.

Invariant: what it does not know, an instruction or an option of one, it refuses. What a machine needs to reach Debian
and PyPI (name servers, certificates, a proxy) is lent to a folder while it is made, and is not in the image.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

# The images that a Dockerfile may begin with, by the release of Debian that each holds.
BASES = {"debian:12-slim": "bookworm", "debian:bookworm-slim": "bookworm"}
NEEDED = ("debootstrap", "unshare", "chroot")
# Lent: files that are copied in and taken out again, and variables of programs that fetch.
_LENT = ("/etc/resolv.conf", "/etc/ssl/certs", "/etc/pip.conf")
_LENT_VARIABLES = re.compile(r"(PIP|SSL_CERT|UV)_\w+|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY")
# What Debian's slim images leave out (debuerreotype-slimify).
_SLIM = ("doc", "info", "lintian", "linda", "locale", "man")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# As a container has it: its own processes, its own name, and a folder in memory that everybody may write in.
_ENTER = """
mkdir -p "$1/dev/shm" && mount -t proc proc "$1/proc" || exit 125
mount -t tmpfs -o mode=1777,size=64m shm "$1/dev/shm" && hostname container || exit 125
root=$1 who=$2 where=$3; shift 3
exec chroot --userspec="$who" --groups= "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$where" "$@"
"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile: `RUN`, and what stands behind it, continued lines joined."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """What a stage has come to.

    Attributes:
        root: The folder of its files.
    """

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = "0:0"
    workdir: str = "/"
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    healthcheck: tuple[str, ...] = ()

    def run(
        self,
        words: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        user: str | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a container of this image; its first process is the command.

        Args:
            words: The command.
            env: Variables besides the image's own.
            user: Instead of the image's.
            timeout: Seconds.
        """
        home = "/root" if self.user == "0:0" else "/var/lib/aggregator"
        variables = {"PATH": _PATH, "HOME": home, **self.env, **(env or {})}
        enter = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", _ENTER, "enter"]
        return subprocess.run(
            [*enter, str(self.root), user or self.user, self.workdir, *words],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )


def instructions(dockerfile: str) -> list[Instruction]:
    """Read a Dockerfile."""
    kept = "\n".join(line for line in dockerfile.splitlines() if not line.lstrip().startswith("#"))
    lines = re.sub(r"\\\n", " ", kept).splitlines()
    return [Instruction(*line.strip().split(maxsplit=1)) for line in lines if line.strip()]


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether a file of the context stays behind: the last pattern that speaks of it, or of a folder of it, decides.

    Args:
        path: Relative to the context.
        patterns: Lines of the ignore file.
    """
    verdict = False
    for pattern in patterns:
        wanted, bare = not pattern.startswith("!"), pattern.lstrip("!").strip("/")
        parts = PurePosixPath(path).parts
        if any(_is_met("/".join(parts[: end + 1]), bare) for end in range(len(parts))):
            verdict = wanted
    return verdict


def _is_met(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return _is_met(PurePosixPath(path).name, pattern[3:])
    pairs = path.split("/"), pattern.split("/")
    return len(pairs[0]) == len(pairs[1]) and all(map(fnmatchcase, *pairs))


def build(dockerfile: Path, context: Path, folder: Path) -> Image:
    """Make the last stage of a Dockerfile.

    Args:
        dockerfile: With its ignore file beside it.
        context: Where `COPY` copies from.
        folder: Where the stages are made.

    Raises:
        AssertionError: an instruction failed, or is not known.
    """
    os.umask(0o022)  # as Docker makes folders
    patterns = _lines(dockerfile.with_name(f"{dockerfile.name}.dockerignore"))
    stages: dict[str, Image] = {}
    image: Image | None = None
    for one in instructions(dockerfile.read_text(encoding="utf-8")):
        print(f"{one.word} {one.text[:100]}", flush=True)
        if one.word == "FROM":
            base, _, name = one.text.partition(" AS ")
            image = stages[name] = Image(_stage(base, folder, name or "final"))
            continue
        assert image is not None, "FROM comes first"
        image = _done(one, image, stages, _Context(context, patterns))
    assert image is not None
    return image


def forget_lent(image: Image) -> None:
    """Take out what the machine has lent; authorities are then those of the image's own package."""
    for place in _LENT:
        target = image.root / place.lstrip("/")
        if target.is_dir():
            shutil.rmtree(target)
            target.mkdir()
        else:
            target.unlink(missing_ok=True)
    for path in _apt_settings():
        (image.root / str(path).lstrip("/")).unlink(missing_ok=True)
    if (image.root / "usr/sbin/update-ca-certificates").exists():
        traceless = {"JDK_JAVA_OPTIONS": "-XX:-UsePerfData"}  # Java's own list of authorities is made, too
        done = image.run(["/usr/sbin/update-ca-certificates", "--fresh"], traceless, user="0:0")
        assert done.returncode == 0, done.stderr


@dataclass(frozen=True, slots=True)
class _Context:
    """The folder that `COPY` copies from, and what it leaves behind there."""

    root: Path
    patterns: Sequence[str]

    def files(self, source: str) -> Iterator[tuple[Path, PurePosixPath]]:
        """Each file below a source with its place there; a file itself has its name."""
        start = self.root / source
        assert start.exists(), f"COPY {source}: no such file in the context"
        found = [start] if start.is_file() else sorted(_below(start))
        for path in found:
            if not ignored(path.relative_to(self.root).as_posix(), self.patterns):
                yield path, PurePosixPath(path.relative_to(start if start.is_dir() else start.parent))


def _below(folder: Path) -> Iterator[Path]:
    """Every file and every link; links are not followed."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        else:
            yield path


def _done(one: Instruction, image: Image, stages: Mapping[str, Image], context: _Context) -> Image:
    """One instruction done."""
    match one.word:
        case "SHELL":
            return replace(image, shell=_array(one.text))
        case "RUN":
            _lend_all(image.root)  # a package of authorities writes its own list
            lent = {name: value for name, value in os.environ.items() if _LENT_VARIABLES.fullmatch(name)}
            done = image.run([*image.shell, one.text], lent, timeout=3600)
            assert done.returncode == 0, (
                f"RUN {one.text}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
            return image
        case "COPY":
            _copy(one.text, image, stages, context)
            return image
        case "ENV":
            said = dict(word.split("=", 1) for word in shlex.split(one.text))
            return replace(image, env={**image.env, **said})
        case "USER":
            return replace(image, user=one.text)
        case "WORKDIR":
            (image.root / one.text.lstrip("/")).mkdir(parents=True, exist_ok=True)
            return replace(image, workdir=one.text)
        case "HEALTHCHECK":
            return replace(image, healthcheck=_array(one.text.partition(" CMD ")[2]))
        case "ENTRYPOINT":
            return replace(image, entrypoint=_array(one.text), command=())
        case "CMD":
            return replace(image, command=_array(one.text))
    raise AssertionError(f"no instruction that is known here: {one.word}")


def _array(text: str) -> tuple[str, ...]:
    """The form of commands that needs no shell."""
    assert text.startswith("["), f"not a list: {text}"
    return tuple(re.findall(r'"([^"]*)"', text))


def _copy(text: str, image: Image, stages: Mapping[str, Image], context: _Context) -> None:
    words = shlex.split(text)
    options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    *sources, last = [word for word in words if not word.startswith("--")]
    target = image.root / str(PurePosixPath(image.workdir, last)).lstrip("/")
    assert options.keys() <= {"from", "chmod"}, f"COPY {text}"
    if "from" in options:
        (source,) = sources
        subprocess.run(["cp", "-a", f"{stages[options['from']].root}{source}", str(target)], check=True)
        return
    for source in sources:
        whole = (context.root / source).is_file() and not last.endswith("/")
        for path, place in context.files(source):
            there = target if whole else target / place
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, there, follow_symlinks=False)
            os.chown(there, 0, 0, follow_symlinks=False)
            if "chmod" in options:
                there.chmod(int(options["chmod"], 8))


def _stage(base: str, folder: Path, name: str) -> Path:
    """A folder of its own with Debian's smallest set of packages, as the base image has it."""
    kept = folder / f"base-{BASES[base]}"
    if not kept.exists():
        _debian(BASES[base], kept)
    root = folder / name
    subprocess.run(["cp", "-a", str(kept), str(root)], check=True)
    return root


def _debian(suite: str, root: Path) -> None:
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", suite, str(root), "http://deb.debian.org/debian"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    (root / "etc/apt/sources.list").write_text(
        f"deb http://deb.debian.org/debian {suite} main\n"
        f"deb http://deb.debian.org/debian {suite}-updates main\n"
        f"deb http://deb.debian.org/debian-security {suite}-security main\n"
    )
    (root / "etc/hosts").write_text("127.0.0.1 localhost container\n")
    left_out = "".join(f"path-exclude /usr/share/{place}/*\n" for place in _SLIM)
    (root / "etc/dpkg/dpkg.cfg.d/docker").write_text(f"{left_out}path-include /usr/share/doc/*/copyright\n")
    for place in _SLIM:
        for path in sorted((root / "usr/share" / place).rglob("*")):
            if path.is_file() and path.name != "copyright":
                path.unlink()
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    shutil.rmtree(root / "var/lib/apt/lists")


def _lend_all(root: Path) -> None:
    for place in (*_LENT, *map(str, _apt_settings())):
        _lend(Path(place), root / place.lstrip("/"))


def _lend(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-rL", "--remove-destination", f"{source}/.", str(target)], check=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _apt_settings() -> list[Path]:
    """Settings of apt that name a proxy."""
    found = Path("/etc/apt/apt.conf.d").glob("*") if Path("/etc/apt/apt.conf.d").is_dir() else ()
    return [path for path in sorted(found) if path.is_file() and "proxy" in path.read_text(errors="replace").lower()]


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
