// SPDX-License-Identifier: Apache-2.0
// C interface of the engine: pure C types, no exception leaves it. Used by ctypes from Python and by the MindSpore
// glue, which is compiled against another C++ ABI.
#ifndef MCO_CAPI_H_
#define MCO_CAPI_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MCO_API __attribute__((visibility("default")))
#else
#define MCO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mco_program mco_program;

// Memory of one GM tensor. `data` may be null when `bytes` is 0. Any alignment.
typedef struct mco_tensor {
  void* data;
  int64_t bytes;
} mco_tensor;

// Value of one InputScalar: `i` for integer registers (uint64 as its bit pattern), `f` for float registers.
typedef struct mco_scalar {
  int64_t i;
  double f;
} mco_scalar;

enum { MCO_MODE_FAST = 0, MCO_MODE_COUNTED = 1, MCO_MODE_CHECKED = 2, MCO_MODE_MEASURED = 3 };

// What a checked run found.
typedef struct mco_findings mco_findings;

// A null pointer stands for the defaults; set `struct_size` to sizeof(mco_options).
typedef struct mco_options {
  uint32_t struct_size;
  int32_t mode;           // MCO_MODE_FAST, _COUNTED, _CHECKED or _MEASURED; others are refused
  int32_t threads;        // 0: the number set by mco_set_threads
  int32_t deterministic;  // 1: atomic adds land in block order; 0: at once
  double time_limit;      // seconds; 0: the limit of mco_set_time_limit; below 0: none
  int (*poll)(void);      // null, or called every 50 ms on the calling thread: other than 0 stops the run
  int64_t* counts;        // COUNTED, MEASURED: mco_program_steps numbers, to which the executions of each are added
  mco_findings**
      findings;          // MCO_MODE_CHECKED: the findings, to be freed; null: the first ones are the error of the run
  int32_t events;        // MCO_MODE_CHECKED: flags between two pipes; 0, and within_pipe then: as the chip says
  int32_t values;        // MCO_MODE_CHECKED: 1: also results that are NaN or saturated
  int32_t within_pipe;   // MCO_MODE_CHECKED: 1: within disable_sync only pipe_barrier orders memory within a pipe
  int64_t* nanoseconds;  // MCO_MODE_MEASURED: null, or as many numbers, to which the time of each step is added
  int64_t* work;         // MCO_MODE_MEASURED: null, or three numbers per step: bytes read, bytes written, operations
                         // of products
} mco_options;

// `kind`: out_of_bounds, uninitialized_read, ... (findings.cc). Files and names live as long as the program, texts as
// long as the findings. `buffer`: a name, or null. `file` may be empty; `other_line` 0: there is no second line.
typedef struct mco_finding {
  const char* kind;
  const char* text;
  const char* file;
  const char* other_file;
  const char* buffer;
  uint32_t line, other_line;
  int64_t core, lo, hi, count;
  const char* core_name;  // null: a core is what its number says
} mco_finding;
MCO_API int64_t mco_findings_count(const mco_findings* findings);
MCO_API int64_t mco_findings_dropped(const mco_findings* findings);  // events at further places
MCO_API int mco_findings_get(const mco_findings* findings, int64_t index, mco_finding* out);
MCO_API void mco_findings_free(mco_findings* findings);

// Whether runs whose options ask for the fast mode are checked: then findings are the error of a run.
MCO_API void mco_set_check(int on);
MCO_API int mco_get_check(void);

// Decodes and checks `size` bytes of a Program. Returns 0 and a program with one reference, or 1 with a text in err.
MCO_API int mco_load(const uint8_t* bytes, size_t size, mco_program** out, char* err, size_t errlen);
// Drops one reference. A program that still runs lives until the run ends.
MCO_API void mco_free(mco_program* program);

// Runs a program on `n` tensors (inputs, then outputs) and `ns` scalars. Returns 0, or 1 with a text in err, or 2 when
// options.poll stopped it.
// Safe to call from several threads at once, also with the same program.
MCO_API int mco_run(const mco_program* program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
                    const mco_options* options, char* err, size_t errlen);

enum { MCO_MAX_RANK = 16 };

