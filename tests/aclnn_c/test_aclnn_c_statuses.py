# SPDX-License-Identifier: Apache-2.0
"""Every status and refusal from C: one program with many cases, compiled once."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import compile_program, need_library, run_program

from ms_custom_ops.cache import Entry, ProgramCache, entries
from ms_custom_ops.engine.native import library_path

HERE = Path(__file__).resolve().parent
SOURCES = ("statuses.cc", "memory_and_executors.cc", "runtime.cc")
CASES = [name for source in SOURCES for name in re.findall(r"^CASE\((\w+)\)", (HERE / source).read_text(), re.M)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the cases; beside it the cache of its runs."""
    need_library()
    folder = tmp_path_factory.mktemp("aclnn_c")
    whole = folder / "all.cc"
    whole.write_text("".join(f'#include "{HERE / source}"\n' for source in SOURCES))
    compile_program(whole, folder / "cases", f"-I{HERE}")
    return folder / "cases"


@pytest.fixture(scope="module")
def outcome(program) -> dict[str, str]:
    """Case -> "ok" or what was wrong; "" -> the last line."""
    done = run_program(program, program.parent / "cache")
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    assert not done.stderr, done.stderr
    return {"": last, **dict(line.split(": ", 1) for line in lines if ": " in line)}


@pytest.fixture()
def cache(program, outcome, tmp_path) -> Path:
    """A copy of the cache after all cases."""
    shutil.copytree(program.parent / "cache", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.mark.parametrize("name", CASES)
def test_case(outcome, name):
    assert outcome.get(name, "not reached") == "ok"


def test_the_library_is_finalized_once(outcome):
    assert outcome[""] == "done"


def test_calls_in_the_wrong_order(program):
    done = run_program(program, program.parent / "cache", "wrong_order")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout


FREED = "507015 aclrtSynchronizeStream: 361001 (runtime): SparseFlashAttentionGrad: memory of key"


@pytest.mark.parametrize(
    ("delay", "said"),
    [("0", "at once\nwaited\n0 0 \nnot poisoned\n"), ("1", f"delayed\nwaited\n0 {FREED}\npoisoned\n")],
    ids=["at_once", "delayed"],
)
def test_a_missing_synchronisation_shows(program, outcome, delay, said):
    done = run_program(program, program.parent / "cache", "delay", MS_CUSTOM_OPS_ACL_DELAY=delay)
    assert (done.returncode, done.stdout) == (0, said), done.stdout


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("MS_CUSTOM_OPS_SOC", "Ascend9000", "soc is 'Ascend9000'"),
        ("MS_CUSTOM_OPS_SOC", 'x"y', "MS_CUSTOM_OPS_SOC is x"),
        ("MS_CUSTOM_OPS_NUM_THREADS", "many", "MS_CUSTOM_OPS_NUM_THREADS is many; accepted: an integer"),
        ("MS_CUSTOM_OPS_TIME_LIMIT", "-1", "MS_CUSTOM_OPS_TIME_LIMIT is -1; accepted: a number of seconds"),
        ("MS_CUSTOM_OPS_PYTHON", "/no/such/python", "/no/such/python cannot be started"),
        ("MS_CUSTOM_OPS_PYTHON", "/bin/false", "ended without an answer"),
    ],
)
def test_a_wrong_environment_is_named(program, tmp_path, variable, value, text):
    keywords = {"python": value} if variable == "MS_CUSTOM_OPS_PYTHON" else {variable: value}
    done = run_program(program, tmp_path, "time", **keywords)
    assert done.returncode == 1 and text in done.stdout, done.stdout


def _plan_of_the_timed_call(cache: Path) -> Entry:
    (entry,) = (e for e in entries(cache) if e.op == "aclnn_dacs_segsum" and "float32[1,2,64]" in e.key)
    return entry


