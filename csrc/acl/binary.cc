// SPDX-License-Identifier: Apache-2.0
// Binaries: their bytes are looked at before any of them is code.
#include "binary.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "../sha256.h"
#include "plan.h"

namespace mco_acl {
namespace {

constexpr char kMagic[] = "MCOASCB\n";
constexpr size_t kMagicBytes = 8, kHeaderBytes = kMagicBytes + 4 + 4 + 8 + mco::Sha256::kBytes;
constexpr uint32_t kVersion = 1, kMostKernels = 256, kMostName = 1024, kMostParams = 256;
constexpr size_t kMostAlign = 8;
constexpr char kAccepted[] = "what `ms-custom-ops ascendc build` wrote, or aclrtcGetBinData gave";

struct Told {
  const char* call;
  int status;
};

// Reads what a caller gave; nothing behind its end.
class Bytes {
 public:
  Bytes(const Told& told, const char* data, size_t size) : told_(told), at_(data), left_(size) {}

  const char* take(uint64_t size) {
    if (size > left_) refuse(told_.status, "%s: a binary that ends early; accepted: %s", told_.call, kAccepted);
    const char* from = at_;
    at_ += size, left_ -= size_t(size);
    return from;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  size_t left() const { return left_; }

 private:
  const Told& told_;
  const char* at_;
  size_t left_;
};

constexpr size_t kElfMachineAt = 18;
constexpr char kElfMagic[] = "\x7f\x45\x4c\x46";

// What the beginning of foreign bytes says.
std::string foreign(const char* data, size_t size) {
  if (size < kElfMachineAt + 2 || std::memcmp(data, kElfMagic, 4) != 0) return "no binary of this package";
  uint16_t machine = 0;
  std::memcpy(&machine, data + kElfMachineAt, sizeof machine);
  return text(
      "an ELF file of machine 0x%x, which is no kernel here: compilers for the AI core write code that this machine "
      "cannot run",
      machine);
}

void check_header(const Told& told, const char* data, size_t size) {
  if (size < kMagicBytes || std::memcmp(data, kMagic, kMagicBytes) != 0) {
    refuse(told.status, "%s: %s; accepted: %s", told.call, foreign(data, size).c_str(), kAccepted);
  }
  Bytes bytes(told, data, size);
  bytes.take(kMagicBytes);
  const uint32_t version = bytes.number<uint32_t>(), abi = bytes.number<uint32_t>();
  if (version != kVersion || abi != MCO_ASC_ABI) {
    refuse(told.status, "%s: a binary of version %u.%u; accepted: %u.%u, of this version of the package", told.call,
           version, abi, kVersion, unsigned(MCO_ASC_ABI));
  }
  const uint64_t behind = bytes.number<uint64_t>();
  const char* digest = bytes.take(mco::Sha256::kBytes);
  if (behind != bytes.left()) {
    refuse(told.status, "%s: a binary of %zu bytes; accepted: the %llu that its header tells", told.call, size,
           static_cast<unsigned long long>(behind) + kHeaderBytes);
  }
  uint8_t found[mco::Sha256::kBytes];
  mco::Sha256 hash;
  hash.Update(reinterpret_cast<const uint8_t*>(data) + kHeaderBytes, size - kHeaderBytes);
  hash.Finish(found);
  if (std::memcmp(found, digest, sizeof found) != 0) {
    refuse(told.status, "%s: a damaged binary, whose SHA-256 does not match; accepted: %s", told.call, kAccepted);
  }
}

// A file without a name, whose descriptor stays open: the loader knows libraries by their paths.
void* map_library(const Told& told, const char* data, size_t size) {
  const int file = int(syscall(SYS_memfd_create, "mco_kernel", 1u /* MFD_CLOEXEC */));
  if (file < 0) refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no memory for code: %s", told.call, std::strerror(errno));
  for (size_t at = 0; at < size;) {
    const ssize_t n = write(file, data + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(file);
      refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no memory for %zu bytes of code", told.call, size);
    }
    at += size_t(n);
  }
  const std::string path = text("/proc/%d/fd/%d", int(getpid()), file);
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle) return handle;
  const char* reason = dlerror();
  const std::string why = reason ? reason : "no reason given";
  close(file);
  refuse(told.status, "%s: the kernel's library cannot be loaded: %s", told.call, why.c_str());
}

// Equal libraries are one.
void* library(const Told& told, const char* data, size_t size) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, void*>;
  char digest[65];
  mco::Sha256::Hex(data, size, digest);
  const std::lock_guard<std::mutex> lock(mutex);
  void*& found = known[digest];
  if (!found) found = map_library(told, data, size);
  return found;
}

// How a member of a struct that holds the arguments is aligned. Of a struct by value only the size is known.
size_t alignment(uint32_t bytes) {
  size_t align = 1;
  while (align < kMostAlign && bytes % (2 * align) == 0) align *= 2;
  return align;
}

void take_params(const Told& told, const mco_asc_entry_info& info, Kernel* kernel) {
  if (info.count > kMostParams) refuse(told.status, "%s: a kernel of %u parameters", told.call, info.count);
  for (uint32_t i = 0; i < info.count; ++i) {
    const mco_asc_argument& argument = info.arguments[i];
    const size_t align = argument.bytes ? alignment(argument.bytes) : 1;
    const size_t offset = (kernel->size + align - 1) / align * align;
    kernel->params.push_back({argument.kind, argument.bytes, offset});
    kernel->size = offset + argument.bytes;
  }
}

std::shared_ptr<const Kernel> take_kernel(const Told& told, Bytes& bytes, const Kernel& chip) {
  auto kernel = std::make_shared<Kernel>(chip);
  kernel->launch.scope_bytes = kernel->scopes;
  const uint32_t letters = bytes.number<uint32_t>();
  if (!letters || letters > kMostName) refuse(told.status, "%s: a kernel whose name has %u bytes", told.call, letters);
  kernel->name.assign(bytes.take(letters), letters);
  const uint32_t libraries = bytes.number<uint32_t>();
  if (libraries < 1 || libraries > 2) refuse(told.status, "%s: a kernel of %u libraries", told.call, libraries);
  for (uint32_t i = 0; i < libraries; ++i) {
    const uint64_t size = bytes.number<uint64_t>();
    const char* data = bytes.take(size);
    void* handle = library(told, data, size_t(size));
    auto entry = reinterpret_cast<const mco_asc_entry_info* (*)()>(dlsym(handle, "mco_asc_entry"));
    kernel->run = reinterpret_cast<decltype(&mco_asc_run)>(dlsym(handle, "mco_asc_run"));
    const mco_asc_entry_info* info = entry ? entry() : nullptr;
    if (!info || !kernel->run || info->abi != MCO_ASC_ABI) {
      refuse(told.status, "%s: %s was built by another version of this package", told.call, kernel->name.c_str());
    }
    if (i == 0) {
      kernel->launch.entry[0] = info->call, kernel->launch.kind = info->kind;
      take_params(told, *info, kernel.get());
      configure_launch(handle, &kernel->launch);
    } else if (info->count != kernel->params.size()) {
      refuse(told.status, "%s: %s has other parameters on vector cores", told.call, kernel->name.c_str());
    }
    kernel->launch.entry[1] = info->call;
  }
  return kernel;
}

}  // namespace

