// SPDX-License-Identifier: Apache-2.0
// Types, enumerations and keywords of Ascend C.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mco/abi.h"
#include "mco/keywords.h"

namespace mco_asc {

#if defined(__has_builtin)
#if __has_builtin(__builtin_bit_cast)
#define MCO_ASC_CONSTEXPR constexpr
#endif
#endif

#ifdef MCO_ASC_CONSTEXPR
template <class To, class From>
constexpr To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}
#else
#define MCO_ASC_CONSTEXPR
template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "width");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
#endif

// Where the user's code calls, as a default argument.
struct Where {
  enum class At { source };  // so that braces of a caller are no place
  const char* file;
  uint32_t line;
  constexpr Where(At, const char* f, uint32_t l) : file(f), line(l) {}
  static constexpr Where here(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return Where(At::source, file, line);
  }
  static constexpr Where nowhere() { return Where(At::source, nullptr, 0); }
  static constexpr Where of(const mco_asc_where& w) { return Where(At::source, w.file, w.line); }
  mco_asc_where of(const char* call) const { return {call, file, line}; }
};

MCO_ASC_CONSTEXPR inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) {
    const uint32_t payload = magnitude & 0x3ff;
    return bits_as<float>(sign | 0x7f800000u | payload << 13 | (payload ? 0x400000u : 0u));
  }
  const float scaled = bits_as<float>(magnitude << 13) * 0x1p112f;
  return bits_as<float>(bits_as<uint32_t>(scaled) | sign);
}

// Round to nearest even.
MCO_ASC_CONSTEXPR inline uint16_t float_to_half(float f) {
  const uint32_t bits = bits_as<uint32_t>(f), sign = bits >> 16 & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x47800000u) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x38800000u) {
    const float shifted = bits_as<float>(magnitude) + 0.5f;
    return uint16_t(sign | (bits_as<uint32_t>(shifted) - 0x3f000000u));
  }
  magnitude += 0xc8000fffu + (magnitude >> 13 & 1);
  return uint16_t(sign | magnitude >> 13);
}

MCO_ASC_CONSTEXPR inline float bfloat_to_float(uint16_t h) { return bits_as<float>(uint32_t(h) << 16); }

MCO_ASC_CONSTEXPR inline uint16_t float_to_bfloat(float f) {
  const uint32_t bits = bits_as<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A double, rounded to odd in float, so that rounding to 16 bits rounds once.
MCO_ASC_CONSTEXPR inline float to_float_odd(double d) {
  const float f = float(d);
  if (double(f) == d || d != d) return f;
  uint32_t bits = bits_as<uint32_t>(f);
  if ((double(f) < 0 ? -double(f) : double(f)) > (d < 0 ? -d : d)) --bits;
  return bits_as<float>(bits | 1u);
}

template <class T>
MCO_ASC_CONSTEXPR inline float narrowed(T v) {
  return sizeof(T) > 2 && !std::is_same<T, float>::value ? to_float_odd(double(v)) : float(v);
}

template <class T>
using if_number = std::enable_if_t<std::is_arithmetic<T>::value, int>;

}  // namespace mco_asc

