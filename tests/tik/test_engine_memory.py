# SPDX-License-Identifier: Apache-2.0
"""Whatever a Program says, the native engine touches only its tensors, and a damaged Program is refused."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from engine_cases import need_engine
from programs import Builder, ref
from random_programs import random_program
from test_fuzz import missing as fuzzer_missing

from ms_custom_ops.engine import native as engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir, limits
from ms_custom_ops.program.codec import VERSION
from ms_custom_ops.program.expr import binary, const, var

need_engine()

ROOT = Path(__file__).resolve().parents[2]
BIG = (1 << 62) + 12345
# Where clang has libFuzzer, test_fuzz.py runs more damaged programs on an engine with the same sanitizers.
AFTER_FUZZING = (lambda test: test) if fuzzer_missing() else pytest.mark.nightly
FAR = [-1, -17, 127, 128, 200, 1 << 31, BIG, -BIG]


def ub_pair(count: int = 128) -> tuple[Builder, ir.Buffer, ir.Buffer]:
    b = Builder()
    return b, b.local("u", "ub", "float16", count), b.local("v", "ub", "float16", count)


def fails(b: Builder, *parts: str) -> None:
    """The run fails, the text holds the parts and ends with the location of the last statement."""
    with pytest.raises(EngineError) as error:
        engine.run(b.program, [np.zeros(b.program.buffers[i].shape, np.float16) for i in b.program.inputs])
    text = str(error.value)
    for part in parts:
        assert part in text
    assert re.search(r"\[kernel.py:\d+\]$", text), text


@pytest.mark.parametrize("offset", FAR)
def test_vector_beyond_its_tensor(offset):
    b, u, v = ub_pair()
    b.instr("vadds", [ref(u, offset), ref(v)], mask0=128, repeat=1, scalar=const(1.0), dst_blk=32, src_blk=32)
    first = max(min(2 * offset, (1 << 63) - 1), -(1 << 63))
    fails(b, f"vadds: dst needs bytes [{first},", "of u, it has 256")


@pytest.mark.parametrize("argument", ["dst_rep", "src_rep", "dst_blk", "src_blk", "repeat"])
@pytest.mark.parametrize("value", [1 << 20, 1 << 40, (1 << 63) - 1])
def test_vector_with_huge_strides_and_counts(argument, value):
    b, u, v = ub_pair()
    args = {"mask0": 128, "repeat": 2, "dst_blk": 32, "src_blk": 32, "dst_rep": 0, "src_rep": 0}
    if argument == "repeat":
        args["dst_rep"] = 32
    b.instr("vabs", [ref(u), ref(v)], **{**args, argument: value})
    fails(b, "vabs: ", "needs bytes [", "it has 256")


@pytest.mark.parametrize("argument", ["dst_rep", "src_rep", "dst_blk", "src_blk", "repeat"])
def test_negative_strides_and_counts_are_refused(argument):
    b, u, v = ub_pair()
    args = {"mask0": 128, "repeat": 1, "dst_blk": 32, "src_blk": 32, argument: -32}
    b.instr("vabs", [ref(u), ref(v)], **args)
    fails(b, f"vabs: {argument} is -32; accepted: 0 or more")


MOVES = [
    dict(nburst=1 << 40, burst=32),
    dict(nburst=2, burst=1 << 62),
    dict(nburst=3, burst=32, src_gap=1 << 62),
    dict(nburst=3, burst=32, dst_gap=1 << 20),
    dict(nburst=1, burst=257),
    dict(nburst=9, burst=32),
]


@pytest.mark.parametrize("args", MOVES, ids=lambda a: "-".join(f"{k}{v}" for k, v in a.items()))
def test_move_beyond_its_tensor(args):
    b, u, v = ub_pair()
    b.instr("data_move", [ref(u), ref(v)], **args)
    fails(b, "data_move: ", "needs bytes [0, ", "it has 256")


def test_gm_is_checked_against_what_is_fed():
    b, u, _ = ub_pair()
    x = b.gm("x", "float16", 127, "input")
    b.instr("data_move", [ref(u), ref(x, 17)], nburst=1, burst=256)
    fails(b, "data_move: src needs bytes [34, 290) of x, it has 254")


@pytest.mark.parametrize(
    "op, args",
    [
        ("nd2nz", dict(nd_num=2, nd_n=1 << 50, nd_d=16, src_n_stride=1 << 50)),
        ("load2d", dict(index=BIG, repeat=1)),
        ("load2d", dict(repeat=BIG, src_stride=BIG, dst_gap=BIG)),
    ],
)
def test_fractal_moves_with_huge_counts(op, args):
    b = Builder()
    a, c = b.local("a", "l1", "float16", 256), b.local("c", "l1", "float16", 256)
    b.instr(op, [ref(c), ref(a)], **args)
    fails(b, f"{op}: ", "needs bytes [")


@pytest.mark.parametrize(
    "size", [(1 << 31, 16, 16), (16, 1 << 31, 16), (16, 16, 1 << 31), (1 << 31,) * 3, (32, 16, 16)]
)
def test_cube_beyond_its_tensors(size):
    b = Builder()
    c, a, w = (b.local(n, n, d, 256) for n, d in (("l0c", "float32"), ("l0a", "float16"), ("l0b", "float16")))
    b.instr("mmad", [ref(c), ref(a), ref(w)], **dict(zip("mkn", size, strict=True)))
    fails(b, "mmad: ", "needs bytes [")


def test_offsets_known_only_at_run_time_are_checked():
    b, u, v = ub_pair()
    i = b.register("i", "int32", "loop")
    outer, b.body = b.body, []
    b.instr("vabs", [ref(u, binary("*", var(i, "int32"), 16)), ref(v)], mask0=16, repeat=1, dst_blk=32, src_blk=32)
    outer.append(ir.For(i, 0, 9, b.body, False, 1, b.loc()))
    with pytest.raises(EngineError, match=r"vabs: dst needs bytes \[256, 288\) of u, it has 256"):
        engine.run(b.program, [])


def test_local_tensor_outside_its_scope():
    b, u, _ = ub_pair()
    u.address = 65536 - 255
    with pytest.raises(EngineError, match=r"probe: u lies in bytes \[65281, 65537\) of ub, it has 65536"):
        engine.run(b.program, [])


def test_vector_operand_in_gm_is_refused():
    b, u, _ = ub_pair()
    x = b.gm("x", "float16", 128, "input")
    b.instr("vabs", [ref(u), ref(x)], mask0=128, repeat=1)
    fails(b, "vabs: scope of src is gm; accepted: ub")


def _nested(depth: int) -> Builder:
    b = Builder()
    b.gm("z", "int32", 1, "output")
    for _ in range(depth):
        b.body.append(ir.If(var(b.register("c", "int32"), "int32"), [], [], b.loc()))
        b.body = b.body[-1].then
    return b


def test_nesting_has_a_limit(monkeypatch):
    with pytest.raises(EngineError, match="statements nest deeper than 100"):
        engine.load(_nested(101).program.to_bytes())
    engine.load(_nested(100).program.to_bytes())
    monkeypatch.setattr(limits, "NESTING", 1000)  # so that the bytes are written
    raw = _nested(101).program.to_bytes()
    with pytest.raises(EngineError, match="program bytes: statements nest deeper than 100"):
        engine.load(raw)


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda raw: b"", "no MCOP header"),
        (lambda raw: b"MCOP", "no MCOP header"),
        (lambda raw: b"ELF!" + raw[4:], "no MCOP header"),
        (lambda raw: raw[:4] + struct.pack("<I", 99) + raw[8:], "version 99; this release reads version 3"),
        (lambda raw: raw[:-1], "truncated or corrupt"),
        (lambda raw: raw + b"\0", "truncated or corrupt"),
        (lambda raw: raw[:40] + bytes([raw[40] ^ 1]) + raw[41:], "truncated or corrupt"),
    ],
    ids=["empty", "short", "magic", "version", "cut", "longer", "flipped"],
)
def test_bytes_that_are_no_program(change, text):
    with pytest.raises(EngineError, match=re.escape(text)):
        engine.load(change(random_program(1, 5).to_bytes()))


def _sealed(payload: bytes) -> bytes:
    return struct.pack("<4sIQII", b"MCOP", VERSION, len(payload), zlib.crc32(payload), 0) + payload


def test_damaged_programs_are_refused_or_loaded_but_never_crash():
    rng = np.random.default_rng(11)
    refused = 0
    for n in range(4000):
        if n % 200 == 0:
            payload = random_program(n, 12).to_bytes()[24:]
        damaged = bytearray(payload)
        if n % 5 == 0:
            del damaged[int(rng.integers(len(damaged))) :]
        for _ in range(int(rng.integers(1, 5))):
            if damaged:
                damaged[int(rng.integers(len(damaged)))] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
        try:
            engine.load(_sealed(bytes(damaged)))
        except EngineError:
            refused += 1
    assert refused > 1000


BOUNDS_CHECK = "if (start + lo < 0 || start + hi > view.size) {"


def _sanitized_run(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the driver of a checkout's csrc and scripts with sanitizers and run it on damaged programs."""
    driver = folder / "driver"
    built = subprocess.run(
        ["bash", str(source / "scripts" / "build_sanitized.sh"), str(driver)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPTIMIZE": "0"},  # the runs are short, compiling is not
    )
    assert built.returncode == 0, built.stderr[-3000:]
    files = []
    for seed in range(12):
        files.append(folder / f"{seed}.bin")
        files[-1].write_bytes(random_program(seed + 500, 6 + seed).to_bytes())
    return subprocess.run([str(driver), "3", "40", *map(str, files)], capture_output=True, text=True, cwd=folder)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing")
@AFTER_FUZZING
def test_sanitizers_find_nothing_in_damaged_programs(tmp_path):
    """Minutes of processor time to compile, on all cores side by side; see scripts/build_sanitized.sh."""
    ran = _sanitized_run(ROOT, tmp_path)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "Sanitizer" not in ran.stderr and "damaged programs: " in ran.stdout


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing")
def test_sanitizers_find_a_missing_bounds_check(tmp_path):
    """The test above can fail: without the check of Machine::locate the same run ends in an error."""
    copy = tmp_path / "copy"
    for name in ("csrc", "scripts", "ms_custom_ops/ascendc/include", "ms_custom_ops/ascendc/include_host"):
        shutil.copytree(ROOT / name, copy / name)
    machine = copy / "csrc" / "machine.cc"
    text = machine.read_text()
    assert text.count(BOUNDS_CHECK) == 1
    machine.write_text(text.replace(BOUNDS_CHECK, "if (false) {"))
    ran = _sanitized_run(copy, tmp_path)
    assert ran.returncode == 1 and "AddressSanitizer" in ran.stderr


def test_a_place_on_chip_of_a_global_tensor_says_nothing() -> None:
    b = Builder()
    x = b.local("x", "ub", "float32", 64)
    given, out = b.gm("given", "float32", 64, "input"), b.gm("out", "float32", 64, "output")
    b.move(x, given)
    b.move(out, x)
    given.address = 2**63 - 1
    values = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(engine.run(b.program, [values])[0], values)
