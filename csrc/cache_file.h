// SPDX-License-Identifier: Apache-2.0
// The formats of the program cache, in C so that Python (ctypes) and the MindSpore glue (another C++ ABI) share the one
// implementation: the key of a call, the name of its file, the file, the digest of a source.
//
// A file is "MCOC", u32 version, u32 bytes of the key, u32 zero, u64 bytes of the program, the SHA-256 of all of that
// and of what follows, the key, the program; little-endian.
#ifndef MCO_CACHE_FILE_H_
#define MCO_CACHE_FILE_H_

#include "capi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MCO_CACHE_HEADER = 56, MCO_CACHE_NAME = 192, MCO_DIGEST = 65 };

// "<prefix>|float16[1,2];float32[8]" of `n` tensors, with a zero at the end. Returns its length; when that is not below
// `size` nothing is written.
MCO_API size_t mco_cache_key(const char* prefix, int n, const char* const* dtypes, const int* ndims,
                             const int64_t* const* shapes, char* out, size_t size);
// "<op>-<40 digits>.mcop" into `out` (MCO_CACHE_NAME bytes). Returns 1 with a text when `op` is no plain name.
MCO_API int mco_cache_name(const char* op, const char* key, char* out, char* err, size_t errlen);
// The MCO_CACHE_HEADER bytes in front of key and program. Returns 1 with a text when the entry is too large.
MCO_API int mco_cache_header(const char* key, const uint8_t* program, size_t size, uint8_t* out, char* err,
                             size_t errlen);
// Where the program begins in an intact entry of `key`; it ends with the entry. Returns 1 with a text when it is none.
MCO_API int mco_cache_unpack(const uint8_t* entry, size_t size, const char* key, size_t* begin, char* err,
                             size_t errlen);
// The program of an intact entry of `key` in a file that only this user (or root) can have written; mco_cache_free
// gives it back. Returns 0, or 1 with a text when the file is refused, or -errno when it cannot be read.
MCO_API int mco_cache_read(const char* path, const char* key, uint8_t** program, size_t* size, char* err,
                           size_t errlen);
MCO_API void mco_cache_free(uint8_t* program);
// 64 hexadecimal digits of the SHA-256 of a plain file and a zero. Returns 0, or 1 when it is none.
MCO_API int mco_file_digest(const char* path, char* out);

#ifdef __cplusplus
}
#endif

#endif  // MCO_CACHE_FILE_H_
