// SPDX-License-Identifier: Apache-2.0
#include "capi.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "access.h"
#include "capi_findings.h"
#include "capi_program.h"
#include "counter.h"
#include "fpenv.h"
#include "guarded.h"
#include "pool.h"
#include "program.h"
#include "run.h"
#include "simd/kernels.h"
#include "straight.h"

#ifndef MCO_VERSION
#define MCO_VERSION "1"  // of the C interface
#endif

namespace {

using mco::guarded;
using mco::release;
using mco::retain;

std::atomic<double> time_limit{0};  // seconds; 0: none
std::atomic<int> check_runs{0};

struct Table {
  std::mutex mutex;
  std::map<std::string, mco_program*> programs;
};

// The child of a fork keeps the programs: no thread is inside the table while the process forks.
Table& table() {
  static Table& only = *new Table;
  static const int registered =
      pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); }, [] { table().mutex.unlock(); });
  (void)registered;
  return only;
}

mco_program* load(const uint8_t* bytes, size_t size) {
  if (!bytes) mco::fail("program bytes: no bytes");
  mco::FloatingPointDefaults defaults;
  return new mco_program(mco::decode_program(bytes, size));
}

// Gives the findings of a run to the caller, or throws them.
void hand_over(const mco::Run& run, const mco_program* program, mco_findings** out) {
  const mco::CheckRun* check = run.check();
  if (!check) return;
  std::vector<mco::Finding> found = check->findings();
  if (!out) {
    if (!found.empty()) mco::fail_with(program->program->name.c_str(), *program->program, found);
    return;
  }
  auto all = std::make_unique<mco_findings>();
  all->list = std::move(found);
  all->dropped = check->dropped();
  all->held = std::make_unique<mco::ProgramHeld>(program);
  all->tables = {std::shared_ptr<const mco::Program>(), program->program.get()};
  *out = all.release();
}

}  // namespace

[[noreturn]] void mco::fail_with(const char* name, const Program& p, const std::vector<Finding>& found) {
  constexpr size_t kTold = 6;
  std::string text = format("%s%sthe checked run has %zu findings", name, *name ? ": " : "", found.size());
  for (size_t i = 0; i < found.size() && i < kTold; ++i) {
    const Finding& f = found[i];
    text += format("\n  [%s] ", fault_name(f.kind)) + f.text + " [" + p.location(f.loc) + "]";
  }
  if (found.size() > kTold) text += format("\n  and %zu more", found.size() - kTold);
  throw Error(text);
}

