# SPDX-License-Identifier: Apache-2.0
"""Kernels in Ascend C: building, calling, what is refused and how it is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc import rewrite
from ms_custom_ops.errors import AscendcBuildError, AscendcError, SocError

need_ascendc()

HERE = Path(__file__).parent
ADD, FAULTS = HERE / "add_custom.cpp", HERE / "faults.cpp"


@pytest.fixture(scope="module")
def add():
    return ascendc.build(ADD, entry="add_custom")


@pytest.fixture(scope="module")
def faults():
    return ascendc.build(FAULTS, entry="faults")


def halves(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [*(rng.normal(size=n).astype(np.float16) for _ in "xy"), np.zeros(n, np.float16)]


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"threads": 1}, {"threads": 2, "reverse": True}])
def test_an_add_in_tiles(add, options):
    x, y, z = halves(4 * 1024)
    add(4, x, y, z, z.size, **options)
    assert np.array_equal(z, x + y)


def test_a_second_build_is_found(add):
    again = ascendc.build(str(ADD))
    assert again.cached and again.libraries == add.libraries
    assert again.seconds < 1


@pytest.mark.parametrize("module", [compiler, rewrite])
def test_other_code_that_shapes_the_built_text_makes_a_build_stale(add, tmp_path, monkeypatch, module):
    other = tmp_path / "other.py"
    other.write_text(Path(module.__file__).read_text() + "# another version\n")
    before = compiler._identity()
    monkeypatch.setattr(module, "__file__", str(other))
    assert compiler._identity.__wrapped__() != before


def test_what_a_call_refuses(add):
    x, y, z = halves(1024)
    for call, words in (
        (lambda: add(0, x, y, z, 1024), "block_dim is 0; accepted: an integer from 1 to 65535"),
        (lambda: add(1, x, y, z), "number of arguments is 3; accepted: 4 for (a pointer, a pointer"),
        (lambda: add(1, x, y, [1.0], 1024), "argument 2 is a list; accepted: a NumPy array, or None"),
        (lambda: add(1, x[::2], y, z, 1024), "argument 0 is an array with strides (4,); accepted: a C-cont"),
        (lambda: add(1, x, y, z, -1), "argument 3 is -1; accepted: uint32: 0 to 4294967295"),
        (lambda: add(1, x, y, z, 1.5), "argument 3 is 1.5; accepted: uint32"),
        (lambda: add(1, x, y, z, x), "argument 3 is a ndarray; accepted: a number for uint32"),
    ):
        with pytest.raises(AscendcError) as caught:
            call()
        assert str(caught.value).startswith("add_custom: ") and words in str(caught.value)


def test_a_null_pointer_is_named(add):
    x, y, _ = halves(1024)
    with pytest.raises(AscendcError, match=r"core 0: DataCopy: dst is a null pointer.*add_custom\.cpp:\d+\]"):
        add(1, x, y, None, 1024)


FAULT_TEXTS = {
    0: "InitBuffer: 1 x 200000 bytes of ub, of which 512 of 196608 are taken (VECIN queue of {file}:15: 1 x 256, "
    "VECOUT queue of {file}:16: 1 x 256); accepted: buffers that fit",
    1: "DeQue: the VECIN queue of {file}:15 is empty; accepted: one EnQue before each DeQue",
    2: "FreeTensor: the VECIN queue of {file}:15 was freed before, at {file}:28; accepted: one FreeTensor for each "
    "AllocTensor",
    3: "EnQue: the tensor lies in the VECIN queue of {file}:15; accepted: a tensor that the VECOUT queue of {file}:16 "
    "gave by AllocTensor",
    4: "AllocTensor: all 1 blocks of the VECIN queue of {file}:15 are in use (taken at {file}:21); accepted: one "
    "FreeTensor for each AllocTensor before the next",
    5: "Adds: src needs bytes [0, 260) of the VECIN queue of {file}:15, it has 256",
    6: "DataCopy: src needs bytes [192, 448) of argument 0, it has 256",
    7: "Adds: dst starts at byte 524 of ub (the VECCALC buffer of {file}:20); accepted: a multiple of 32",
    8: "SetValue: writes bytes [1024, 1028) of the VECCALC buffer of {file}:20, which has 1024",
    9: "SetValue: writes bytes [256, 260) of argument 0, which has 256",
    10: "divides an integer by zero",
    11: "reads or writes through a null pointer",
    12: "no core can go on: AIV core 0 waits in SyncAll: for all 3 vector cores [{file}:59]; AIV core 2 waits in "
    "SyncAll: for all 3 vector cores [{file}:59]; ended: AIV core 1",
    13: "WaitFlag: no SetFlag<V_S> of event id 2 came before it; accepted: one SetFlag for each WaitFlag",
    14: "WaitFlag: event id 1 of this pair of pipes is waited for and never set; accepted: one SetFlag for each "
    "WaitFlag",
    15: "assert: zero == 1 does not hold",
    16: "EnQue: the VECIN queue of {file}:15 is in the queue since {file}:71; accepted: a tensor between its "
    "AllocTensor and its FreeTensor",
    17: "GetWithOffset: bytes [32, 1056) of a buffer of 1024; accepted: bytes within it",
    18: "Adds: still runs after the time limit of 0.3 s; accepted: a kernel that ends before it, or a higher limit",
    19: "AllocTensor: the queue or buffer was not initialised; accepted: one that InitBuffer was called for",
    21: "kernel code still runs after the time limit; accepted: a kernel that ends before it",
    20: "DataCopyPad: blockLen is 6 bytes; accepted: whole elements of 4",
}


@pytest.mark.parametrize("which", FAULT_TEXTS)
def test_a_fault_is_one_error_with_core_and_line(faults, which):
    x = np.zeros(64, np.float32)
    with pytest.raises(AscendcError) as caught:
        faults(3, x, which, 0, time_limit=0.3 if which in (18, 21) else None)
    text = str(caught.value)
    line = next(i for i, t in enumerate(FAULTS.read_text().splitlines(), 1) if t.endswith(f"// fault {which}"))
    assert text.startswith("faults: AIV core 0: " if which != 12 else "faults: ")
    assert FAULT_TEXTS[which].format(file=FAULTS) in text
    assert f"{FAULTS}:{line}]" in text
    faults(1, x, -1, 0)  # the process and the kernel live on
    assert (x[:8] == 1).all()


def source(folder: Path, body: str) -> Path:
    path = folder / "kernel.cpp"
    path.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) {\n  LocalTensor<int8_t> t;\n  LocalTensor<half> h;\n'
        f"  {body}\n}}\n"
    )
    return path


@pytest.mark.parametrize(
    "body, words",
    [
        ("Add(t, t, t, 8);", "AscendC::Add: the type of the tensors is not accepted; accepted: int16_t, half"),
        ("undeclared(t);", "was not declared in this scope"),
    ],
)
def test_a_compile_error_begins_with_the_users_line(tmp_path, body, words):
    path = source(tmp_path, body)
    with pytest.raises(AscendcBuildError) as caught:
        ascendc.build(path)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{path}:6: ") and words in first


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda p: ascendc.build(p / "none.cpp"), "none.cpp; accepted: a file that exists"),
        (lambda p: ascendc.build([]), "sources is []; accepted: at least one .cpp, .cce or .asc file"),
        (lambda p: ascendc.build(source(p, ""), entry="other"), "entry is 'other'; accepted: one of ['k']"),
        (lambda p: ascendc.build(source(p, ""), defines="1X"), 'define is \'1X\'; accepted: "NAME" or "NAME=VALUE"'),
        (lambda p: ascendc.build(source(p, ""), include_dirs=p / "no"), "no; accepted: a folder that exists"),
    ],
)
def test_what_a_build_refuses(tmp_path, call, words):
    with pytest.raises(AscendcBuildError) as caught:
        call(tmp_path)
    assert words in str(caught.value)


def test_a_chip_without_ascend_c_is_refused():
    with pytest.raises(SocError, match="soc is Ascend910A; accepted: a chip of 910B, 910_93, 310P"):
        ascendc.build(ADD, soc="Ascend910A")


ENDINGS = """
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>
#include <unistd.h>
#include "kernel_operator.h"
void never(int how) noexcept {
  if (how) throw how;
}
extern "C" __global__ __aicore__ void ends(GM_ADDR o, int32_t how) {
  if (how == 1) throw std::out_of_range("of a table");
  if (how == 2) throw 5;
  if (how == 3) abort();
  if (how == 4) exit(3);
  if (how == 5) _exit(3);
  if (how == 6) quick_exit(3);
  if (how == 7) std::terminate();
  if (how == 8) never(how);
  if (how == 9) {
    AscendC::LocalTensor<float> t(AscendC::TPosition::VECIN, 196576, 8);
    DumpTensor(t, 1, 9);
  }
  std::vector<int32_t> table(3, how);
  if (how == 11) *(__gm__ float32_t*)o = table.at(how);
  if (how == 12) table.reserve(size_t(-1));
  try {
    if (how == 10) throw 1.5f;
    *(__gm__ float32_t*)o = 2;
  } catch (float v) {
    *(__gm__ float32_t*)o = v;
  }
}
"""


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (1, r"throw: an exception leaves the kernel: of a table \[.*ends\.cpp:12\]"),
        (2, r"throw: an exception leaves the kernel \[.*ends\.cpp:13\]"),
        (3, r"abort: called by the kernel \[.*ends\.cpp:14\]"),
        (4, r"exit: called by the kernel \[.*ends\.cpp:15\]"),
        (5, r"_exit: called by the kernel \[.*ends\.cpp:16\]"),
        (6, r"quick_exit: called by the kernel \[.*ends\.cpp:17\]"),
        (7, r"terminate: called by the kernel \[.*ends\.cpp:18\]"),
        (8, r"is ended by std::terminate or by abort \[.*ends\.cpp:9\]"),
        (9, r"GetValue: reads bytes .*ends\.cpp:22\]"),
        (11, r"throw: an exception leaves the kernel: vector.*__n \(which is 11\) .*\[.*ends\.cpp:25\]"),
        (12, r"throw: an exception leaves the kernel: vector::reserve \[.*ends\.cpp:26\]"),
    ],
    ids="exception value abort exit _exit quick_exit terminate noexcept print range length".split(),
)
def test_what_would_end_the_process_ends_the_kernel_alone(tmp_path, how, words):
    source = tmp_path / "ends.cpp"
    source.write_text(ENDINGS)
    kernel, out = ascendc.build(source, soc="Ascend910B1"), np.zeros(1, np.float32)
    for threads in (1, 2):
        with pytest.raises(AscendcError, match=f"ends: AIV core 0: {words}"):
            kernel(1, out, how, threads=threads)
    kernel(1, out, 0)
    assert out[0] == 2
    kernel(1, out, 10)  # one that the kernel catches is its own matter
    assert out[0] == 1.5


def test_a_stack_of_large_frames_ends_at_its_page(tmp_path):
    source = tmp_path / "deep.cpp"
    source.write_text("""
