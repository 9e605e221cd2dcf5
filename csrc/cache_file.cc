// SPDX-License-Identifier: Apache-2.0
#include "cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "sha256.h"

namespace {

constexpr char kMagic[] = "MCOC";
constexpr uint32_t kVersion = 2;
constexpr size_t kPlain = 24;               // of the header: all but the digest
constexpr uint64_t kMaxEntry = 1ull << 28;  // bytes; Programs have a few million
constexpr size_t kNameDigits = 40;
constexpr size_t kOpBytes = 128;

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int Told(const std::string& text, char* err, size_t errlen) {
  if (errlen > 0) {
    const size_t n = std::min(text.size(), errlen - 1);
    std::memcpy(err, text.data(), n);
    err[n] = 0;
  }
  return 1;
}

template <typename T>
T Field(const uint8_t* raw, size_t at) {
  T value;
  std::memcpy(&value, raw + at, sizeof(value));
  return value;
}

void Digest(const uint8_t* header, const uint8_t* key, size_t key_bytes, const uint8_t* program, size_t size,
            uint8_t out[mco::Sha256::kBytes]) {
  mco::Sha256 hash;
  hash.Update(header, kPlain);
  hash.Update(key, key_bytes);
  hash.Update(program, size);
  hash.Finish(out);
}

class File {
 public:
  // Never waits (a FIFO would), never follows a link when `own`.
  File(const char* path, bool own) : fd_(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (own ? O_NOFOLLOW : 0))) {
    error_ = fd_ < 0 ? errno : 0;
    if (fd_ >= 0 && fstat(fd_, &status_)) error_ = errno;
  }
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int error() const { return error_; }
  const struct stat& status() const { return status_; }
  // Up to `size` bytes; fewer at the end of the file.
  size_t Read(uint8_t* out, size_t size) {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = read(fd_, out + done, size - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error_ = errno;
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  int fd_, error_;
  struct stat status_{};
};

void CheckOwner(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) throw Refused("not a plain file");
  if (status.st_uid != geteuid() && status.st_uid != 0) throw Refused("the file belongs to another user");
  if (status.st_mode & (S_IWGRP | S_IWOTH)) throw Refused("other users may write to the file");
}

struct Free {
  void operator()(uint8_t* p) const { std::free(p); }
};

// Bytes of the program in an entry of `bytes`, by its header.
uint64_t CheckHeader(const uint8_t* header, uint64_t bytes) {
  if (bytes < MCO_CACHE_HEADER || std::memcmp(header, kMagic, 4) != 0) {
    throw Refused("not a program cache file (no MCOC header)");
  }
  const uint32_t version = Field<uint32_t>(header, 4);
  if (version != kVersion) {
    throw Refused("cache file version " + std::to_string(version) + "; this release reads version " +
                  std::to_string(kVersion));
  }
  const uint64_t key_bytes = Field<uint32_t>(header, 8), program_bytes = Field<uint64_t>(header, 16);
  const uint64_t body = bytes - MCO_CACHE_HEADER;
  if (key_bytes > body || program_bytes != body - key_bytes) {
    throw Refused(std::to_string(body) + " bytes after the header instead of those it announces: truncated");
  }
  if (body > kMaxEntry) throw Refused("larger than any Program");
  return program_bytes;
}

// Where the program of `key` begins in a whole entry.
size_t CheckEntry(const uint8_t* entry, size_t bytes, const char* key) {
  const uint64_t program_bytes = CheckHeader(entry, bytes);
  const size_t key_bytes = bytes - MCO_CACHE_HEADER - program_bytes;
  const uint8_t *found = entry + MCO_CACHE_HEADER, *program = found + key_bytes;
  uint8_t digest[mco::Sha256::kBytes];
  Digest(entry, found, key_bytes, program, program_bytes, digest);
  if (std::memcmp(digest, entry + kPlain, sizeof(digest)) != 0) {
    throw Refused("the SHA-256 does not match: the file is corrupt");
  }
  if (std::strlen(key) != key_bytes || std::memcmp(found, key, key_bytes) != 0) {
    throw Refused("the file belongs to another key");
  }
  return MCO_CACHE_HEADER + key_bytes;
}

// The program, or null when a read failed (file.error()).
std::unique_ptr<uint8_t, Free> ReadEntry(File& file, const char* key, size_t* size) {
  CheckOwner(file.status());
  const uint64_t bytes = static_cast<uint64_t>(file.status().st_size);
  uint8_t header[MCO_CACHE_HEADER] = {};
  const size_t first = file.Read(header, sizeof(header));
  if (file.error()) return nullptr;
  CheckHeader(header, first < sizeof(header) ? first : bytes);  // before memory is taken for it
  std::unique_ptr<uint8_t, Free> entry(static_cast<uint8_t*>(std::malloc(bytes)));
  if (!entry) throw std::bad_alloc();
  std::memcpy(entry.get(), header, sizeof(header));
  const size_t got = file.Read(entry.get() + sizeof(header), bytes - sizeof(header));
  if (file.error()) return nullptr;
  if (got != bytes - sizeof(header)) throw Refused("truncated while it was read");
  const size_t begin = CheckEntry(entry.get(), bytes, key);
  *size = bytes - begin;
  std::memmove(entry.get(), entry.get() + begin, *size);
  return entry;
}

}  // namespace

