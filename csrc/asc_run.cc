// SPDX-License-Identifier: Apache-2.0
#include "asc_run.h"

#include <algorithm>
#include <cstring>

#include "asc_findings.h"
#include "capi.h"
#include "guarded.h"
#include "pool.h"

namespace mco::asc {

namespace {

// KernelMetaType: numbers of the headers.
enum Kind { kAivOnly, kAicOnly, kMixAiv10, kMixAic10, kMixAic11, kMixAic12, kAiCore, kVectorCore };

int cubes_of(int kind) { return kind == kAicOnly || kind == kMixAic10 || kind == kMixAic11 || kind == kMixAic12; }
int vectors_of(int kind) { return kind == kAicOnly || kind == kMixAic10 ? 0 : kind == kMixAic12 ? 2 : 1; }

}  // namespace

Launch::Launch(const mco_asc_launch& spec, int kind) : spec(spec), kind(kind), watch(spec.time_limit, spec.poll) {
  for (int i = 0; i < spec.memories; ++i) {
    auto home = std::make_unique<Home>();
    home->base = static_cast<uint8_t*>(spec.memory[i].data);
    home->bytes = spec.memory[i].bytes;
    home->lo = home->base;
    home->hi = home->base + home->bytes;
    home->scope = GM;
    home->position = 0;
    home->given = spec.memory[i].name;
    home->fresh = spec.memory[i].output ? home->bytes : spec.memory[i].fresh;
    home->output = spec.memory[i].output != 0;
    if (spec.check) home->lo = home->hi = nullptr;
    gm_.push_back(std::move(home));
  }
  std::sort(gm_.begin(), gm_.end(), [](const auto& a, const auto& b) { return a->base < b->base; });
  make_cores();
  if (spec.check) begin_checked();
}

Launch::~Launch() = default;

void Launch::begin_checked() {
  if (!spec.strict) fail("a checked launch needs to know its memory; accepted: memory of GmAlloc or aclrtMalloc");
  std::vector<std::string> titles;
  for (const auto& core : cores) titles.push_back(core->title());
  checked = std::make_unique<Checked>(spec, gm_, std::move(titles));
}

void Launch::time(Timed& t) {
  timed = &t;
  for (auto& home : gm_) home->lo = home->hi = nullptr;
}

int Launch::cores_of_block(bool cube) const {
  if (cube) return spec.split ? cubes_of(kind) : 0;
  return spec.split ? vectors_of(kind) : 1;
}

Directory& Launch::directory() const { return checked ? static_cast<Directory&>(*checked) : *timed; }

std::unique_ptr<Core> Launch::make_core(const AscCore& core) {
  int64_t bytes[kScopes];
  for (int s = 0; s < kScopes; ++s) bytes[s] = core.scope_bytes(Scope(s));
  if (core.info.split) bytes[L1] = spec.scope_bytes[L1];  // of a vector core: for its TSCM
  if (bytes[UB]) bytes[UB] += kScratchBytes;
  if (checked) return checked->make_core(bytes);
  if (timed) return timed->make_core(bytes);
  return std::make_unique<Core>(bytes, spec.saturate != 0, nullptr, true, helpers_ == 0);
}

void Launch::make_cores() {
  const bool split = spec.split != 0;
  void* workspace = nullptr;  // the framework's, which kernels find by GetSysWorkSpacePtr without SetSysWorkspace
  for (int i = 0; i < spec.memories; ++i) {
    if (std::strcmp(spec.memory[i].name, "workspace") == 0) workspace = spec.memory[i].data;
  }
  const int cubes = cores_of_block(true), vectors = cores_of_block(false);
  const size_t count = size_t(std::max(spec.blocks, 0)) * size_t(cubes + vectors);
  cores.reserve(count);
  cores_memory.reset(::operator new(count * sizeof(AscCore)));
  for (int block = 0; block < spec.blocks; ++block) {
    for (int sub = 0; sub < cubes + vectors; ++sub) {
      const bool cube = sub < cubes;
      const int number = int(cores.size());
      cores.emplace_back(new (static_cast<AscCore*>(cores_memory.get()) + number) AscCore(*this, number, cube));
      mco_asc_core& info = cores.back()->info;
      info.sub = cube ? 0 : sub - cubes;
      info.subs = cube ? 1 : vectors;
      info.ratio = vectors;
      info.block = cube ? block : block * vectors + info.sub;
      info.blocks = spec.blocks;
      info.arch = spec.arch;
      info.split = split;
      info.tiling_key = spec.tiling_key;
      info.user[0] = workspace;
      members[MCO_ASC_ALL_CORES].push_back(number);
      members[cube ? MCO_ASC_ALL_CUBE : MCO_ASC_ALL_VECTOR].push_back(number);
    }
  }
  for (auto& core : cores) set_peers(*core);
}

// Flags of mode 0 are between all cores of a kind, of mode 1 between those of its block, of mode 2 between a core and
// those of the other kind in its block.
void Launch::set_peers(AscCore& core) {
  const int block = core.info.is_cube ? core.info.block : core.info.block / core.info.ratio;
  for (int mode = 0; mode < kCrossModes; ++mode) {
    const bool cube = (core.info.is_cube != 0) != (mode == 2);
    const std::vector<int>& kind = members[cube ? MCO_ASC_ALL_CUBE : MCO_ASC_ALL_VECTOR];
    const int of_block = cores_of_block(cube);
    core.peers[mode] = mode == 0 ? AscCore::Peers{kind.data(), int(kind.size())}
                                 : AscCore::Peers{kind.data() + block * of_block, of_block};
    core.rank[mode] = mode == 0 ? core.info.block : core.info.sub;
  }
}

// The tensor an address lies in; one behind its end counts, so that an empty rest of a tensor is no fault.
const Home* Launch::find_gm(const void* address) const {
  const auto* at = static_cast<const uint8_t*>(address);
  auto after =
      std::upper_bound(gm_.begin(), gm_.end(), at, [](const uint8_t* x, const auto& h) { return x < h->base; });
  const Home* end_of = nullptr;
  while (after != gm_.begin()) {
    const Home& home = **--after;
    if (at < home.base + home.bytes) return &home;
    if (at == home.base + home.bytes) end_of = &home;
    if (home.bytes) break;
  }
  return end_of;
}

void Launch::note_error(int core, const std::string& text) {
  if (core >= error_core_.load()) return;
  error_core_ = core;
  error_ = text;
}

// Cores below one that failed go on: theirs is the error to report.
bool Launch::stopping(int core) { return core > error_core_.load(std::memory_order_relaxed); }

void Launch::end_probe() {
  if (!probing) return;
  std::lock_guard<std::mutex> lock(mutex);
  probing = false;
  changed.notify_all();
}

void Launch::want_other_kind(const AscCore& core, Scope scope) {
  if (!guessed || !probing || core.issued || !core.info.split || scope == GM) return;
  std::lock_guard<std::mutex> lock(mutex);
  wanted_kind = scope == UB ? kAivOnly : kAicOnly;
}

void Launch::run() {
  const int threads = checked || timed ? 1 : spec.threads > 0 ? spec.threads : ThreadPool::threads();
  helpers_ = int(std::min<size_t>(size_t(threads), cores.size())) - 1;
  const FaultHandlers handlers;
  const TimeLimit limit(*this);
  ThreadPool::instance().run(helpers_, [this] { work(); }, [this] { watch.look(); });
  if (!checked && !timed && error_core_ == INT32_MAX) {
    for (const bool cube : {false, true}) give_seats(seat_kind(cube), std::move(left_[cube]));
  }
  if (!checked) {
    if (error_core_ != INT32_MAX) throw Error(error_);
    return;
  }
  // Cores that wait for one that ended with a finding are no finding of their own.
  if (stuck_ && checked->complete()) checked->add(Fault::FlagDeadlock, stuck_at_, error_core_, error_);
  checked->finish(error_core_ == INT32_MAX);
  if (error_core_ != INT32_MAX && !stuck_) throw Error(error_);
}

}  // namespace mco::asc

