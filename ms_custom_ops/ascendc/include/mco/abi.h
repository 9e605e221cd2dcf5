// SPDX-License-Identifier: Apache-2.0
// What a compiled Ascend C kernel and the engine say to each other: C types and functions. Functions that fail do not
// return: the core that called them has ended, with its error.
#ifndef MCO_ASC_ABI_H_
#define MCO_ASC_ABI_H_

#include <stddef.h>
#include <stdint.h>

#define MCO_ASC_ABI 3

#if defined(__GNUC__)
#define MCO_ASC_API __attribute__((visibility("default")))
#else
#define MCO_ASC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Memory that a tensor may lie in: a block of an on-chip memory, or a tensor in GM. Scalar accesses within [lo, hi)
// need no call of the engine.
typedef struct mco_asc_home {
  uint8_t *lo, *hi;
  uint8_t* base;
  int64_t bytes;
  int32_t scope;     // number of the engine
  int32_t position;  // TPosition
} mco_asc_home;

// Where a call stands in the user's source, and its name.
typedef struct mco_asc_where {
  const char* call;
  const char* file;
  uint32_t line;
} mco_asc_where;

// `at` null, not in GM: address 0 of UB, where a tensor that was never set lies on the chip.
typedef struct mco_asc_operand {
  void* at;
  const mco_asc_home* home;  // null: found by the address
  int32_t dtype;             // number of the engine
  int32_t align;             // bytes that the address is a multiple of
  int32_t gm;                // 1: it lies in GM
} mco_asc_operand;

typedef union mco_asc_value {
  int64_t i;
  double f;
} mco_asc_value;

enum {
  MCO_ASC_NO_MASK,   // the instruction has none
  MCO_ASC_KEPT,      // bits[0] elements in all; leaves the mask register as it is
  MCO_ASC_COUNT,     // the same; leaves the mask register full
  MCO_ASC_NUMBER,    // the first bits[0] lanes of each repeat; in counter mode, elements in all
  MCO_ASC_BITS,      // bits[1]:bits[0]
  MCO_ASC_REGISTER,  // what the mask register says
};

// An instruction of the table. Where it has a mask, the engine fills mask0, mask1, repeat and mask_kind, and args and
// attrs are those that follow.
typedef struct mco_asc_call {
  mco_asc_where where;
  uint16_t op;
  uint8_t operands, args, attrs;
  uint8_t mask;
  uint32_t floats;  // bit i: argument i is a float
  uint64_t bits[2];
  int64_t repeat;
} mco_asc_call;

MCO_ASC_API void mco_asc_issue(const mco_asc_call* call, const mco_asc_operand* operands, const mco_asc_value* args,
                               const int64_t* attrs);

// What the core is.
typedef struct mco_asc_core {
  int32_t is_cube;
  int32_t block;   // GetBlockIdx
  int32_t blocks;  // GetBlockNum
  int32_t sub;     // GetSubBlockIdx
  int32_t subs;    // GetSubBlockNum
  int32_t ratio;   // vector cores of a block
  int32_t arch;    // __NPU_ARCH__
  int32_t split;   // cube and vector cores are separate
  uint64_t tiling_key;
  void* pipe;        // the live TPipe
  int64_t observed;  // every access is looked at
  double deq_scale;
  uint64_t deq_word;
  double pad_value;
  double acc_value;      // of the last sum
  double extreme_value;  // of the last maximum or minimum, and its index
  int64_t extreme_index;
  int64_t compacted;   // elements that the last GatherMask kept
  uint16_t merged[4];  // records that the last MrgSort took from each list
  void* user[8];       // of the headers
} mco_asc_core;
MCO_ASC_API mco_asc_core* mco_asc_this_core(const char* call);

MCO_ASC_API int64_t mco_asc_cycles(void);

// Ends the core with an error: "<call>: <what> is <given>; accepted: <accepted>", or the text as it is.
MCO_ASC_API void mco_asc_refuse(const mco_asc_where* where, const char* what, const char* given, const char* accepted)
    __attribute__((noreturn));