extern "C" {

size_t mco_cache_key(const char* prefix, int n, const char* const* dtypes, const int* ndims,
                     const int64_t* const* shapes, char* out, size_t size) {
  std::string key = std::string(prefix) + "|";
  for (int i = 0; i < n; i++) {
    key += (i ? ";" : "") + std::string(dtypes[i]) + "[";
    for (int d = 0; d < ndims[i]; d++) key += (d ? "," : "") + std::to_string(shapes[i][d]);
    key += "]";
  }
  if (key.size() < size) std::memcpy(out, key.c_str(), key.size() + 1);
  return key.size();
}

int mco_cache_name(const char* op, const char* key, char* out, char* err, size_t errlen) {
  const std::string name(op);
  const bool plain = !name.empty() && name.size() <= kOpBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!plain) {
    return Told(
        "program cache: op is '" + name + "'; accepted: 1 to " + std::to_string(kOpBytes) + " letters, digits and '_'",
        err, errlen);
  }
  char digits[MCO_DIGEST];
  mco::Sha256::Hex(key, std::strlen(key), digits);
  const std::string file = name + "-" + std::string(digits, kNameDigits) + ".mcop";
  std::memcpy(out, file.c_str(), file.size() + 1);
  return 0;
}

int mco_cache_header(const char* key, const uint8_t* program, size_t size, uint8_t* out, char* err, size_t errlen) {
  const size_t key_bytes = std::strlen(key);
  if (key_bytes > kMaxEntry || size > kMaxEntry - key_bytes) {
    return Told("program cache: an entry of " + std::to_string(key_bytes + size) + " bytes; accepted: up to " +
                    std::to_string(kMaxEntry),
                err, errlen);
  }
  const uint32_t words[] = {kVersion, static_cast<uint32_t>(key_bytes), 0};
  const uint64_t bytes = size;
  std::memcpy(out, kMagic, 4);
  std::memcpy(out + 4, words, sizeof(words));
  std::memcpy(out + 16, &bytes, sizeof(bytes));
  Digest(out, reinterpret_cast<const uint8_t*>(key), key_bytes, program, size, out + kPlain);
  return 0;
}

int mco_cache_unpack(const uint8_t* entry, size_t size, const char* key, size_t* begin, char* err, size_t errlen) {
  try {
    *begin = CheckEntry(entry, size, key);
    return 0;
  } catch (const std::exception& error) {
    return Told(error.what(), err, errlen);
  }
}

int mco_cache_read(const char* path, const char* key, uint8_t** program, size_t* size, char* err, size_t errlen) {
  *program = nullptr;
  *size = 0;
  try {
    File file(path, true);
    if (file.error() == ELOOP) throw Refused("not a plain file");
    if (file.error() == ENXIO) throw Refused("not a plain file");  // a socket, or a device that is not there
    if (file.error()) return -file.error();
    std::unique_ptr<uint8_t, Free> entry = ReadEntry(file, key, size);
    if (file.error()) return -file.error();
    *program = entry.release();
    return 0;
  } catch (const std::exception& error) {
    return Told(error.what(), err, errlen);
  }
}

void mco_cache_free(uint8_t* program) { std::free(program); }

int mco_file_digest(const char* path, char* out) {
  File file(path, false);
  if (file.error() || !S_ISREG(file.status().st_mode)) return 1;
  mco::Sha256 hash;
  uint8_t chunk[1 << 14];
  while (const size_t n = file.Read(chunk, sizeof(chunk))) hash.Update(chunk, n);
  if (file.error()) return 1;
  hash.FinishHex(out);
  return 0;
}

}  // extern "C"