using mco::asc::here;

extern "C" {

int mco_asc_run(const mco_asc_launch* given, char* err, size_t errlen) {
  bool asked = false;
  const int status = mco::guarded(err, errlen, [&] {
    if (!given || given->struct_size != sizeof *given || given->abi != MCO_ASC_ABI) {
      mco::fail("mco_asc_run: made by other headers than those of this version; build the kernel again");
    }
    mco_asc_launch own = *given;
    const mco_asc_launch* const spec = &own;
    if (spec->findings) *spec->findings = nullptr;
    if (mco_get_check()) own.check = 1;
    if (mco::asc::current()) mco::fail("a kernel cannot launch a kernel");
    int kind = spec->kind >= 0 ? spec->kind : 0;
    for (int tries = 0; tries < 3; ++tries) {
      mco::asc::Launch launch(*spec, kind);
      launch.guessed = tries == 0 && spec->kind < 0;
      try {
        launch.run();
      } catch (...) {
        asked = launch.asked_to_stop();
        if (launch.checked && spec->findings) *spec->findings = mco::asc::findings_of(*launch.checked);
        throw;
      }
      if (launch.wanted_kind < 0) return mco::asc::hand_over(launch);
      kind = launch.wanted_kind;
    }
    mco::fail("the kernel says another KERNEL_TASK_TYPE each time it runs");
  });
  return asked ? 2 : status;
}

void mco_asc_task_type(const mco_asc_where* where, int type) {
  auto& core = here(where->call);
  mco::asc::Launch& launch = core.launch;
  if (!core.info.split || type == launch.kind) return;
  if (mco::asc::cubes_of(type) == mco::asc::cubes_of(launch.kind) &&
      mco::asc::vectors_of(type) == mco::asc::vectors_of(launch.kind)) {
    return;
  }
  if (type < 0 || type > mco::asc::kVectorCore) mco_asc_refuse(where, "type", "unknown", "a type of 910B");
  if (core.issued || !launch.probing) {
    core.fail(*where, "comes after the kernel's first instruction; accepted: before it");
  }
  {
    std::lock_guard<std::mutex> lock(launch.mutex);
    launch.wanted_kind = type;
  }
  core.leave();
}

}  // extern "C"
