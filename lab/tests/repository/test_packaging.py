"""Tools that a build needs, the messages about missing ones, and the contents of the wheel."""

from __future__ import annotations

import ast
import os
import re
import shutil
import struct
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from made.engines import target_of_its_own

ROOT = Path(__file__).resolve().parents[3]
PREREQUISITES = ROOT / "tools" / "prerequisites"
SYSTEM_TOOLS = ("sh", "dirname", "sed", "readlink", "uname", "id", "head", "grep", "cut", "sort", "cat")

PYTHON = """#!/bin/sh
# A Python of version {version} that may lack its venv module.
case "$1 $2" in
    *ensurepip*) exit {complete} ;;
    *"sys.exit(sys.version_info"*) exit {new_enough} ;;
    *print*) echo {version} ;;
    *) echo "Python {version}.1" ;;
esac
"""


class Machine:
    """A PATH with the system's plainest tools and whatever a test adds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        for tool in SYSTEM_TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (directory / tool).symlink_to(found)

    def add(self, name: str, script: str = "#!/bin/sh\nexit 0\n") -> None:
        (self.directory / name).write_text(script)
        (self.directory / name).chmod(0o755)

    def add_python(self, version: str, *, new_enough: bool = True, complete: bool = True) -> None:
        script = PYTHON.format(version=version, new_enough=int(not new_enough), complete=int(not complete))
        self.add("python3", script)

    def add_rust(self, version: str) -> None:
        for name in ("cargo", "rustc"):
            self.add(name, f'#!/bin/sh\necho "{name} {version} (0123abcd 2026-01-01)"\n')

    def ask(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(PREREQUISITES), *arguments],
            env={"PATH": str(self.directory), "HOME": str(self.directory), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def missing(self, **environment: str) -> str:
        done = self.ask(**environment)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith("thunderherd: missing: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "bin")


def test_nothing_missing_prints_the_python_to_use(machine: Machine) -> None:
    machine.add_python("3.12")
    machine.add_rust("1.95.0")
    machine.add("cc")
    done = machine.ask()
    assert (done.returncode, done.stdout, done.stderr) == (0, "python3\n", "")


@pytest.mark.parametrize(
    ("manager", "install"),
    [
        ("apt-get", "apt-get install -y python3 python3-venv gcc curl && curl"),
        ("dnf", "dnf install -y python3 gcc curl && curl"),
    ],
)
def test_everything_missing_is_one_line_with_one_command(
    machine: Machine, manager: str, install: str
) -> None:
    machine.add(manager)
    line = machine.missing()
    for part in ("Python 3.11", "C compiler", "Rust 1.", install, "https://sh.rustup.rs"):
        assert part in line


def test_tools_that_are_too_old_are_listed_with_their_versions(machine: Machine) -> None:
    machine.add("apt-get")
    machine.add("cc")
    machine.add("curl")
    machine.add_python("3.9", new_enough=False, complete=False)
    machine.add_rust("1.63.0")
    line = machine.missing()
    assert "Python 3.9.1 " in line and "rustc 1.63.0 " in line
    assert "gcc" not in line
    assert " curl && curl" not in line


def test_python_without_venv_names_its_package(machine: Machine) -> None:
    machine.add("apt-get")
    machine.add("cc")
    machine.add_rust("1.95.0")
    machine.add_python("3.12", complete=False)
    line = machine.missing()
    assert "ensurepip" in line and "Python 3.12" in line
    assert line.rstrip().endswith("apt-get install -y python3.12-venv")


def test_a_c_library_that_cannot_be_linked_statically_names_its_package(machine: Machine) -> None:
    machine.add("dnf")
    machine.add("cc", '#!/bin/sh\nfor word; do [ "$word" != -static ] || exit 1; done\n')
    machine.add_rust("1.95.0")
    machine.add_python("3.12")
    line = machine.missing()
    assert "libc.a" in line and line.rstrip().endswith("dnf install -y glibc-static")


def test_outdated_rustup_toolchain_is_updated(machine: Machine) -> None:
    machine.add_python("3.12")
    machine.add("cc")
    machine.add_rust("1.70.0")
    machine.add("rustup")
    assert machine.missing().rstrip().endswith(": rustup update stable && rustup default stable")


def test_toolchains_next_to_the_proxy_are_found_from_another_home(tmp_path: Path) -> None:
    (tmp_path / ".rustup").mkdir()
    (tmp_path / ".cargo").mkdir()
    machine = Machine(tmp_path / ".cargo" / "bin")
    proxy = f'#!/bin/sh\n[ "$RUSTUP_HOME" = {tmp_path}/.rustup ] && echo "rustc 1.95.0 (x)"\n'
    machine.add_python("3.12")
    machine.add("cc")
    machine.add("cargo", proxy)
    machine.add("rustc", proxy)
    assert machine.ask("rustup-home").stdout == f"{tmp_path}/.rustup\n"
    assert machine.ask().stdout == "python3\n"
    assert machine.ask("rustup-home", RUSTUP_HOME="/elsewhere").stdout == ""


def test_launcher_works_in_a_path_with_spaces(tmp_path: Path) -> None:
    home = tmp_path / "my files" / ".venv"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (home / "bin" / "python").chmod(0o755)
    launcher = home / "bin" / "thunderherd"
    launcher.write_text("")
    launcher.chmod(0o755)
    subprocess.run([ROOT / "tools" / "launcher", home], check=True)
    done = subprocess.run([launcher, "run", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout == f"<{launcher}><run><a b>"
    # Started by Python, the same file is the launcher that the wheel ships.
    shipped = ROOT / "packaging" / "thunderherd.data" / "scripts" / "thunderherd"
    assert ast.unparse(ast.Module(ast.parse(launcher.read_text()).body[1:], [])) == ast.unparse(
        ast.parse(shipped.read_text())
    )


def test_the_linker_script_names_modules_that_exist() -> None:
    text = (ROOT / "engine" / "serving.ld").read_text()
    named = re.findall(r"thunderherd_engine((?:\d+[a-z_]+)+)\*", text)
    assert len(named) >= 8
    for mangled in named:
        parts = re.findall(r"(\d+)([a-z_]+)", mangled)
        assert all(int(length) == len(name) for length, name in parts), mangled
        path = ROOT.joinpath("engine", "src", *(name for _, name in parts))
        assert path.is_dir() or path.with_suffix(".rs").is_file(), mangled


RANDOM_ADDRESSES = 3
"""ET_DYN of elf(5): a program that runs at any address."""
INTERPRETER = 3
"""PT_INTERP of elf(5): the segment that names the dynamic linker."""


def kind_and_segments(program: bytes) -> tuple[int, bool]:
    """Return the type of a 64-bit ELF file of this machine, and whether it needs a dynamic linker."""
    kind, first, size, count = struct.unpack("=16xH14xQ14xHH", program[:58])
    segments = [struct.unpack_from("=I", program, first + size * each)[0] for each in range(count)]
    return kind, INTERPRETER in segments


def test_wheel_ships_both_commands_and_the_data(tmp_path: Path) -> None:
    maturin = Path(sys.executable).parent / "maturin"
    if not maturin.exists():
        pytest.skip("maturin is not beside this Python; `make test` puts it there")
    subprocess.run(
        [str(maturin), "build", "--release", "--locked", "--out", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"CARGO_TARGET_DIR": str(target_of_its_own("wheel", "release"))},
        check=True,
        capture_output=True,
        timeout=900,
    )
    (wheel,) = tmp_path.glob("thunderherd-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    lab = ROOT / "lab" / "thunderherd"
    ours = {
        f"thunderherd/{path.as_posix()}"
        for path in (each.relative_to(lab) for each in lab.rglob("*") if each.is_file())
        if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    }
    assert any(name.endswith("unp-ch30.toml") for name in ours)
    assert any(name.endswith("thunderherd/records/summary.schema.json") for name in ours)
    assert ours <= shipped
    assert not [name for name in shipped if "tests/" in name]
    for name in ("thunderherd", "thunderherd-engine"):
        assert any(each.endswith(f".data/scripts/{name}") for each in shipped)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in shipped if each.endswith("/scripts/thunderherd-engine"))
        assert kind_and_segments(archive.read(name)) == (RANDOM_ADDRESSES, False)

    # Installed without what it depends on, both commands are there, and executable. By the pip that is here:
    # to unpack another takes longer than all the rest.
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(home / "bin" / "python"),
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        check=True,
        timeout=300,
    )
    engine = subprocess.run(
        [str(home / "bin" / "thunderherd-engine"), "list", "--json"], capture_output=True, check=False
    )
    assert engine.returncode == 0
    launcher = home / "bin" / "thunderherd"
    assert os.access(launcher, os.X_OK)
    assert launcher.read_text().startswith(f"#!{home / 'bin' / 'python'}")
