// SPDX-License-Identifier: Apache-2.0
// C interface of the library that a project's op_host becomes. Texts go to `error` (null terminated, cut to `size`).
#ifndef MCO_HOST_API_H_
#define MCO_HOST_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mco_host_call mco_host_call;

// What went wrong in a host function: 0 nothing, 1 it answered a failure, 2 an exception, 3 a signal, 4 an answer that
// cannot be used, which the text then says, and what is accepted; `addresses` are
// those of the function or, after a signal, of the frames, innermost first, as offsets into this library.
typedef struct mco_host_failure {
  int32_t kind;
  int32_t signal_number;
  uint64_t addresses[16];
  int32_t address_count;
  char text[4096];
} mco_host_failure;

typedef struct mco_host_tiling {
  uint32_t block_dim;
  uint32_t schedule_mode;
  uint64_t tiling_key;
  const uint8_t* data;
  size_t size;
  size_t workspace;  // bytes of all workspaces
  int32_t need_atomic;
} mco_host_tiling;

// JSON text of all ops and tiling classes of the library; owned by it.
const char* mco_host_describe(mco_host_failure* failure);

// A call of the op `type` on the chip `soc`, to which its tensors and attributes are added in the order of the
// definition: mco_host_input or mco_host_absent for each instance. Null when there is no such op or chip.
mco_host_call* mco_host_new(const char* type, const char* soc);
void mco_host_free(mco_host_call* call);
// `ir` is the number of the input in the definition. `data` may be null: the values are not known.
int mco_host_input(mco_host_call* call, int ir, int dtype, int format, int ndim, const int64_t* dims, const void* data);
int mco_host_output(mco_host_call* call, int ir, int dtype, int format, int ndim, const int64_t* dims);
int mco_host_attr_int(mco_host_call* call, int64_t value);
int mco_host_attr_float(mco_host_call* call, float value);
int mco_host_attr_bool(mco_host_call* call, int value);
int mco_host_attr_string(mco_host_call* call, const char* value);
int mco_host_attr_ints(mco_host_call* call, size_t n, const int64_t* values);
int mco_host_attr_floats(mco_host_call* call, size_t n, const float* values);
int mco_host_attr_bools(mco_host_call* call, size_t n, const uint8_t* values);
int mco_host_attr_int_lists(mco_host_call* call, size_t n, const size_t* lengths, const int64_t* values);
// The values of an input instance, for a later run of the same call.
int mco_host_data(mco_host_call* call, int instance, const void* data);

// Each returns 0, or 1 with the failure filled in.
int mco_host_infer_shape(mco_host_call* call, mco_host_failure* failure);
int mco_host_infer_dtype(mco_host_call* call, mco_host_failure* failure);
int mco_host_tile(mco_host_call* call, mco_host_tiling* tiling, mco_host_failure* failure);
// Of an output instance: its dtype and the number of dims, which are written when `dims` holds that many.
int mco_host_result(const mco_host_call* call, int instance, int* dtype, int* ndim, int64_t* dims, int capacity);

#ifdef __cplusplus
}
#endif

#endif  // MCO_HOST_API_H_