def test_a_damaged_plan_is_no_plan(program, cache):
    assert run_program(program, cache, "time", python="off").returncode == 0
    path = _plan_of_the_timed_call(cache).path
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    refused = run_program(program, cache, "time", python="off")
    assert refused.returncode == 1 and "the SHA-256 does not match" in refused.stdout


def test_a_plan_of_other_sources_is_made_again(program, cache):
    entry = _plan_of_the_timed_call(cache)
    programs = ProgramCache(cache)
    text = programs.get(entry.op, entry.key)
    assert text is not None
    line = next(line for line in text.split(b"\n") if line.endswith(b"/compiler.py"))
    programs.put(entry.op, entry.key, text.replace(line, b"0" * 64 + line[64:]))
    refused = run_program(program, cache, "time", python="off")
    assert refused.returncode == 1 and "compiler.py has changed" in refused.stdout
    assert run_program(program, cache, "time").returncode == 0
    assert run_program(program, cache, "time", python="off").returncode == 0


LAUNCH = "launch 1 0 1 0 1 2201" + " 0" * 8 + " 0 "  # up to the counts of tensors


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plan 1",
        "plan 2\nstatus 0 0\n\nend\n",
        "plan 1\nstatus 0 0\n\ninput p0 float32 99",
        "plan 1\nstatus 0 0\n\ntrapezoid p0 p1 1 c0 8 8\nend\n",  # no constant
        "plan 1\nstatus 0 0\n\ninput m0 float32 0 0\nend\n",  # no weights
        f"plan 1\nstatus 0 0\n\n{LAUNCH}1 1 1 2 -1 0\n 1 1\n/\nend\n",  # a slot behind the tensors
        f"plan 1\nstatus 0 0\n\n{LAUNCH}1 1 0 1 0\n 1 1\n/\nend\n",  # a copy of no input
        f"plan 1\nstatus 0 0\n\n{LAUNCH}1 1 0 -1 2\nxy 1 1\n/\nend\n",  # tiling data that are no hex
        f"plan 1\nstatus 0 0\n\n{LAUNCH}1 1 0 -1 0\n 1 1\n/\nend\n",  # a launch without its tensors
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_read_is_refused(program, cache, text):
    entry = _plan_of_the_timed_call(cache)
    ProgramCache(cache).put(entry.op, entry.key, text.encode())
    refused = run_program(program, cache, "time", python="off")
    assert refused.returncode == 1
    assert ("a plan that cannot be read" in refused.stdout) == bool(text), refused.stdout


@pytest.mark.nightly
def test_kernels_are_made_ahead_with_the_command_of_the_error(program, tmp_path):
    refused = run_program(program, tmp_path, "time", python="off")
    command = re.search(r"ms-custom-ops (aclnn --plan '.*')", refused.stdout)
    assert command is not None, refused.stdout
    environ = {**os.environ, "MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-m", "ms_custom_ops", *shlex.split(command[1])]
    made = subprocess.run(words, env=environ, capture_output=True, text=True)
    assert made.returncode == 0 and made.stdout.startswith("aclnn_dacs_segsum: "), made.stderr
    assert run_program(program, tmp_path, "time", python="off").returncode == 0


@pytest.mark.nightly
def test_without_a_cache_folder_python_makes_kernels_in_each_process(program, tmp_path):
    done = run_program(program, Path("off"), "time")
    assert done.returncode == 0 and "copied 0" in done.stdout, done.stdout


@pytest.mark.nightly
def test_a_call_costs_little_beside_its_program(program, outcome):
    """20 us are the limit; a machine under load takes longer, the least of many rounds counts."""
    folder = program.parent / "cache"
    (file,) = (e.path for e in entries(folder) if e.op == "dacs_segsum" and "float32[1,2,64]" in e.key)
    done = run_program(program, folder, "time", str(library_path()), str(file))
    assert done.returncode == 0, done.stdout
    found = dict(line.split() for line in done.stdout.splitlines())
    assert float(found["call"]) - float(found["program"]) < 20e-6, done.stdout