#include "kernel_operator.h"
__aicore__ inline int deep(__gm__ int* o, int n) {
  volatile char room[36864];
  room[n % 36864] = n;
  return deep(o, n + 1) + room[7];
}
extern "C" __global__ __aicore__ void deepest(__gm__ int* o) { o[0] = deep(o, 0); }
""")
    with pytest.raises(AscendcError, match=r"core 0: uses more than 1 MiB of stack \[.*deep\.cpp:[3-6]\]"):
        ascendc.build(source)(1, np.zeros(1, np.int32))


OFFSETS = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void picks(__gm__ float* o, int32_t how) {
  using namespace AscendC;
  LocalTensor<float> x(TPosition::VECIN, 0, 512), y(TPosition::VECOUT, 4096, 512);
  LocalTensor<uint32_t> at(TPosition::VECIN, 8192, 64);
  for (int i = 0; i < 512; ++i) x.SetValue(i, float(i));
  for (int i = 0; i < 64; ++i) at.SetValue(i, how == 1 ? 4 * i + 2 * (i == 5) : 32 * i + 4 * (how == 3 && i == 6));
  if (how == 1 || how == 2) Gather(y, x, at, how == 2 ? 6 : 4, 60);
  else Gatherb(y, x, at, 1, {1, 8});
  o[0] = y.GetValue(9);
}
"""


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (1, r"Gather: byte offset is 26; accepted: multiples of 4 \[.*picks\.cpp:9\]"),
        (2, r"Gather: byte offset is 6; accepted: multiples of 4 \[.*picks\.cpp:9\]"),
        (3, r"Gatherb: byte offset is 196; accepted: multiples of 32 \[.*picks\.cpp:10\]"),
    ],
)
def test_gathers_take_offsets_of_whole_elements_and_blocks(tmp_path, how, words):
    source = tmp_path / "picks.cpp"
    source.write_text(OFFSETS)
    kernel, out = ascendc.build(source, soc="Ascend910B1"), np.zeros(1, np.float32)
    with pytest.raises(AscendcError, match=words):
        kernel(1, out, how)
    kernel(1, out, 0)
    assert out[0] == 9