// One operand of a program. `dtype` is the code of the binary form; unknown dims are -1; bytes is -1 when unknown.
typedef struct mco_io {
  const char* name;
  int32_t dtype;
  int32_t rank;
  int64_t dims[MCO_MAX_RANK];
  int64_t bytes;
} mco_io;

// Numbers of inputs, outputs and input scalars; any pointer may be null.
MCO_API int mco_program_counts(const mco_program* program, int* inputs, int* outputs, int* scalars);
// Operand `index` of inputs then outputs then scalars (rank 0). Returns 0, or 1 when there is no such operand.
// The name lives as long as the program.
MCO_API int mco_program_io(const mco_program* program, int index, mco_io* out);
// Value of a meta entry of the program, or null.
MCO_API const char* mco_program_meta(const mco_program* program, const char* key);

// Steps of the program's stream. Of a step: what it does (an instruction's name, or "for", whose count is its rounds,
// "if", "assign", "load", "store", "alloc") and where it stands. Returns 1 for steps without a meaning of their own.
MCO_API int64_t mco_program_steps(const mco_program* program);
MCO_API int mco_program_step(const mco_program* program, int64_t step, const char** name, const char** file,
                             uint32_t* line);
// The scopes (bit s: that with number s) of the operands that an instruction reads and of those that it writes, and the
// number of its pipe, -1: none. Returns 1 for a step that is no instruction.
MCO_API int mco_program_step_route(const mco_program* program, int64_t step, uint32_t* read, uint32_t* written,
                                   int32_t* pipe);
// Whether a step is made together with a product, not by itself: a load2d that copies nothing, a fixpipe that finds the
// result in its place.
MCO_API int mco_program_step_straight(const mco_program* program, int64_t step);

// The table of programs of this process. Putting a key that is there already keeps the first program.
MCO_API int mco_table_put(const char* key, const uint8_t* bytes, size_t size, char* err, size_t errlen);
// A new reference (mco_free gives it back), or null when the key is unknown.
MCO_API const mco_program* mco_table_find(const char* key);
MCO_API int64_t mco_table_size(void);

// Threads a run uses at most; n < 1 restores the number of hardware threads.
MCO_API void mco_set_threads(int n);
MCO_API int mco_get_threads(void);

// Limit in seconds of runs whose options name none; 0: none.
MCO_API void mco_set_time_limit(double seconds);

// SIMD level: "generic", "avx2", "avx512", or "auto" for the best one here. Returns 1 with a text when it is not
// available.
MCO_API int mco_set_isa(const char* name, char* err, size_t errlen);
MCO_API const char* mco_get_isa(void);

// n values of src as dst, each float16, bfloat16 or float32 by its code: rounded to nearest even, infinity beyond the
// range. Returns 1 for other dtypes, a negative n or no memory.
MCO_API int mco_cast_floats(void* dst, int dst_dtype, const void* src, int src_dtype, int64_t n);

// A core that executes one instruction at a time (core.h). `scope_bytes`: sizes of gm (unused), ub, l1, l0a, l0b, l0c,
// bt, smask, which are the numbers of the scopes. The numbers of buffers and registers count from 0 in their order.
typedef struct mco_core mco_core;
typedef struct mco_place {
  uint32_t buffer;
  int32_t dtype;
  int64_t offset;  // in elements of that dtype
} mco_place;
typedef struct mco_argument {
  int32_t dtype;  // of the value
  int32_t reg;    // -1, or the register whose value it is
  mco_scalar value;
} mco_argument;
MCO_API int mco_core_new(const int64_t* scope_bytes, int saturate, mco_core** out, char* err, size_t errlen);
MCO_API void mco_core_free(mco_core* core);
MCO_API int mco_core_tensor(mco_core* core, const char* name, int dtype, void* data, int64_t bytes, uint32_t* buffer,
                            char* err, size_t errlen);
MCO_API int mco_core_buffer(mco_core* core, const char* name, int scope, int dtype, int64_t address, int64_t bytes,
                            uint32_t* buffer, char* err, size_t errlen);
