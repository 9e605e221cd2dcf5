# SPDX-License-Identifier: Apache-2.0
"""Names that a kernel has of its own, and what older sources include, assert and configure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

OWN = """#include "kernel_operator.h"
using namespace AscendC;
namespace Own {
template <typename T, const int16_t MASK>
class IsFinite {
 public:
  __aicore__ inline void Process(GM_ADDR out) { ((__gm__ int32_t*)out)[0] = MASK; }
};
class GroupNorm {};
struct Where { int32_t value = 5; };
}
using namespace Own;
constexpr int32_t number = 3, integer = 4, magnitude = 5;
static_assert(number + integer + magnitude == 12, "");
extern "C" __global__ __aicore__ void own(GM_ADDR out) {
  IsFinite<half, 7> op;
  op.Process(out);
  Where where;
  GroupNorm norm;
  ((__gm__ int32_t*)out)[1] = where.value;
  %s
}
"""
BODY = """#include "kernel_operator.h"
%s
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR out) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  AscendC::LocalTensor<float> a = buffer.Get<float>();
  AscendC::GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x);
  to.SetGlobalBuffer((__gm__ float*)out);
  AscendC::DataCopy(a, from, 64);
  AscendC::PipeBarrier<PIPE_ALL>();
  %s
  AscendC::PipeBarrier<PIPE_ALL>();
  AscendC::DataCopy(to, a, 64);
}
"""
X = np.arange(64, dtype=np.float32)


def built(folder: Path, text: str, entry: str = "k", **more) -> ascendc.Kernel:
    source = folder / "k.cpp"
    source.write_text(text)
    return ascendc.build(source, entry=entry, soc="Ascend910B1", **more)


def result(folder: Path, body: str, before: str = "", **more) -> np.ndarray:
    out = np.zeros(64, np.float32)
    built(folder, BODY % (before, body), **more)(1, X, out)
    return out


def test_a_class_named_as_one_of_our_functions(tmp_path):
    out = np.zeros(8, np.int32)
    built(tmp_path, OWN % "", "own")(1, out)
    assert out[:2].tolist() == [7, 5]


def test_what_is_wrong_beside_such_a_class_is_what_is_said(tmp_path):
    with pytest.raises(AscendcBuildError, match=r"k.cpp:\d+: .*nothing_of_the_kind"):
        built(tmp_path, OWN % "nothing_of_the_kind();", "own")


def test_a_name_that_is_ambiguous_in_the_source_itself(tmp_path):
    text = "namespace A { struct Mine {}; } namespace B { struct Mine {}; } using namespace A; using namespace B;"
    with pytest.raises(AscendcBuildError, match="reference to .Mine. is ambiguous"):
        result(tmp_path, "Mine mine;", text)


@pytest.mark.parametrize("library", ["", "#include <cassert>\n#include <assert.h>"])
def test_assertions_with_a_message(tmp_path, library):
    assert (
        result(tmp_path, 'assert(a.GetSize() == 256, "size is %u", a.GetSize()); assert(true);', library) == X
    ).all()
    with pytest.raises(AscendcError, match=r"k: .*assert: a.GetSize\(\) < 5 does not hold .*k.cpp"):
        result(tmp_path, 'assert(a.GetSize() < 5, "size is %u\\n", a.GetSize());', library)
    with pytest.raises(AscendcError, match="assert: false does not hold"):
        result(tmp_path, "assert(false);", library)


def test_the_mask_by_its_older_name(tmp_path):
    add = "Adds<float, false>(a, a, 1.0f, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});"
    for mask, lanes in (
        ("SetMask<float>(20)", X < 20),
        ("SetMask<float>(0, 0x10)", X == 4),
        ("SetMask<half>(4); AscendCUtils::SetMask<float, false>(9)", X < 4),
        ("SetMask<float>(3); AscendCUtils::ResetMask()", X < 64),
    ):
        body = f"using namespace AscendC; AscendCUtils::{mask}; {add}"
        assert (result(tmp_path, body) == X + lanes).all()


def test_a_queue_with_a_configuration(tmp_path):
    before = """constexpr AscendC::TPosition kNone[8] = {AscendC::TPosition::MAX};
