# SPDX-License-Identifier: Apache-2.0
"""The command line: its verbs, exit codes, JSON, and what new, compile, cache and doctor do."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ms_custom_ops
import ms_custom_ops.batch.compile as batch
from ms_custom_ops import compiler
from ms_custom_ops.batch import ledger, plans
from ms_custom_ops.batch.plans import requests_of
from ms_custom_ops.cache import ProgramCache, entries
from ms_custom_ops.cli import main
from ms_custom_ops.commands.compile import by_reason
from ms_custom_ops.commands.new import KINDS, rendered
from ms_custom_ops.errors import MsCustomOpsError
from ms_custom_ops.registry import get_op

VERBS = tuple(sorted(main.list_commands(None)))


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_python_m_and_version():
    done = subprocess.run([sys.executable, "-m", "ms_custom_ops", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == f"ms-custom-ops, version {ms_custom_ops.__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_has_an_example(verb):
    result = command(verb, "--help")
    assert result.exit_code == 0 and "Example" in result.output
    assert f"  ms-custom-ops {verb}" in result.output.split("Example")[1]


def test_help_lists_verbs_and_exit_codes():
    output = " ".join(command("--help").output.split())
    assert all(f" {verb} " in output for verb in VERBS)
    assert "0 all good; 1 something was found wrong" in output and "bash_source" in output


def test_a_verb_that_is_none():
    result = command("tset")
    assert result.exit_code == 2 and "no verb 'tset'; accepted: " in result.output and "nearest: test" in result.output


def test_json_of_list_info_and_check():
    rows = json.loads(command("list", "--json").output)
    (row,) = [row for row in rows if row["name"] == "flash_attention"]
    assert row["gradient"] == ["flash_attention_grad"] and row["chips"]["Ascend910A"] == ["F16"]
    assert "args" in json.loads(command("info", "flash_attention", "--json").output)
    assert json.loads(command("check", "segsum_decay", "--json").output) == []


def test_info_is_about_the_function_that_people_call():
    text = command("info", "flash_attention").output
    function, primitive = text.split("## The primitive FlashAttention")
    assert "query, key, value, attn_mask=None, real_shift=None" in function
    assert "| scale_value | float | | `None` |" in function and "bool uint8 float16" in function
    assert "`1 <= D <= 256`" in function and "D % 16" not in function
    assert "| scale_value | float |" in primitive and "`1.0`" in primitive


def test_new_refuses_names_and_files_that_are_there(write_op, tmp_path):
    assert command("new", "My-Op").exit_code == 2
    assert "op flash_attention is there already, in " in command("new", "flash_attention").output
    folder = tmp_path / "ops"
    (folder / "tiling").mkdir(parents=True)
    (folder / "tiling" / "thing.py").write_text("")
    result = CliRunner().invoke(main, ["--ops", str(folder), "new", "thing"])
    assert result.exit_code == 1 and "tiling/thing.py: there already; accepted: a name without files" in result.output


def test_new_in_the_repository_imports_absolutely(tmp_path, monkeypatch):
    (tmp_path / "ms_custom_ops" / "registry").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    result = command("new", "thing")
    assert result.exit_code == 0, result.output
    assert "from ms_custom_ops.tiling.thing import" in (tmp_path / "op_impl/thing/kernel.py").read_text()
    assert '"ms_custom_ops.op_impl.thing.kernel:thing"' in (tmp_path / "op_info/thing.yaml").read_text()
    assert "load_package" not in (tmp_path / "tests/ops/test_thing.py").read_text()
    assert (tmp_path / "op_impl/thing/__init__.py").is_file()


@pytest.mark.parametrize("inside", [True, False], ids=["repository", "folder"])
def test_what_new_writes_is_in_the_form_of_this_project(tmp_path, inside):
    pytest.importorskip("ruff")
    for kind in KINDS:
        for name, text in rendered(f"my_{kind}", kind, "tik", inside).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    config = Path(__file__).resolve().parents[2] / "pyproject.toml"
    for verb in (["check"], ["format", "--check"]):
        command_line = [sys.executable, "-m", "ruff", *verb, "--config", str(config), str(tmp_path)]
        done = subprocess.run(command_line, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def new_in_ascend_c(folder: Path, monkeypatch, template: str, *only: str) -> str:
    """What ``test`` says of an op and its gradient that ``new`` has just written into an empty folder."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder.mkdir()
    monkeypatch.chdir(folder)
    code = "import sys; from ms_custom_ops.cli import main; main(sys.argv[1:])"  # set_impl is of a process
    for arguments in (["new", "my_op", "--lang", "ascendc", "--template", template], ["check"],
                      ["test", "my_op", "my_op_grad", "--only", "ascendc", "--soc", "Ascend910B1", *only]):  # fmt: skip
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("template", ["matmul", "attention"])
def test_new_on_cube_and_vector_cores_in_ascend_c(write_op, tmp_path, monkeypatch, template):
    case = {"matmul": "blocks", "attention": "heads"}[template]
    said = new_in_ascend_c(tmp_path / "ops", monkeypatch, template, "--case", case)
    assert "2 case(s): 2 passed" in said