MCO_API int mco_core_memory(mco_core* core, uint32_t buffer, void** data, int64_t* bytes, char* err, size_t errlen);
MCO_API int mco_core_register(mco_core* core, const char* name, int dtype, uint32_t* reg, char* err, size_t errlen);
MCO_API int mco_core_set(mco_core* core, uint32_t reg, mco_scalar value, char* err, size_t errlen);
MCO_API int mco_core_issue(mco_core* core, const char* row, const mco_place* operands, int n,
                           const mco_argument* arguments, int na, const int64_t* attributes, int nattrs,
                           const char* file, uint32_t line, char* err, size_t errlen);

// Timed runs: a program on the cost model of a chip, for which data are computed only where control flow needs them.
typedef struct mco_row_cost {
  const char* row;
  int32_t pipe;      // number of the pipe, or -1: by the scopes of its operands
  double startup;    // cycles
  double cycles[3];  // per repeat of 256 bytes, by the widest operand: 1, 2, 4 bytes
} mco_row_cost;
typedef struct mco_timing_request {
  const double* chip;  // in the order of mco_chip_value
  int32_t chip_values;
  const mco_row_cost* rows;  // one for each instruction
  int32_t row_count;
  const int32_t* route;  // pipe of a move, -1: none, by number of dst scope * 8 + number of src scope
  int32_t execute;       // 0: all where control flow reads memory, else few; 1: all; 2: those with integer results
  int64_t traced_blocks, traced_slices;  // of how many blocks slices are kept, and how many of each
} mco_timing_request;
typedef struct mco_slice {
  int32_t step, lane, reason, block;
  double start, end, wait, bytes;
} mco_slice;
typedef struct mco_timing mco_timing;
// Name of a number of a chip, or null behind the last.
MCO_API const char* mco_chip_value(int index);
// Arguments and results as of mco_run; of options, threads, time_limit and poll count.
MCO_API int mco_time(const mco_program* program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
                     const mco_options* options, const mco_timing_request* request, mco_timing** out, char* err,
                     size_t errlen);
MCO_API void mco_timing_free(mco_timing* timing);
// A launch of an Ascend C kernel, as of mco_asc_run but on one thread, run twice; its memory is put back in between.
// Blocks are its cores, those of a block one behind the other, cube cores first. `cube_cores`, `vector_cores`: of the
// chip. Returns 0, 1 with a text in err, or 2 when the launch's poll stopped it.
struct mco_asc_launch;
MCO_API int mco_asc_time(const struct mco_asc_launch* launch, const mco_timing_request* request, int32_t cube_cores,
                         int32_t vector_cores, mco_timing** out, char* err, size_t errlen);
typedef struct mco_launch_shape {
  int32_t cubes, vectors;  // cores of a block
  int64_t used[8];         // bytes of each on-chip memory that buffers of a core lie in, by number of the scope
} mco_launch_shape;
MCO_API void mco_timing_shape(const mco_timing* timing, mco_launch_shape* out);
// The call that a step stands for, and its place. Returns 1 where there is no such step.
MCO_API int mco_timing_call(const mco_timing* timing, int64_t step, const char** call, const char** file,
                            uint32_t* line);
// Numbers of every block (BlockSum of timing.h), of every step (count, busy, wait, bytes), and the slices. Times are in
// 1/256 cycles but for those of slices. Returns how many there are; nothing is written unless all have room.
MCO_API int64_t mco_timing_blocks(const mco_timing* timing, int64_t* out, int64_t room);
MCO_API int64_t mco_timing_steps(const mco_timing* timing, int64_t* out, int64_t room);
MCO_API int64_t mco_timing_slices(const mco_timing* timing, mco_slice* out, int64_t room);

// The bytes that operand `operand` of such an instruction is touched on, without executing it: `count` boxes, of which
// at most `most` are written, six numbers each (start, bytes, count, step, outer_count, outer_step; program/access);
// `exact` 0: at most these bytes.
MCO_API int mco_core_access(mco_core* core, const char* row, const mco_place* operands, int n,
                            const mco_argument* arguments, int na, const int64_t* attributes, int nattrs, int operand,
                            int64_t* boxes, int64_t most, int64_t* count, int* exact, char* err, size_t errlen);

MCO_API const char* mco_version(void);

#ifdef __cplusplus
}
#endif

#endif  // MCO_CAPI_H_
