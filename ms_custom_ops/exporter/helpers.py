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
    "ProductOfTiles": """\
// c [n / 16, m, 16] = a [k / K0, m, K0] @ b [k / K0, n, K0] out of L1, or c + that; m and n are whole fractals of 16.
// Of k, `depth` fractals are in L0A and L0B at a time.
template <class C, class A, class B>
__aicore__ inline void ProductOfTiles(const LocalTensor<C>& c, const LocalTensor<A>& a, const LocalTensor<B>& b,
                                      const LocalTensor<A>& l0a, const LocalTensor<B>& l0b, uint16_t m, uint16_t k,
                                      uint16_t n, uint16_t depth, bool fresh)
{
    constexpr uint16_t width = 32 / sizeof(A);  // K0
    const uint16_t rows = m / 16;
    for (uint16_t done = 0; done < k; done += depth * width) {
        const uint16_t part = k - done < depth * width ? k - done : depth * width;
        const uint16_t deep = (part + width - 1) / width;
        for (uint16_t row = 0; row < rows; ++row) {
            LoadData(l0a[row * deep * 16 * width], a,
                     LoadData2DParams(done / width * rows + row, deep, rows, 0, 0, false, 0));
        }
        LoadData(l0b, b[done * n], LoadData2DParams(0, deep * (n / 16), 1, 0, 0, false, 0));
        SetFlag<HardEvent::MTE1_M>(EVENT_ID0); WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
        Mmad(c, l0a, l0b, MmadParams(m, n, part, 0, false, fresh && done == 0));
        SetFlag<HardEvent::M_MTE1>(EVENT_ID0); WaitFlag<HardEvent::M_MTE1>(EVENT_ID0);
    }
}
""",
    "ProductOfImage": """\
// c [n / 16, m, 16] = the image-to-column matrix of a feature map [C1, H, W, C0] @ b [k / C0, n, C0], or c + that: m is
// the number of pixels, k is (c1, filter h, filter w, c0). Of k, `depth` fractals are in L0A and L0B at a time.
template <class C, class A, class B>
__aicore__ inline void ProductOfImage(const LocalTensor<C>& c, const LocalTensor<A>& map, const LocalTensor<B>& b,
                                      const LocalTensor<A>& l0a, const LocalTensor<B>& l0b,
                                      LoadData3DParamsV2<A> image, uint16_t k, uint16_t n, uint16_t depth, bool fresh)
{
    constexpr uint16_t width = 32 / sizeof(A);  // C0
    for (uint16_t done = 0; done < k; done += depth * width) {
        image.kStartPt = done;
        image.kExtension = k - done < depth * width ? k - done : depth * width;
        LoadData(l0a, map, image);
        LoadData(l0b, b[done * n], LoadData2DParams(0, image.kExtension / width * (n / 16), 1, 0, 0, false, 0));
        SetFlag<HardEvent::MTE1_M>(EVENT_ID0); WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
        Mmad(c, l0a, l0b, MmadParams(image.mExtension, n, image.kExtension, 0, false, fresh && done == 0));
        SetFlag<HardEvent::M_MTE1>(EVENT_ID0); WaitFlag<HardEvent::M_MTE1>(EVENT_ID0);
    }
}
""",
}
"""Text by name, in the order in which they are written."""


def text_of(used: set[str]) -> str:
    """The functions that are used."""
    return "\n".join(text for name, text in HELPERS.items() if name in used)