// Scalars of 16 bits: values convert to float, results round to nearest even.
#define MCO_ASC_FLOAT16(NAME, TO_FLOAT, FROM_FLOAT)                                                                    \
  struct NAME {                                                                                                        \
    uint16_t bits;                                                                                                     \
    NAME() = default;                                                                                                  \
    template <class T, mco_asc::if_number<T> = 0>                                                                      \
    MCO_ASC_CONSTEXPR NAME(T value) : bits(mco_asc::FROM_FLOAT(mco_asc::narrowed(value))) {}                           \
    MCO_ASC_CONSTEXPR operator float() const { return mco_asc::TO_FLOAT(bits); }                                       \
    NAME operator-() const {                                                                                           \
      NAME out;                                                                                                        \
      out.bits = uint16_t(bits ^ 0x8000);                                                                              \
      return out;                                                                                                      \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    NAME& operator+=(T v) {                                                                                            \
      return *this = NAME(float(*this) + float(v));                                                                    \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    NAME& operator-=(T v) {                                                                                            \
      return *this = NAME(float(*this) - float(v));                                                                    \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    NAME& operator*=(T v) {                                                                                            \
      return *this = NAME(float(*this) * float(v));                                                                    \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    NAME& operator/=(T v) {                                                                                            \
      return *this = NAME(float(*this) / float(v));                                                                    \
    }                                                                                                                  \
  };                                                                                                                   \
  template <class A, class B, std::enable_if_t<std::is_same<A, NAME>::value && std::is_same<B, NAME>::value, int> = 0> \
  inline NAME operator+(A a, B b) {                                                                                    \
    return NAME(float(a) + float(b));                                                                                  \
  }                                                                                                                    \
  template <class A, class B, std::enable_if_t<std::is_same<A, NAME>::value && std::is_same<B, NAME>::value, int> = 0> \
  inline NAME operator-(A a, B b) {                                                                                    \
    return NAME(float(a) - float(b));                                                                                  \
  }                                                                                                                    \
  template <class A, class B, std::enable_if_t<std::is_same<A, NAME>::value && std::is_same<B, NAME>::value, int> = 0> \
  inline NAME operator*(A a, B b) {                                                                                    \
    return NAME(float(a) * float(b));                                                                                  \
  }                                                                                                                    \
  template <class A, class B, std::enable_if_t<std::is_same<A, NAME>::value && std::is_same<B, NAME>::value, int> = 0> \
  inline NAME operator/(A a, B b) {                                                                                    \
    return NAME(float(a) / float(b));                                                                                  \
  }

MCO_ASC_FLOAT16(half, half_to_float, float_to_half)
MCO_ASC_FLOAT16(bfloat16_t, bfloat_to_float, float_to_bfloat)
#undef MCO_ASC_FLOAT16
using float16_t = half;
using float32_t = float;

struct fp8_e4m3fn_t;
struct fp8_e5m2_t;
struct fp8_e8m0_t;
struct float8_e4m3_t;
struct float8_e5m2_t;
struct hifloat8_t;
struct fp4x2_e2m1_t;
struct fp4x2_e1m2_t;

// Two of them in a byte; tensors of it count elements of 4 bits.
struct int4b_t {
  int4b_t() = default;
  constexpr int4b_t(int value) : bits(uint8_t(value & 15)) {}
  constexpr explicit operator int64_t() const { return int64_t(bits ^ 8) - 8; }
  uint8_t bits = 0;
};

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
enum QuantMode_t { NoQuant, F322F16, F322BF16, DEQF16, VDEQF16, QF322B8_PRE, VQF322B8_PRE, REQ8, VREQ8 };

namespace AscendC {

using TEventID = int8_t;

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  C2PIPE2LOCAL,
  MAX
};
using QuePosition = TPosition;

enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MemDsbT { ALL, DDR, UB, SEQ };
enum class RoundMode { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD, CAST_HYBRID };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class MaskMode : uint8_t { NORMAL, COUNTER };
enum class ReduceOrder { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class ReduceType { SUM, MAX, MIN, OR };
enum class KernelMode { MIX_MODE, AIC_MODE, AIV_MODE };
enum class CubeFormat { ND, NZ, ZN, ZZ, NN, VECTOR, SCALAR, ND_ALIGN, COLUMN_MAJOR };
enum class DataFormat : uint8_t { ND, NZ, NCHW, NC1HWC0, NHWC, NDHWC, FRACTAL_NZ };
enum class TransposeType : uint8_t {
  TRANSPOSE_TYPE_NONE,
  TRANSPOSE_NZ2ND_0213,
  TRANSPOSE_NZ2NZ_0213,
  TRANSPOSE_NZ2NZ_012_WITH_N,
  TRANSPOSE_NZ2ND_012_WITH_N,
  TRANSPOSE_NZ2ND_012_WITHOUT_N,
  TRANSPOSE_NZ2NZ_012_WITHOUT_N,
  TRANSPOSE_ND2ND_ONLY,
  TRANSPOSE_ND_UB_GM,
  TRANSPOSE_GRAD_ND_UB_GM,
  TRANSPOSE_ND2ND_B16,
  TRANSPOSE_NCHW2NHWC,
  TRANSPOSE_NHWC2NCHW
};
enum class HighLowPart { HIGHEST, LOWEST };
enum class BlockMode : uint8_t {
  BLOCK_MODE_NORMAL,
  BLOCK_MODE_MATRIX,
  BLOCK_MODE_VECTOR,
  BLOCK_MODE_SMALL_CHANNEL,
  BLOCK_MODE_DEPTHWISE
};
enum KernelMetaType {
  KERNEL_TYPE_AIV_ONLY,
  KERNEL_TYPE_AIC_ONLY,
  KERNEL_TYPE_MIX_AIV_1_0,
  KERNEL_TYPE_MIX_AIC_1_0,
  KERNEL_TYPE_MIX_AIC_1_1,
  KERNEL_TYPE_MIX_AIC_1_2,
  KERNEL_TYPE_AICORE,
  KERNEL_TYPE_VECTORCORE,
  KERNEL_TYPE_MIX_AICORE,
  KERNEL_TYPE_MIX_VECTOR_CORE,
  KERNEL_TYPE_MAX
};

// <source pipe>_<destination pipe>; the value is source * 8 + destination.
#define MCO_ASC_EVENTS(FROM)                                                                                     \
  FROM##_S = PIPE_##FROM * 8 + PIPE_S, FROM##_V = PIPE_##FROM * 8 + PIPE_V, FROM##_M = PIPE_##FROM * 8 + PIPE_M, \
  FROM##_MTE1 = PIPE_##FROM * 8 + PIPE_MTE1, FROM##_MTE2 = PIPE_##FROM * 8 + PIPE_MTE2,                          \
  FROM##_MTE3 = PIPE_##FROM * 8 + PIPE_MTE3, FROM##_FIX = PIPE_##FROM * 8 + PIPE_FIX
enum class HardEvent : uint8_t {
  MCO_ASC_EVENTS(S),
  MCO_ASC_EVENTS(V),
  MCO_ASC_EVENTS(M),
  MCO_ASC_EVENTS(MTE1),
  MCO_ASC_EVENTS(MTE2),
  MCO_ASC_EVENTS(MTE3),
  MCO_ASC_EVENTS(FIX),
  MAX
};
#undef MCO_ASC_EVENTS

constexpr int64_t ONE_BLK_SIZE = 32;
constexpr int32_t DEFAULT_BLK_NUM = 8;
constexpr int32_t DEFAULT_BLK_STRIDE = 1;
constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;
constexpr uint8_t HALF_DEFAULT_REPEAT_STRIDE = 4;
constexpr int32_t DEFAULT_C0_SIZE = 32;
constexpr int32_t ONE_BYTE_BIT_SIZE = 8;
constexpr int32_t ONE_REPEAT_BYTE_SIZE = 256;
constexpr int32_t MAX_REPEAT_TIMES = 255;
constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};
constexpr int32_t REDUCE_MAX_REPEAT = 4095;
constexpr int32_t TOTAL_UB_SIZE = MCO_ASC_UB_BYTES;
constexpr int32_t TOTAL_VEC_LOCAL_SIZE = TOTAL_UB_SIZE - 8192;  // without what library calls use
constexpr int32_t TOTAL_L1_SIZE = 524288;
constexpr int32_t TOTAL_L0A_SIZE = 65536;
constexpr int32_t TOTAL_L0B_SIZE = 65536;
constexpr int32_t TOTAL_L0C_SIZE = 131072;

struct ShapeInfo {
  ShapeInfo() = default;
  ShapeInfo(uint8_t dims, const uint32_t sizes[], uint8_t originalDims, const uint32_t originalSizes[],
            DataFormat format = DataFormat::ND)
      : shapeDim(dims), originalShapeDim(originalDims), dataFormat(format) {
    for (int i = 0; i < dims && i < 8; ++i) shape[i] = sizes[i];
    for (int i = 0; i < originalDims && i < 8; ++i) originalShape[i] = originalSizes[i];
  }
  ShapeInfo(uint8_t dims, const uint32_t sizes[], DataFormat format = DataFormat::ND)
      : ShapeInfo(dims, sizes, dims, sizes, format) {}
  uint8_t shapeDim = 0;
  uint8_t originalShapeDim = 0;
  uint32_t shape[8] = {};
  uint32_t originalShape[8] = {};
  DataFormat dataFormat = DataFormat::ND;
};

}  // namespace AscendC

namespace mco_asc {

// Numbers of the engine.
enum DType : int32_t { F16, BF16, F32, I8, U8, I16, U16, I32, U32, I64, U64, BOOL };

template <class T>
struct dtype_of;
#define MCO_ASC_DTYPE(TYPE, CODE)               \
  template <>                                   \
  struct dtype_of<TYPE> {                       \
    static constexpr DType value = DType::CODE; \
  };
MCO_ASC_DTYPE(half, F16)
MCO_ASC_DTYPE(bfloat16_t, BF16)
MCO_ASC_DTYPE(float, F32)
MCO_ASC_DTYPE(int8_t, I8)
MCO_ASC_DTYPE(uint8_t, U8)
MCO_ASC_DTYPE(int16_t, I16)
MCO_ASC_DTYPE(uint16_t, U16)
MCO_ASC_DTYPE(int32_t, I32)
MCO_ASC_DTYPE(uint32_t, U32)
MCO_ASC_DTYPE(long, I64)
MCO_ASC_DTYPE(unsigned long, U64)
MCO_ASC_DTYPE(long long, I64)
MCO_ASC_DTYPE(unsigned long long, U64)
MCO_ASC_DTYPE(bool, U8)
MCO_ASC_DTYPE(int4b_t, U8)
#undef MCO_ASC_DTYPE

template <class T, class... Accepted>
constexpr bool one_of = (std::is_same<T, Accepted>::value || ...);

template <class T>
struct same {
  using type = T;
};
template <class T>
using same_t = typename same<T>::type;  // a parameter that takes no part in deduction

// Types of Ascend950, which kernels name to ask whether theirs is one.
template <class T>
constexpr bool on_950 = one_of<T, fp8_e4m3fn_t, fp8_e5m2_t, fp8_e8m0_t, float8_e4m3_t, float8_e5m2_t, hifloat8_t,
                               fp4x2_e2m1_t, fp4x2_e1m2_t>;
#define MCO_ASC_NO_950 "AscendC: fp8, fp4 and hifloat8 exist on Ascend950 alone; accepted: types of 910B, 910_93, 310P"

// Bits of one element: int4b_t counts half bytes.
template <class T>
constexpr int64_t bits_of = std::is_same<T, int4b_t>::value ? 4 : int64_t(8 * sizeof(T));
template <class T>
constexpr int64_t bytes_for(int64_t elements) {
  return elements * bits_of<T> / 8;
}

// What the code of a library uses, for kernels that do not say what kind they are: a byte in a section of its own,
// which is there where the compiler has emitted code of a function that notes it.
enum Use { USES_CORE_TYPE, USES_CUBE, USES_MATMUL };
struct Library {
  static inline int32_t kind = -1;
};
template <Use use>
inline bool note() {
  __asm__ volatile(".pushsection mco_asc_uses,\"a\"\n\t.byte %c0\n\t.popsection" : : "i"(int(use)));
  return true;
}
extern "C" {
extern const uint8_t __start_mco_asc_uses[] __attribute__((weak, visibility("hidden")));
extern const uint8_t __stop_mco_asc_uses[] __attribute__((weak, visibility("hidden")));
}

// Cube and vector code in one kernel: one cube core and two vector cores in a block. build() reads off the source what
// an entry is declared for.
inline int32_t default_kind() {
#ifdef MCO_ASC_CORES
  return int32_t(AscendC::MCO_ASC_CORES);
#endif
  bool used[3] = {};
  for (const uint8_t* at = __start_mco_asc_uses; at < __stop_mco_asc_uses; ++at) used[*at] = true;
  const bool mixed = used[USES_MATMUL] || (used[USES_CUBE] && used[USES_CORE_TYPE]);
  return Library::kind < 0 && mixed ? int32_t(AscendC::KERNEL_TYPE_MIX_AIC_1_2) : Library::kind;
}

}  // namespace mco_asc
