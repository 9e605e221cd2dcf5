# SPDX-License-Identifier: Apache-2.0
"""Kernels from C at run time: compiled from a text, loaded from a file; forged files."""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from building import compile_program, need_library, run_program
from click.testing import CliRunner

from ms_custom_ops.ascendc.binary import MAGIC, VERSION
from ms_custom_ops.ascendc.kernel import ABI
from ms_custom_ops.cli import main

HERE = Path(__file__).resolve().parent
SOURCES = ("kernels.cc", "kernel_statuses.cc")
CASES = [name for source in SOURCES for name in re.findall(r"^CASE\((\w+)\)", (HERE / source).read_text(), re.M)]


def text_of(name: str) -> str:
    """A raw string of kernel_texts.h."""
    found = re.search(rf'{name} = R"\((.*?)\)";', (HERE / "kernel_texts.h").read_text(), re.S)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the cases."""
    need_library()
    folder = tmp_path_factory.mktemp("kernels")
    whole = folder / "all.cc"
    whole.write_text("".join(f'#include "{HERE / source}"\n' for source in SOURCES))
    compile_program(whole, folder / "cases", f"-I{HERE}")
    return folder / "cases"


@pytest.fixture(scope="module")
def binary(program: Path) -> Path:
    """The kernel `add` as a file, and what made it."""
    folder = program.parent
    (folder / "add.cpp").write_text(text_of("kKernels"))
    (folder / "sizes.h").write_text("constexpr uint32_t TILE = 96;\n")
    words = ["ascendc", "build", str(folder / "add.cpp"), "--entry", "add", "--out", str(folder / "add.o")]
    done = CliRunner().invoke(main, words)
    size = (folder / "add.o").stat().st_size
    assert (done.exit_code, done.output) == (0, f"add: {folder / 'add.o'}, {size} bytes\n"), done.output
    return folder / "add.o"


@pytest.fixture(scope="module")
def outcome(program: Path, binary: Path) -> dict[str, str]:
    """Case -> "ok" or what was wrong."""
    done = run_program(program, program.parent / "cache", "all", str(binary))
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("name", CASES)
def test_case(outcome, name):
    assert outcome.get(name, "not reached") == "ok"


def test_without_python_files_are_loaded_and_nothing_is_compiled(program, binary, tmp_path):
    done = run_program(program, tmp_path, "run", str(binary), python="off")
    assert (done.returncode, done.stdout) == (0, "0 \n0 \n"), done.stdout
    refused = run_program(program, tmp_path, "compile", python="off")
    assert refused.stdout == ("576000 aclrtcCompileProg: MS_CUSTOM_OPS_PYTHON is off\nMS_CUSTOM_OPS_PYTHON is off\n"), (
        refused.stdout
    )


@pytest.mark.parametrize(
    ("delay", "said"),
    [("0", "at once\n0 0 \n"), ("1", "delayed\n0 507015 aclrtSynchronizeStream: add: argument 0 is 0x")],
    ids=["at_once", "delayed"],
)
def test_launches_wait_for_the_synchronisation(program, outcome, delay, said):
    done = run_program(program, program.parent / "cache", "delay", MS_CUSTOM_OPS_ACL_DELAY=delay)
    assert done.returncode == 0 and done.stdout.startswith(said), done.stdout


def test_a_missing_barrier_is_found_in_the_checked_mode(program, binary, tmp_path):
    words = ["ascendc", "build", str(binary.with_name("add.cpp")), "--entry", "add", "-D", "HASTY"]
    made = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "hasty.o")])
    assert made.exit_code == 0, made.output
    found = run_program(program, tmp_path, "run", str(tmp_path / "hasty.o"), MS_CUSTOM_OPS_CHECK="1")
    assert found.returncode == 0 and "\n507015 add: " in found.stdout and "add.cpp:" in found.stdout, found.stdout
    clean = run_program(program, tmp_path, "run", str(binary), MS_CUSTOM_OPS_CHECK="1")
    assert clean.stdout == "0 \n0 \n", clean.stdout


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("MS_CUSTOM_OPS_NUM_THREADS", "many", "MS_CUSTOM_OPS_NUM_THREADS is many; accepted: an integer"),
        ("MS_CUSTOM_OPS_TIME_LIMIT", "-1", "MS_CUSTOM_OPS_TIME_LIMIT is -1; accepted: a number of seconds"),
    ],
)
def test_a_wrong_environment_is_named(program, binary, tmp_path, variable, value, text):
    done = run_program(program, tmp_path, "load", str(binary), **{variable: value})
    assert done.stdout.startswith("107000 ") and text in done.stdout, done.stdout


def forged(body: bytes, version: int = VERSION, abi: int = ABI) -> bytes:
    """A header that fits a body."""
    return MAGIC + struct.pack("<IIQ", version, abi, len(body)) + hashlib.sha256(body).digest() + body


def body(kernels: int = 1, name: bytes = b"add", libraries: int = 1, code: bytes = b"", size: int | None = None,
         scope: int = 0, end: bytes = b"") -> bytes:  # fmt: skip
    """What follows a header."""
    chip = struct.pack("<iiiI8q", 0, 1, 2201, kernels, *[scope] * 8)
    told = len(code) if size is None else size
    kernel = struct.pack("<I", len(name)) + name + struct.pack("<I", libraries) + struct.pack("<Q", told) + code
    return chip + kernel + end


FORGED = {
    "version": (forged(body(), version=2), f"a binary of version 2.{ABI}; accepted: {VERSION}.{ABI}"),
    "abi": (forged(body(), abi=99), f"a binary of version {VERSION}.99"),
    "empty": (forged(b""), "ends early"),
    "no_kernels": (forged(body(kernels=0)), "a binary of 0 kernels"),
    "many_kernels": (forged(body(kernels=(1 << 32) - 1)), "a binary of 4294967295 kernels"),
    "no_name": (forged(body(name=b"")), "a kernel whose name has 0 bytes"),
    "long_name": (forged(body(name=b"a" * 1025)), "a kernel whose name has 1025 bytes"),
    "no_libraries": (forged(body(libraries=0)), "a kernel of 0 libraries"),
    "three_libraries": (forged(body(libraries=3)), "a kernel of 3 libraries"),
    "code_behind_the_end": (forged(body(size=(1 << 64) - 1)), "ends early"),
    "no_code": (forged(body()), "the kernel's library cannot be loaded"),
    "no_library": (forged(body(code=b"text")), "the kernel's library cannot be loaded"),
    "impossible_memory": (forged(body(scope=-1)), "a chip with impossible memories"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_files(program, tmp_path, name):
    content, text = FORGED[name]
    (tmp_path / "forged.o").write_bytes(content)
    done = run_program(program, tmp_path, "load", str(tmp_path / "forged.o"), python="off")
    assert done.returncode == 0 and done.stdout.startswith("100003 aclrtBinaryLoadFromFile: "), done.stdout
    assert text in done.stdout, done.stdout


def test_a_library_without_a_kernel(program, tmp_path):
    (tmp_path / "plain.cpp").write_text('extern "C" int nothing() { return 0; }\n')
    words = ["g++", "-shared", "-fPIC", str(tmp_path / "plain.cpp"), "-o", str(tmp_path / "plain.so")]
    subprocess.run(words, check=True)
    for code, text in (
        (body(code=(tmp_path / "plain.so").read_bytes()), "add was built by another version"),
        (body(code=b"x", end=b"behind"), "cannot be loaded"),
    ):
        (tmp_path / "plain.o").write_bytes(forged(code))
        done = run_program(program, tmp_path, "load", str(tmp_path / "plain.o"), python="off")
        assert done.stdout.startswith("100003 ") and text in done.stdout, done.stdout


def test_bytes_behind_the_last_kernel(program, binary, tmp_path):
    (tmp_path / "longer.o").write_bytes(forged(binary.read_bytes()[len(forged(b"")) :] + b"behind"))
    done = run_program(program, tmp_path, "load", str(tmp_path / "longer.o"), python="off")
    assert done.stdout.startswith("100003 ") and "6 bytes behind its end" in done.stdout, done.stdout


def test_the_example_runs_at_once_delayed_and_checked(tmp_path):
    need_library()
    source = HERE.parents[1] / "examples" / "aclnn_cpp" / "kernel_at_run_time.cpp"
    compile_program(source, tmp_path / "program")
    for variables in ({}, {"MS_CUSTOM_OPS_ACL_DELAY": "1"}, {"MS_CUSTOM_OPS_CHECK": "1"}):
        done = run_program(tmp_path / "program", tmp_path / "cache", **variables)
        assert done.returncode == 0 and done.stdout.endswith("all good\n"), done.stdout + done.stderr


def test_templates_alone_need_a_name(tmp_path):
    (tmp_path / "times.cpp").write_text(text_of("kTemplate"))
    words = ["ascendc", "build", str(tmp_path / "times.cpp"), "--out", str(tmp_path / "times.o")]
    done = subprocess.run([sys.executable, "-m", "ms_custom_ops", *words], capture_output=True, text=True)
    assert done.returncode == 1 and "none of the templates ['times']" in done.stderr, done.stderr
    assert not (tmp_path / "times.o").exists()
