# SPDX-License-Identifier: Apache-2.0
"""Small functions that exported kernels call; a kernel gets those it uses."""

from __future__ import annotations

HELPERS = {
    "Smaller": """\
template <class T>
__aicore__ inline T Smaller(T a, T b) { return b < a ? b : a; }
""",
    "Larger": """\
template <class T>
__aicore__ inline T Larger(T a, T b) { return b > a ? b : a; }
""",
    "Magnitude": """\
template <class T>
__aicore__ inline T Magnitude(T a) { return a < T(0) ? T(-a) : a; }
""",
    "ToInteger": """\
// Towards zero; what is beyond the integer becomes its end, NaN becomes 0.
template <class T>
__aicore__ inline T ToInteger(float a)
{
    constexpr bool isSigned = T(-1) < T(0);
    constexpr int bits = int(sizeof(T)) * 8 - (isSigned ? 1 : 0);
    constexpr T most = T((uint64_t(1) << (bits - 1)) - 1 + (uint64_t(1) << (bits - 1)));
    constexpr T least = isSigned ? T(-most - 1) : T(0);
    if (!(a == a)) {
        return T(0);
    }
    if (a >= 2.0f * float(uint64_t(1) << (bits - 1))) {
        return most;
    }
    return a <= float(least) ? least : T(a);
}
""",
    "BitsAs": """\
template <class To, class From>
__aicore__ inline To BitsAs(From a)
{
    static_assert(sizeof(To) == sizeof(From), "widths differ");
    return *reinterpret_cast<To*>(&a);
}
""",
    "Turn": """\
// 16 rows of blocks to 16 rows of blocks; steps are elements from one row to the next.
template <class T>
__aicore__ inline void Turn(const LocalTensor<T>& dst, uint32_t dstStep, const LocalTensor<T>& src, uint32_t srcStep,
                            const TransDataTo5HDParams& params)
{
    LocalTensor<T> dstRows[16], srcRows[16];
    for (uint32_t i = 0; i < 16; ++i) {
        dstRows[i] = dst[i * dstStep];
        srcRows[i] = src[i * srcStep];
    }
    TransDataTo5HD<T>(dstRows, srcRows, params);
}
""",
}
"""Text by name, in the order in which they are written."""


def text_of(used: set[str]) -> str:
    """The functions that are used."""
    return "\n".join(text for name, text in HELPERS.items() if name in used)
