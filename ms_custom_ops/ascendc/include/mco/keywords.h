// SPDX-License-Identifier: Apache-2.0
// What the compiler of a chip knows and a C++ compiler does not: defines of the chip, address spaces, function kinds.
#pragma once

#include <cstdint>

// What the compiler of a chip defines; build() does for the chip it is given.
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif
#ifndef __CCE_AICORE__
#define __CCE_AICORE__ 220
#endif
#ifndef MCO_ASC_UB_BYTES
#define MCO_ASC_UB_BYTES 196608
#endif
#ifndef MCO_ASC_AS_ON_CHIP  // builds whose sources take the way of the chip
#ifndef ASCENDC_CPU_DEBUG
#define ASCENDC_CPU_DEBUG 1
#endif
#ifndef __CCE_KT_TEST__
#define __CCE_KT_TEST__ 1
#endif
#endif

// Address spaces and function kinds mean nothing to a C++ compiler.
#define __aicore__
#ifdef MCO_ASC_ONE_ENTRY  // of the kernels of a source the one that is built, and what it calls
#define __global__ inline
#else
#define __global__
#endif
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __biasbuf__
#define __fbuf__
#define __vector__
#define __cube__
#define __mix__(...)
#define __schedmode__(...)
#define __sync_noalias__
#define __sync_alias__
#define __check_sync_alias__
#define __inout_pipe__(...)
#define __in__
#define __out__
#define __disable_kernel_type_autoinfer__
#define __simt_vf__
#define __simd_vf__
#ifndef __inline__
#define __inline__ inline
#endif
#define __force_inline__ inline
#ifndef __forceinline__
#define __forceinline__ inline
#endif
#ifndef GM_ADDR
#define GM_ADDR uint8_t*
#endif