void* Binary::keep(std::shared_ptr<Object> object, Kind kind) {
  void* handle = enroll(std::move(object), kind);
  const std::lock_guard<std::mutex> lock(mutex);
  handles.emplace_back(handle, kind);
  return handle;
}

std::shared_ptr<Function> function_of(const char* call, aclrtFuncHandle handle) {
  auto found = find<Function>(handle, Kind::kFunction);
  if (!found) {
    refuse(ACL_ERROR_RT_INVALID_HANDLE,
           "%s: funcHandle is no function, or its binary was unloaded; accepted: what aclrtBinaryGetFunction gave",
           call);
  }
  return found;
}

std::shared_ptr<Binary> read_binary(const char* call, int status, const char* data, size_t size) {
  const Told told{call, status};
  check_header(told, data, size);
  Bytes bytes(told, data + kHeaderBytes, size - kHeaderBytes);
  Kernel chip;
  chip.launch.struct_size = sizeof chip.launch, chip.launch.abi = MCO_ASC_ABI, chip.launch.strict = 1;
  chip.launch.saturate = bytes.number<int32_t>(), chip.launch.split = bytes.number<int32_t>();
  chip.launch.arch = bytes.number<int32_t>();
  const uint32_t count = bytes.number<uint32_t>();
  if (count < 1 || count > kMostKernels) refuse(status, "%s: a binary of %u kernels", call, count);
  for (int64_t& scope : chip.scopes) {
    scope = bytes.number<int64_t>();
    if (scope < 0 || scope > INT32_MAX) refuse(status, "%s: a binary for a chip with impossible memories", call);
  }
  auto binary = std::make_shared<Binary>();
  for (uint32_t i = 0; i < count; ++i) binary->kernels.push_back(take_kernel(told, bytes, chip));
  if (bytes.left()) refuse(status, "%s: a binary with %zu bytes behind its end", call, bytes.left());
  return binary;
}

}  // namespace mco_acl