@pytest.mark.nightly
@pytest.mark.parametrize("template", KINDS)
def test_new_in_ascend_c_passes_as_it_is(write_op, tmp_path, monkeypatch, template):
    assert "8 case(s): 8 passed" in new_in_ascend_c(tmp_path / "ops", monkeypatch, template)


def test_ascend_c_is_asked_of_ops_that_have_it(folder):
    result = command("--ops", folder, "test", "my_op", "--only", "ascendc")
    assert (
        result.exit_code == 1
        and "my_op: there is no Ascend C kernel; accepted: ops with impl: ascendc" in result.output
    )


@pytest.fixture()
def folder(write_op) -> Path:
    return write_op("elementwise")


def test_compile_traces_once_and_writes_a_manifest(folder, tmp_path, monkeypatch):
    out = tmp_path / "programs"
    first = command("--ops", folder, "compile", "--out", out)
    assert first.exit_code == 0 and "32 Programs of 2 op(s), 32 traced" in first.output
    manifest = json.loads((out / "manifest.json").read_text())
    assert len(manifest["programs"]) == 32 and len(entries(out)) == 32
    assert manifest["programs"][0]["op"] == "my_op" and len(manifest["programs"][0]["sha256"]) == 64
    (out / ledger.LEDGER).unlink(missing_ok=True)
    monkeypatch.setattr(batch, "trace_item", None)  # nothing is traced
    second = command("--ops", folder, "compile", "--out", out)
    assert "32 Programs of 2 op(s), 0 traced" in second.output
    assert json.loads((out / "manifest.json").read_text()) == manifest


