// SPDX-License-Identifier: Apache-2.0
// The first step of a fibre is a switch of ucontext, which asks the system for the mask of signals each time; the
// others are jumps between stacks, which do not: cores switch several times for each tile.
#undef _FORTIFY_SOURCE  // refuses jumps to another stack
#include "asc_fibre.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace mco::asc {

namespace {

constexpr size_t kStackBytes = size_t(1) << 20;

size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }

// Rounding and the like, which a jump leaves as they are: each side keeps its own.
class FloatingPointMode {
#if defined(__SSE2__)
 public:
  FloatingPointMode() : saved_(_mm_getcsr()) {}
  void restore() const { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#else
 public:
  FloatingPointMode() { std::fegetenv(&saved_); }
  void restore() const { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
};

#if defined(MCO_ASC_ASAN)
extern "C" void __asan_unpoison_memory_region(const volatile void* at, size_t size);
extern "C" void __sanitizer_start_switch_fiber(void** fake, const void* bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake, const void** bottom, size_t* size);
void clean_stack(void* bottom, size_t size) { __asan_unpoison_memory_region(bottom, size); }
void before_switch(void** fake, const void* bottom, size_t size) { __sanitizer_start_switch_fiber(fake, bottom, size); }
void after_switch(void* fake, const void** bottom, size_t* size) {
  __sanitizer_finish_switch_fiber(fake, bottom, size);
}
constexpr bool kJumps = false;  // the sanitizer forgets its marks on a stack that is jumped from
#else
void clean_stack(void*, size_t) {}
void before_switch(void**, const void*, size_t) {}
void after_switch(void*, const void**, size_t*) {}
constexpr bool kJumps = true;
#endif

}  // namespace

Fibre::Fibre() {
  const size_t page = page_bytes();
  bytes_ = kStackBytes + page;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("out of memory: the stack of a core");
  mprotect(memory, page, PROT_NONE);
  stack_ = static_cast<uint8_t*>(memory);
}

Fibre::~Fibre() { munmap(stack_, bytes_); }

void Fibre::begin(void (*enter)()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_ + page_bytes();
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  clean_stack(context_.uc_stack.ss_sp, context_.uc_stack.ss_size);
  makecontext(&context_, enter, 0);
  begun_ = false;
}

void Fibre::step(Shore& shore) {
  const FloatingPointMode mode;
  void* fake = nullptr;
  before_switch(&fake, stack_, bytes_);
  if (!kJumps) {
    swapcontext(&shore.context, &context_);
  } else if (!sigsetjmp(shore.jump, 0)) {
    if (begun_) siglongjmp(jump_, 1);
    begun_ = true;
    setcontext(&context_);
  }
  after_switch(fake, nullptr, nullptr);
  mode.restore();
}

void Fibre::arrive(Shore& shore) { after_switch(nullptr, &shore.stack, &shore.stack_bytes); }

void Fibre::rest(Shore& shore) {
  const FloatingPointMode mode;
  before_switch(&fake_, shore.stack, shore.stack_bytes);
  if (!kJumps) {
    swapcontext(&context_, &shore.context);
  } else if (!sigsetjmp(jump_, 0)) {
    siglongjmp(shore.jump, 1);
  }
  after_switch(fake_, &shore.stack, &shore.stack_bytes);
  mode.restore();
}

void Fibre::leave(Shore& shore) {
  before_switch(nullptr, shore.stack, shore.stack_bytes);
  if (kJumps) siglongjmp(shore.jump, 1);
  setcontext(&shore.context);
  abort();
}

}  // namespace mco::asc