__aicore__ constexpr AscendC::TQueConfig Config(uint32_t many) { return {false, false, false, 0, many, 0, {kNone[0]}}; }
constexpr AscendC::TQueConfig kConfig = Config(1);"""
    body = """AscendC::TQue<AscendC::TPosition::VECIN, 1, &kConfig> queue;
  pipe.InitBuffer(queue, 1, 256);
  AscendC::LocalTensor<float> b = queue.AllocTensor<float>();
  AscendC::Adds(b, a, 2.0f, 64);
  queue.EnQue(b);
  b = queue.DeQue<float>();
  AscendC::Adds(a, b, 1.0f, 64);
  queue.FreeTensor(b);"""
    assert (result(tmp_path, body, before) == X + 3).all()


@pytest.mark.parametrize("header", ["lib/math/kernel_operator_asin_intf.h", "lib/pad/kernel_operator_pad_intf.h",
                                    "adv_api/sort/topk.h", "kernel_cube_intf.h"])  # fmt: skip
def test_headers_of_single_functions(tmp_path, header):
    assert (
        result(tmp_path, "", f'#include "{header}"\n__forceinline__ __aicore__ int Two() {{ return 2; }}') == X
    ).all()


def test_a_kernel_whose_preprocessor_asks_for_the_tiling_key(tmp_path):
    body = "#if TILING_KEY_VAR == 3\nAscendC::Adds(a, a, 3.0f, 64);\n#else\nAscendC::Adds(a, a, 4.0f, 64);\n#endif"
    for key in (3, 4):
        assert (result(tmp_path, "\n" + body, defines=f"TILING_KEY_VAR={key}") == X + key).all()


def test_arrays_of_tiling_data_as_long_as_constants_of_the_host_say(tmp_path):
    header = tmp_path / "k_tiling.h"
    header.write_text("""#include "register/tilingdata_base.h"
#define CORES 2
namespace optiling {
constexpr uint16_t MAX_COUNT = 3;
const static uint32_t kTwice{MAX_COUNT * CORES};
BEGIN_TILING_DATA_DEF(KTilingData)
TILING_DATA_FIELD_DEF_ARR(int32_t, MAX_COUNT, first);
TILING_DATA_FIELD_DEF_ARR(int32_t, kTwice + 1, second);
TILING_DATA_FIELD_DEF(int32_t, last);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(K, KTilingData)
}
""")
    source = tmp_path / "k.cpp"
    source.write_text("""#include "kernel_operator.h"
constexpr int32_t MAX_COUNT = 3;  // the kernel has it, too
extern "C" __global__ __aicore__ void k(GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  auto to = (__gm__ int32_t*)out;
  to[0] = t.first[MAX_COUNT - 1], to[1] = t.second[6], to[2] = t.last, to[3] = sizeof(t);
}
""")
    out = np.zeros(8, np.int32)
    ascendc.build([header, source], entry="k")(1, out, tiling=np.arange(12, dtype=np.int32))
    assert out[:4].tolist() == [2, 9, 10, 48]


def test_a_value_without_its_semicolon_before_an_assertion(tmp_path):
    body = """const uint32_t count = a.GetSize()
  ASSERT(count != 0 && "nothing");
  const uint32_t more = count // of it
    ASSERT(more == 256);
  if (count == 0)
    ASSERT(false);
  else
    ASSERT(true);
#ifdef NOT_DEFINED
#endif
  ASSERT(count == more);
  AscendC::Adds(a, a, float(more), 64);"""
    before = "constexpr uint32_t kAll = 256, kNone = 0;"
    assert (result(tmp_path, body.replace("a.GetSize()", "kAll"), before) == X + 256).all()
    with pytest.raises(AscendcError, match=r"ASSERT: count != 0 .*k.cpp:14\]"):
        result(tmp_path, body.replace("a.GetSize()", "kNone"), before)


MAGNITUDES = """#include "kernel_operator.h"
%s
struct Box {
  float width, height;
  __aicore__ inline float area() { return abs(width * height); }
};
extern "C" __global__ __aicore__ void k(GM_ADDR out) {
  auto to = (__gm__ float*)out;
  int16_t small = -3;
  int64_t wide = -(int64_t(1) << 40);
  half number = half(-2.5f);
  bfloat16_t other = bfloat16_t(-0.75f);
  to[0] = abs(-0.25f), to[1] = Box{1.5f, -0.5f}.area(), to[2] = abs(small), to[3] = abs(wide), to[4] = abs(-7);
  to[5] = float(abs(number)), to[6] = float(abs(other)), to[7] = abs(-0.125);
}
"""


@pytest.mark.parametrize(
    "own", ["", "#include <cmath>", "#include <math.h>", "using namespace std;", "using namespace AscendC;"]
)
def test_magnitudes_of_numbers(tmp_path, own):
    out = np.zeros(8, np.float32)
    built(tmp_path, MAGNITUDES % own)(1, out)
    np.testing.assert_array_equal(out, [0.25, 0.75, 3, 2.0**40, 7, 2.5, 0.75, 0.125])


@pytest.mark.parametrize("own", ["template <class T> T abs(T x)", "float abs(float x)"])
def test_a_kernels_own_magnitude(tmp_path, own):
    out = np.zeros(8, np.float32)
    text = f"""#include "kernel_operator.h"
{own} {{ return 9; }}
extern "C" __global__ __aicore__ void k(GM_ADDR out) {{ ((__gm__ float*)out)[0] = abs(-0.5f); }}
"""
    built(tmp_path, text)(1, out)
    assert out[0] == 9