extern "C" {

int mco_load(const uint8_t* bytes, size_t size, mco_program** out, char* err, size_t errlen) {
  return guarded(err, errlen, [&] {
    if (!out) mco::fail("mco_load: no place for the program");
    *out = nullptr;
    *out = load(bytes, size);
  });
}

void mco_free(mco_program* program) {
  if (program) release(program);
}

int mco_run(const mco_program* program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
            const mco_options* options, char* err, size_t errlen) {
  bool asked = false;
  const int failed = guarded(err, errlen, [&] {
    if (!program) mco::fail("mco_run: no program");
    mco_options o{};
    o.deterministic = 1;
    if (options) {
      if (options->struct_size != sizeof o) {
        mco::fail("mco_run: options have %u bytes; accepted: %zu", options->struct_size, sizeof o);
      }
      o = *options;
    }
    const bool counts = o.mode == MCO_MODE_COUNTED || o.mode == MCO_MODE_MEASURED;
    if (o.mode != MCO_MODE_FAST && o.mode != MCO_MODE_CHECKED && !(counts && o.counts)) {
      mco::fail(
          "mco_run: mode is %d; accepted: 0 (fast), 1 (counted) and 3 (measured) with a place for the counts, "
          "2 (checked)",
          o.mode);
    }
    if (o.findings) *o.findings = nullptr;
    if (o.mode == MCO_MODE_FAST && check_runs.load(std::memory_order_relaxed)) {
      o.mode = MCO_MODE_CHECKED;
      o.findings = nullptr;
    }
    if (o.time_limit == 0) o.time_limit = time_limit.load();
    const mco::ProgramHeld held(program);
    mco::Run run(*program->program, tensors, n, scalars, ns, o);
    try {
      run.execute();
    } catch (...) {
      asked = run.asked_to_stop();
      if (o.findings) hand_over(run, program, o.findings);
      throw;
    }
    hand_over(run, program, o.findings);
  });
  return asked ? 2 : failed;
}

int64_t mco_findings_count(const mco_findings* findings) { return findings ? int64_t(findings->list.size()) : 0; }
int64_t mco_findings_dropped(const mco_findings* findings) { return findings ? findings->dropped : 0; }

int mco_findings_get(const mco_findings* findings, int64_t index, mco_finding* out) {
  if (!out || index < 0 || index >= mco_findings_count(findings)) return 1;
  const mco::Program& p = *findings->tables;
  const mco::Finding& f = findings->list[size_t(index)];
  const auto file = [&](uint32_t loc) { return loc < p.locations.size() ? p.locations[loc].file.c_str() : ""; };
  const auto line = [&](uint32_t loc) { return loc < p.locations.size() ? p.locations[loc].line : 0; };
  *out = {mco::fault_name(f.kind),
          f.text.c_str(),
          file(f.loc),
          file(f.other),
          f.buffer < p.buffers.size() ? p.buffers[f.buffer].name.c_str() : nullptr,
          line(f.loc),
          line(f.other),
          f.core,
          f.lo,
          f.hi,
          f.count,
          f.core >= 0 && size_t(f.core) < findings->cores.size() ? findings->cores[size_t(f.core)].c_str() : nullptr};
  return 0;
}

void mco_findings_free(mco_findings* findings) { delete findings; }

void mco_set_check(int on) { check_runs.store(on != 0); }
int mco_get_check(void) { return check_runs.load(); }

int mco_program_counts(const mco_program* program, int* inputs, int* outputs, int* scalars) {
  if (!program) return 1;
  const mco::Program& p = *program->program;
  if (inputs) *inputs = int(p.inputs.size());
  if (outputs) *outputs = int(p.outputs.size());
  if (scalars) *scalars = int(p.input_scalars.size());
  return 0;
}

int mco_program_io(const mco_program* program, int index, mco_io* out) {
  if (!program || !out || index < 0) return 1;
  const mco::Program& p = *program->program;
  std::memset(out, 0, sizeof *out);
  size_t i = size_t(index);
  const size_t tensors = p.inputs.size() + p.outputs.size();
  if (i >= tensors) {
    i -= tensors;
    if (i >= p.input_scalars.size()) return 1;
    const mco::Register& r = p.registers[p.input_scalars[i]];
    out->name = r.name.c_str();
    out->dtype = r.dtype;
    out->bytes = mco::kSize[r.dtype];
    return 0;
  }
  const mco::Buffer& b = p.buffers[i < p.inputs.size() ? p.inputs[i] : p.outputs[i - p.inputs.size()]];
  out->name = b.name.c_str();
  out->dtype = b.dtype;
  out->rank = int32_t(b.dims.size());
  out->bytes = b.size_bytes;
  for (size_t d = 0; d < b.dims.size() && d < MCO_MAX_RANK; ++d) out->dims[d] = b.dims[d];
  return 0;
}

const char* mco_program_meta(const mco_program* program, const char* key) {
  if (!program || !key) return nullptr;
  for (const auto& entry : program->program->meta) {
    if (!std::strcmp(entry.first.c_str(), key)) return entry.second.c_str();
  }
  return nullptr;
}

int64_t mco_program_steps(const mco_program* program) {
  return program ? int64_t(program->program->stream.steps.size()) : 0;
}

int mco_program_step(const mco_program* program, int64_t step, const char** name, const char** file, uint32_t* line) {
  if (!program || step < 0 || step >= mco_program_steps(program)) return 1;
  const mco::Step& s = program->program->stream.steps[size_t(step)];
  const char* what = mco::step_name(s);
  if (!what) return 1;
  const auto& locations = program->program->locations;
  if (name) *name = what;
  if (file) *file = s.loc < locations.size() ? locations[s.loc].file.c_str() : "";
  if (line) *line = s.loc < locations.size() ? locations[s.loc].line : 0;
  return 0;
}

int mco_program_step_route(const mco_program* program, int64_t step, uint32_t* read, uint32_t* written, int32_t* pipe) {
  if (!program || step < 0 || step >= mco_program_steps(program)) return 1;
  const mco::Program& p = *program->program;
  const mco::Step& s = p.stream.steps[size_t(step)];
  if (s.what != mco::What::Instr && s.what != mco::What::Sync) return 1;
  uint32_t from = 0, to = 0;
  for (size_t i = 0; i < s.instr->tensors.size(); ++i) {
    const uint32_t scope = 1u << p.buffers[s.instr->tensors[i].buffer].scope;
    if (mco::reads(*s.instr, int(i))) from |= scope;
    if (mco::writes(*s.instr, int(i))) to |= scope;
  }
  if (read) *read = from;
  if (written) *written = to;
  if (pipe) *pipe = mco::pipe_of(p, *s.instr);
  return 0;
}

int mco_program_step_straight(const mco_program* program, int64_t step) {
  if (!program || step < 0 || step >= mco_program_steps(program)) return 0;
  const mco::Step& s = program->program->stream.steps[size_t(step)];
  return s.what == mco::What::Instr && s.instr->straight & (mco::kNoted | mco::kCame) ? 1 : 0;
}

int mco_table_put(const char* key, const uint8_t* bytes, size_t size, char* err, size_t errlen) {
  return guarded(err, errlen, [&] {
    if (!key) mco::fail("mco_table_put: no key");
    Table& t = table();
    {
      std::lock_guard<std::mutex> lock(t.mutex);
      if (t.programs.count(key)) return;
    }
    mco_program* fresh = load(bytes, size);  // outside of the lock: others can find theirs meanwhile
    const std::lock_guard<std::mutex> lock(t.mutex);
    try {
      if (!t.programs.emplace(key, fresh).second) release(fresh);
    } catch (...) {
      release(fresh);
      throw;
    }
  });
}

const mco_program* mco_table_find(const char* key) {
  if (!key) return nullptr;
  const mco_program* found = nullptr;
  guarded(nullptr, 0, [&] {
    Table& t = table();
    std::lock_guard<std::mutex> lock(t.mutex);
    const auto it = t.programs.find(key);
    if (it == t.programs.end()) return;
    retain(it->second);
    found = it->second;
  });
  return found;
}

int64_t mco_table_size(void) {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  return int64_t(t.programs.size());
}

void mco_set_threads(int n) { mco::ThreadPool::set_threads(n); }
int mco_get_threads(void) { return mco::ThreadPool::threads(); }

void mco_set_time_limit(double seconds) { time_limit.store(seconds > 0 ? seconds : 0); }

int mco_set_isa(const char* name, char* err, size_t errlen) {
  return guarded(err, errlen, [&] {
    std::string error;
    if (!mco::set_kernel_level(name, error)) throw mco::Error(error);
  });
}

const char* mco_get_isa(void) { return mco::kernel_level(); }

const char* mco_version(void) { return MCO_VERSION; }

}  // extern "C"