MCO_ASC_API void mco_asc_fault(const mco_asc_where* where, const char* format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

// Ends the core where its code would end the process: `at` is where that code goes on, null what mco_asc_throw was told.
MCO_ASC_API void mco_asc_end(const char* call, const char* text, const void* at) __attribute__((noreturn));
// Throws as __cxa_throw does, and remembers where.
MCO_ASC_API void mco_asc_throw(void* thrown, void* type, void (*destroy)(void*), const void* at)
    __attribute__((noreturn));

// Memory that lives until the core ends.
MCO_ASC_API void* mco_asc_keep(size_t bytes);
// Scratch of the headers' own sequences: on-chip memory that no buffer of the user lies in.
MCO_ASC_API const mco_asc_home* mco_asc_scratch(void);
// Mode of the mask register.
MCO_ASC_API void mco_asc_set_mask(uint64_t low, uint64_t high);
MCO_ASC_API void mco_asc_set_mask_mode(int counter);
MCO_ASC_API int mco_asc_mask_mode(void);

// Memory of a scalar access that [lo, hi) does not allow, checked.
// Where nobody knows whether it reads or writes, where cores agree on a word, and of a library function: those accesses
// are all that the engine sees of it, its reads before its writes. How large its elements are stands in bits 8 and up.
enum {
  MCO_ASC_WRITE = 1,
  MCO_ASC_GM = 2,
  MCO_ASC_EITHER = 4,
  MCO_ASC_WORD = 8,
  MCO_ASC_LIBRARY = 16,
  MCO_ASC_ELEMENT_SHIFT = 8
};
MCO_ASC_API void* mco_asc_touch(const mco_asc_where* where, void* at, const mco_asc_home* home, int64_t bytes, int how);
// The rows that the library function at hand computes one by one, `columns` of every `pitch` elements; 0: none.
MCO_ASC_API void mco_asc_rows(int64_t rows, int64_t columns, int64_t pitch);
// A pointer to these bytes is in the kernel's hands: what it does with them nobody sees.
MCO_ASC_API void mco_asc_expose(const void* at, const mco_asc_home* home);
// The GM tensor that an address lies in, or null.
MCO_ASC_API const mco_asc_home* mco_asc_find_gm(const void* at);
MCO_ASC_API const mco_asc_home* mco_asc_place(const mco_asc_where* where, int position, int64_t address, int64_t bytes,
                                              void** at);
MCO_ASC_API uint64_t mco_asc_address(const void* at, const mco_asc_home* home);

// Pipes, queues, buffers: the engine keeps them.
typedef struct mco_asc_pipe mco_asc_pipe;
typedef struct mco_asc_queue mco_asc_queue;
MCO_ASC_API mco_asc_pipe* mco_asc_pipe_new(const mco_asc_where* where);
MCO_ASC_API void mco_asc_pipe_end(mco_asc_pipe* pipe);
MCO_ASC_API void mco_asc_pipe_reset(const mco_asc_where* where, mco_asc_pipe* pipe);
// A queue of `number` blocks of `bytes`, or (depth -1) a buffer of one block.
MCO_ASC_API mco_asc_queue* mco_asc_init_buffer(const mco_asc_where* where, mco_asc_pipe* pipe, int position, int end,
                                               int depth, int number, int64_t bytes);
// A buffer over a part of another one, which becomes a pool.
MCO_ASC_API mco_asc_queue* mco_asc_pool_buffer(const mco_asc_where* where, mco_asc_queue* pool, int position, int end,
                                               int depth, int number, int64_t bytes);
MCO_ASC_API void mco_asc_pool_reset(const mco_asc_where* where, mco_asc_queue* pool);
MCO_ASC_API const mco_asc_home* mco_asc_whole(const mco_asc_where* where, mco_asc_queue* queue);
MCO_ASC_API const mco_asc_home* mco_asc_alloc(const mco_asc_where* where, mco_asc_queue* queue);
// `hop`: source position * 16 + destination position where the call says them, else -1.
MCO_ASC_API void mco_asc_enqueue(const mco_asc_where* where, mco_asc_queue* queue, const mco_asc_home* home, int hop);
MCO_ASC_API const mco_asc_home* mco_asc_dequeue(const mco_asc_where* where, mco_asc_queue* queue, int hop);
MCO_ASC_API void mco_asc_free(const mco_asc_where* where, mco_asc_queue* queue, const mco_asc_home* home);
// Bytes on the chip from `at` on, whose values are not specified from now on.
MCO_ASC_API void mco_asc_unspecified(const mco_asc_where* where, const mco_asc_home* home, const void* at, int64_t bytes);
enum { MCO_ASC_QUEUED, MCO_ASC_VACANT, MCO_ASC_IDLE };
MCO_ASC_API int mco_asc_ask(const mco_asc_where* where, mco_asc_queue* queue, int what);
// What is left of a memory.
MCO_ASC_API const mco_asc_home* mco_asc_rest(const mco_asc_where* where, int position);

// Flags between pipes of one core; event is source pipe * 8 + destination pipe.
MCO_ASC_API void mco_asc_set_flag(const mco_asc_where* where, int event, int id);
MCO_ASC_API void mco_asc_wait_flag(const mco_asc_where* where, int event, int id);
MCO_ASC_API int mco_asc_take_event(const mco_asc_where* where, int event, int keep);
MCO_ASC_API void mco_asc_release_event(const mco_asc_where* where, int event, int id);
MCO_ASC_API void mco_asc_pipe_barrier(const mco_asc_where* where, int pipe);

// Order between cores.
enum { MCO_ASC_ALL_VECTOR, MCO_ASC_ALL_CUBE, MCO_ASC_ALL_CORES };
MCO_ASC_API void mco_asc_sync_all(const mco_asc_where* where, int who, int cores);
MCO_ASC_API void mco_asc_cross_set(const mco_asc_where* where, int pipe, int mode, int id);
MCO_ASC_API void mco_asc_cross_wait(const mco_asc_where* where, int id);
// Waits until the 32-bit word at `at` holds `value`, and leaves 0 there if `take`.
MCO_ASC_API void mco_asc_wait_word(const mco_asc_where* where, int32_t* at, int32_t value, int take);
MCO_ASC_API void mco_asc_wake(const int32_t* at);  // a word that others may wait for has changed
MCO_ASC_API void mco_asc_pause(void);              // lets other cores run

// Has the cube core of this vector core's block call work(argument), and returns when it has. On a cube core, or where
// cube and vector are one core, calls it right away. The cube core runs mco_asc_serve, which returns when the vector
// cores of its block have ended.
MCO_ASC_API void mco_asc_hand(const mco_asc_where* where, void (*work)(void*), void* argument);
MCO_ASC_API void mco_asc_serve(const mco_asc_where* where);
// Ends the core, without an error.
MCO_ASC_API void mco_asc_leave(void) __attribute__((noreturn));

MCO_ASC_API void mco_asc_task_type(const mco_asc_where* where, int type);
MCO_ASC_API void mco_asc_atomic(const mco_asc_where* where, int operation, int dtype);

// Programs of a user's own that launch kernels.
MCO_ASC_API void* mco_asc_gm_alloc(size_t bytes);
MCO_ASC_API void mco_asc_gm_free(void* memory);
MCO_ASC_API void mco_asc_set_tiling_key(uint64_t key);
MCO_ASC_API void mco_asc_set_kernel_mode(int mode);

typedef struct mco_asc_memory {
  void* data;
  int64_t bytes;
  const char* name;
  int64_t fresh;   // bytes at its end that hold nothing yet
  int32_t output;  // holds nothing yet, and has to hold something in the end
  int32_t reserved;
} mco_asc_memory;

typedef struct mco_findings mco_findings;  // of the engine's capi.h

typedef struct mco_asc_launch {
  uint32_t struct_size;
  uint32_t abi;
  void (*entry[2])(const void* const* args);  // of cube cores, of vector cores
  const void* const* args;                    // addresses of the values
  const mco_asc_memory* memory;
  int32_t memories;
  int32_t strict;  // GM is what `memory` lists
  int32_t blocks;
  int32_t kind;  // KernelMetaType, or -1: as the kernel says, else vector cores alone
  uint64_t tiling_key;
  const int64_t* scope_bytes;  // of the chip, in the order of mco_core_new
  int32_t saturate;
  int32_t split;
  int32_t arch;
  int32_t threads;
  int32_t reverse;
  int32_t check;  // what the kernel does is looked at; every core runs on one thread
  double time_limit;
  int (*poll)(void);
  int32_t check_values;  // also results that are NaN or saturated
  int32_t keep_memory;   // on-chip memory holds what earlier launches left, as on a chip; 0: bytes 0xFF
  mco_findings** findings;  // of a checked launch, to be freed; null: they are the error of the launch
} mco_asc_launch;
// 0, 1 with a text in err, or 2 when poll stopped it.
MCO_ASC_API int mco_asc_run(const mco_asc_launch* launch, char* err, size_t errlen);
// A launch of a program's own: the chip is Ascend910B1, or by its __NPU_ARCH__ Ascend310P3; an error is printed and
// ends the program.
MCO_ASC_API void mco_asc_run_alone(void (*entry)(const void* const* args), const void* const* args, int64_t blocks,
                                   int kind, int arch);

// An entry of a library.
typedef struct mco_asc_argument {
  char kind;  // p pointer, i signed, u unsigned, f float, h float16, b bfloat16, s struct
  uint32_t bytes;
} mco_asc_argument;
typedef struct mco_asc_entry_info {
  uint32_t abi;
  uint32_t count;
  const mco_asc_argument* arguments;
  void (*call)(const void* const* args);
  int32_t kind;  // of the library's kernels where they do not say
} mco_asc_entry_info;

#ifdef __cplusplus
}
#endif

#endif  // MCO_ASC_ABI_H_
