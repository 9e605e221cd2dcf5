// SPDX-License-Identifier: Apache-2.0
// Launches of compiled Ascend C kernels that a graph finds by a key: the C interface that Python fills and the
// MindSpore glue calls.
#ifndef MCO_LAUNCH_H_
#define MCO_LAUNCH_H_

#include "../ms_custom_ops/ascendc/include/mco/abi.h"
#include "capi.h"

#ifdef __cplusplus
extern "C" {
#endif

// A launch ready to run. Everything is copied, except for entries and functions, whose libraries stay loaded, and the
// host's call, which stays alive.
typedef struct mco_launch {
  uint32_t struct_size;
  int32_t inputs, outputs;  // tensors of a run: inputs, then outputs
  const char* name;         // of the op, for errors
  mco_asc_launch launch;    // its args and memory are those of each run
  const int64_t* bytes;     // of each tensor
  const int32_t* slots;     // for each parameter before workspace and tiling: a tensor, or -1 for a null pointer
  int32_t slot_count;
  // A parameter may be a list of tensors, which the kernel gets as the address of a descriptor. For each slot: how many
  // tensors from its own on, 0 where it is no list; and how many words of `words` its descriptor begins with, before
  // the addresses of the tensors.
  const int32_t* list_tensors;
  const int32_t* list_words;
  const uint64_t* words;
  const int32_t* copies;  // for each output: the input whose values it starts with, -1 for nothing (zeros), -2 for
                          // zeros that count
  const uint8_t* tiling;
  size_t tiling_size;
  size_t system_workspace, user_workspace;
  // Where tiling depends on values: the host's call, its functions of mco_host/api.h, and for each input its instance
  // in the call when its values count, else -1.
  void* host_call;
  int (*host_data)(void* call, int instance, const void* data);
  int (*host_tile)(void* call, void* tiling, void* failure);
  const int32_t* depends;
} mco_launch;

// Putting a key that is there already keeps the first launch. Returns 0, or 1 with a text in err.
MCO_API int mco_launch_put(const char* key, const mco_launch* launch, char* err, size_t errlen);
// The launch, which lives as long as the process, or null when the key is unknown.
MCO_API const mco_launch* mco_launch_find(const char* key);
// Runs a launch that was found. Returns 0, or 1 with a text in err.
MCO_API int mco_launch_run(const mco_launch* launch, const mco_tensor* tensors, int n, char* err, size_t errlen);

#ifdef __cplusplus
}
#endif

#endif  // MCO_LAUNCH_H_