def test_compile_of_what_is_as_it_was_looks_at_files_alone(folder, tmp_path):
    """In processes of their own: neither NumPy, nor the registry, nor MindSpore is loaded the second time."""
    out, calls = tmp_path / "programs", tmp_path / "calls"
    calls.write_bytes(b"")
    past = time.time() - 60  # files that a chip's author wrote a while ago
    for path in [*folder.rglob("*"), folder, calls]:
        os.utime(path, (past, past))
    time.sleep(0.1)  # their ctime is now
    loaded = "print(sorted({m.partition('.')[0] for m in sys.modules} & {'numpy', 'mindspore', 'yaml', 'tqdm'}))"
    run = "from ms_custom_ops.cli import main\nmain(sys.argv[1:])"
    code = f"import atexit, sys; atexit.register(lambda: {loaded})\n{run}"
    arguments = ["--ops", str(folder), "compile", "--out", str(out), "--calls", str(calls)]

    def said(*more: str) -> str:
        done = subprocess.run([sys.executable, "-c", code, *arguments, *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first, second = said(), said()
    assert "32 traced" in first and "'numpy'" in first
    assert "32 Programs of 2 op(s), 0 traced, 0 calls from C, 0 new" in second and second.endswith("\n[]\n")
    assert json.loads(said("--json").replace("\n[]\n", "\n")) == json.loads((out / "manifest.json").read_text())
    entries(out)[0].path.unlink()
    assert "32 Programs of 2 op(s), 1 traced" in said() and said().endswith("\n[]\n")
    kernel = folder / "op_impl" / "my_op" / "kernel.py"
    kernel.write_text(kernel.read_text() + "# another text\n")
    assert "32 traced" in said()
    assert "4 Programs of 1 op(s), 0 traced" in said("my_op", "--soc", "Ascend910B1")


@pytest.mark.parametrize("text", ["", "[]", '{"asked": 1}', "\udcff", '{"asked": "Q", "trees": 3}', "[" * 10_000])
def test_a_damaged_ledger_is_none(tmp_path, text):
    (tmp_path / ledger.LEDGER).write_text(text.replace("Q", "question"), errors="surrogateescape")
    assert ledger.find(tmp_path, "question") is None


def test_a_ledger_ends_with_what_it_stands_for(tmp_path):
    source, made, tree = tmp_path / "kernel.py", tmp_path / "a.mcop", tmp_path / "tree"
    tree.mkdir()
    inputs = ledger.Inputs({str(tree)}, {str(source), str(tmp_path / "absent")})

    def kept() -> bool:
        source.write_text("first")
        made.write_text("program")
        time.sleep(0.1)
        ledger.write(tmp_path, "question", inputs, ["a.mcop"], {"programs": 1}, time.time_ns())
        return ledger.find(tmp_path, "question") == {"programs": 1}

    assert kept() and ledger.find(tmp_path, "another") is None
    for change in (
        lambda: source.write_text("other"),
        lambda: (tmp_path / "absent").write_text(""),
        lambda: (tree / "new.py").write_text(""),
        lambda: made.write_text("cut"),
        made.unlink,
    ):
        change()
        assert ledger.find(tmp_path, "question") is None
        assert kept()
    ledger.write(tmp_path, "question", inputs, ["a.mcop"], {}, source.stat().st_mtime_ns)  # edited while it was made
    assert ledger.find(tmp_path, "question") is None


def test_compile_in_processes_gives_the_same_manifest(folder, tmp_path):
    for jobs, out in (("1", tmp_path / "one"), ("2", tmp_path / "two")):
        assert command("--ops", folder, "compile", "my_op", "-j", jobs, "--out", out).exit_code == 0
    assert (tmp_path / "one" / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()


@pytest.mark.nightly
def test_compile_on_a_dask_cluster_gives_the_same_manifest(folder, tmp_path):
    distributed = pytest.importorskip("distributed")
    assert command("--ops", folder, "compile", "my_op", "--out", tmp_path / "one").exit_code == 0
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        result = command("--ops", folder, "compile", "my_op", "--scheduler", address, "--out", tmp_path / "two")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "one" / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()


def test_compile_names_the_case_that_fails_and_compiles_the_others(folder, tmp_path):
    path = folder / "tiling/my_op.py"
    path.write_text(path.read_text().replace("    require(", "    assert problem.width < 9999\n    require("))
    result = command("--ops", folder, "compile", "my_op", "--soc", "Ascend910B1", "--out", tmp_path / "out")
    assert result.exit_code == 1 and "Traceback" not in result.output
    assert "my_op/longest/Ascend910B1: plan: AssertionError: assert problem.width < 9999" in result.output
    assert "3 Programs of 1 op(s), 3 traced" in result.output and "1 case(s) could not be compiled" in result.output


def test_a_case_that_the_published_interface_refuses_stands_for_no_call_from_c():
    named = {case.name for case in get_op("sparse_flash_attention_grad").cases}
    without = {}
    for case in sorted(named):
        try:
            assert requests_of(batch.Item("sparse_flash_attention_grad", case, "Ascend310P3"))
        except MsCustomOpsError as error:
            without[case] = str(error)
    assert set(without) < named
    assert "only support n2=1 and n1=1,2,4,8,16,32,64,128, but got n2=1 n1=15" in without["merged"]
    assert "head_dim of Query[32] can not less than head_dim of Value[48]" in without["lengths_and_sinks"]
    assert "make its plan with --calls" in without["packed_rope"]


def test_cases_without_a_call_are_told_by_reason():
    items = [batch.Item("op", case, soc) for soc in ("Ascend910A", "Ascend910B1") for case in ("one", "two")]
    assert by_reason({item: "why" if item.case == "one" else "because" for item in items}) == {
        "why": ["op/one"], "because": ["op/two"],
    }  # fmt: skip


def test_plans_that_are_there_are_not_made_again_until_a_file_changes(tmp_path, monkeypatch):
    source = tmp_path / "kernel.py"
    source.write_text("first")
    calls = [f'{{"aclnn":1,"op":"aclnn_segsum_decay","soc":"Ascend910A"}}|={n}' for n in range(3)]

    def made(request):
        files = f"{hashlib.sha256(source.read_bytes()).hexdigest()} {source}"
        return ("aclnn_segsum_decay", request, f"plan 1\nfiles {len(files)}\n{files}\nend\n".encode(), "", "", b""), ""

    monkeypatch.setattr(plans, "make_item", made)
    cache = ProgramCache(tmp_path / "cache")
    assert plans.make_plans([], calls, cache).new == 3
    again = plans.make_plans([], calls, cache)
    assert (again.made, again.new) == (3, 0)
    source.write_text("second")
    assert plans.make_plans([], calls, cache).new == 3


def test_a_plan_takes_the_program_that_is_there(tmp_path, monkeypatch):
    """A Program names the files that it was traced from: that of another checkout, out of the user's cache, has the
    same key and other bytes, and the manifest knows the first ones."""
    call = '{"aclnn":1,"op":"aclnn_segsum_decay","soc":"Ascend910A"}|=1'
    made = ("aclnn_segsum_decay", call, b"plan 1\nend\n", "segsum_decay", "key", b"of another checkout")
    monkeypatch.setattr(plans, "make_item", lambda request: (made, ""))
    cache = ProgramCache(tmp_path / "cache")
    cache.put("segsum_decay", "key", b"of this one")
    found = plans.make_plans([], [call], cache)
    assert (
        found.new == 1 and len(found.names) == 2 and found.names == {each.path.name for each in entries(cache.folder)}
    )
    assert cache.get("segsum_decay", "key") == b"of this one"


def test_compile_refuses_a_place_or_a_name_before_it_works(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "compile_items", None)
    for arguments, said in (
        (
            ["--out", "/proc/nope"],
            "/proc/nope: No such file or directory; accepted: a place that can be read, or written",
        ),
        (
            ["--out", tmp_path / "o", "--target", "tbe", "--vendor", "A b"],
            "compile: --vendor is 'A b'; accepted: small",
        ),
    ):
        result = command("--ops", folder, "compile", "my_op", *arguments)
        assert isinstance(result.exception, SystemExit) and said in result.output


@pytest.mark.parametrize(
    "arguments",
    [["doc", "segsum_decay", "--out", "/proc/nope"], ["bench", "segsum_decay", "--history", "/proc/nope/x"]],
    ids=["doc", "bench"],
)
def test_a_place_that_takes_no_file_is_one_line(arguments):
    result = command(*arguments)
    assert isinstance(result.exception, SystemExit), result.exception  # else a traceback on the command line
    assert result.exit_code in (1, 2) and "/proc/nope" in result.output


def test_vendor_package_of_tik_kernels(folder, tmp_path):
    out = tmp_path / "build"
    result = command("--ops", folder, "compile", "my_op", "--target", "tbe", "--vendor", "mine", "--out", out)
    assert result.exit_code == 3 and "not run: binaries of the kernels" in result.output, result.output
    tbe = out / "vendors" / "mine" / "op_impl" / "ai_core" / "tbe"
    info = json.loads((tbe / "config" / "ascend910b" / "aic-ascend910b-ops-info.json").read_text())["MyOp"]
    assert info["input0"] == {"name": "x", "dtype": "float16,float", "format": "ND,ND", "shape": "all",
                              "paramType": "required"}  # fmt: skip
    assert info["attr_factor"]["defaultValue"] == "2.0" and info["opFile"] == {"value": "my_op"}
    result = command("install", out, "--path", tmp_path / "opp")
    assert result.exit_code == 0 and (tmp_path / "opp/vendors/config.ini").read_text() == "load_priority=mine\n"
    kernel = tmp_path / "opp/vendors/mine/op_impl/ai_core/tbe/mine_impl/my_op.py"
    code = (
        "import sys, ms_custom_ops as mco\n"
        "from ms_custom_ops.compat import load_kernel\n"
        "from ms_custom_ops.registry import load_package\n"
        f"load_package({str(folder)!r})\n"
        f"entry = load_kernel({str(kernel)!r}).my_op\n"
        "t = {'shape': (3, 32), 'dtype': 'float16'}\n"
        "theirs = mco.trace(entry, t, t, 0.5, soc='Ascend910B1', kernel_name='my_op')\n"
        "ours = mco.compile_op('my_op', [(3, 32)], ['float16'], {'factor': 0.5}, 'Ascend910B1').program\n"
        "body = [[s for s in p.text().splitlines() if not s.startswith('file ')] for p in (theirs, ours)]\n"
        "print(body[0] == body[1] and len(body[0]) > 20, 'mine_kernels.op_impl.common.kernel' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "True True\n", done.stderr


def test_cache_verbs(folder, program_folder):
    assert command("--ops", folder, "compile", "my_op", "--soc", "Ascend910B1").exit_code == 0
    about = json.loads(command("cache", "size", "--json").output)
    assert about["folder"] == str(program_folder) and about["programs"] >= 4
    assert "my_op" in command("cache", "list", "my_op").output
    assert "all good" in command("cache", "verify").output
    victim = next(entry.path for entry in entries(program_folder) if entry.op == "my_op")
    victim.write_bytes(victim.read_bytes()[:-1] + b"\0\0")
    result = command("cache", "verify")
    assert result.exit_code == 1 and str(victim) in result.output
    assert "4 Programs deleted" in command("cache", "clear", "my_op", "--yes").output
    assert "Programs deleted; to keep this limit" in command("cache", "limit", "1").output


@pytest.mark.parametrize("verb", [["list"], ["clear", "--yes"]], ids=["list", "clear"])
def test_cache_knows_its_ops(verb, program_folder):
    result = command("cache", *verb, "flash_atention")
    assert result.exit_code == 1
    assert "cache: OP is 'flash_atention'; accepted: nearest known: 'flash_attention'" in result.output
    assert command("cache", *verb, "segsum_decay").exit_code == 0


def test_a_source_without_a_kernel_says_so(tmp_path):
    source = tmp_path / "b.cpp"
    source.write_text("int main() {}\n")
    result = command("profile", source)
    assert isinstance(result.exception, SystemExit)
    assert f"entry is none in {source}; accepted: a __global__ __aicore__ function, or its name" in result.output


def test_programs_in_memory_are_bounded(monkeypatch):
    memory = compiler._Memory()
    monkeypatch.setattr(compiler, "MEMORY_BYTES", 100)
    for index in range(5):
        memory.put(str(index), compiler.CompiledOp("op", str(index), bytes(40), None, (), ()))
    assert len(memory) == 2 and memory.get("0") is None and memory.get("4") is not None


def test_doctor_says_what_is_here():
    result = command("doctor")
    assert result.exit_code in (0, 1) and "Traceback" not in result.output
    lines = {line.split()[1]: line for line in result.output.splitlines()}
    assert {"Python", "NumPy", "engine", "cache", "chips", "CANN", "ops"} <= set(lines)
    assert lines["engine"].startswith("good") and "SIMD" in lines["engine"]
    assert {line["state"] for line in json.loads(command("doctor", "--json").output)} <= {"good", "note", "bad"}


def test_doctor_names_another_package_of_this_name(tmp_path, monkeypatch):
    (tmp_path / "ms_custom_ops").mkdir()
    (tmp_path / "ms_custom_ops" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    result = command("doctor")
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.startswith("bad   clash")]
    assert str(tmp_path / "ms_custom_ops") in line and "one virtual environment for each" in line


def test_bench_times_every_case_and_keeps_a_history(folder, tmp_path):
    history = tmp_path / "history.jsonl"
    result = command("--ops", folder, "bench", "my_op", "--repeats", "2", "--json", "--history", history)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output)["figures"]
    assert [row["case"] for row in figures] == ["one_block", "rows", "rows_f32", "longest"]
    assert all(row["by"] == "engine" and 0 < row["min_ms"] <= row["median_ms"] for row in figures)
    assert [json.loads(line)["case"] for line in history.read_text().splitlines()] == [row["case"] for row in figures]


def test_bench_beside_the_composition(tmp_path, monkeypatch):
    pytest.importorskip("mindspore")
    monkeypatch.chdir(tmp_path)
    result = command("bench", "flash_attention", "--case", "one_token", "--repeats", "1", "--json")
    figures = json.loads(result.output)["figures"]
    assert [row["by"] for row in figures] == ["engine", "mindspore: op", "mindspore: composition"]


def test_doc_writes_a_page_per_op(folder, tmp_path):
    result = command("--ops", folder, "doc", "my_op", "--out", tmp_path / "pages")
    assert result.exit_code == 0
    text = (tmp_path / "pages" / "my_op.md").read_text()
    assert "| one_block | F16 | M=1 N=16 |" in text and "| float16 | 0.00195 |" in text
    assert not (tmp_path / "pages" / "index.md").exists()
