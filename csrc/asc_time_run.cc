// SPDX-License-Identifier: Apache-2.0
// C interface of timed launches of Ascend C kernels.
#include <algorithm>
#include <cstring>

#include "asc_run.h"
#include "capi_timing.h"
#include "guarded.h"

namespace mco::asc {

namespace {

// Memory of a launch as it was before it ran.
class Snapshot {
 public:
  explicit Snapshot(const mco_asc_launch& spec) : spec_(spec) {
    for (int i = 0; i < spec.memories; ++i) {
      const auto* first = static_cast<const uint8_t*>(spec.memory[i].data);
      kept_.emplace_back(first, first + spec.memory[i].bytes);
    }
  }
  void put_back() const {
    for (int i = 0; i < spec_.memories; ++i) {
      if (!kept_[size_t(i)].empty())
        std::memcpy(spec_.memory[i].data, kept_[size_t(i)].data(), kept_[size_t(i)].size());
    }
  }

 private:
  const mco_asc_launch& spec_;
  std::vector<std::vector<uint8_t>> kept_;
};

// Runs the launch; the kind of kernel that it turned out to be instead, or -1.
int run_once(const mco_asc_launch& spec, int kind, bool guessed, const std::function<void(Launch&)>& before,
             bool& asked) {
  Launch launch(spec, kind);
  launch.guessed = guessed;
  before(launch);
  try {
    launch.run();
  } catch (...) {
    asked = launch.asked_to_stop();
    throw;
  }
  return launch.wanted_kind;
}

void describe(const Timed& timed, mco_timing& out) {
  const Program& p = timed.program();
  for (const Timed::Step& s : timed.steps()) {
    const Location& at = p.locations[s.loc];
    out.steps.push_back({s.call, at.file.c_str(), at.line});
  }
  for (const Buffer& b : p.buffers) {
    if (b.scope == GM || !std::strcmp(b.name.c_str(), kScratchName)) continue;
    out.shape.used[b.scope] = std::max(out.shape.used[b.scope], b.address + b.size_bytes);
  }
}

}  // namespace

}  // namespace mco::asc

extern "C" {

int mco_asc_time(const mco_asc_launch* given, const mco_timing_request* request, int32_t cube_cores,
                 int32_t vector_cores, mco_timing** out, char* err, size_t errlen) {
  using namespace mco::asc;
  bool asked = false;
  const int status = mco::guarded(err, errlen, [&] {
    if (!given || given->struct_size != sizeof *given || given->abi != MCO_ASC_ABI) {
      mco::fail("mco_asc_time: made by other headers than those of this version; build the kernel again");
    }
    if (!request || !out || !request->chip || !request->rows || !request->route || cube_cores < 1 || vector_cores < 1) {
      mco::fail("mco_asc_time: a pointer is null, or a number of cores below 1");
    }
    if (current()) mco::fail("a kernel cannot launch a kernel");
    if (!given->strict) mco::fail("a timed launch needs to know its memory; accepted: a launch that lists all of it");
    mco_asc_launch spec = *given;
    spec.check = 0;
    const Snapshot before(spec);
    std::shared_ptr<Timed> timed;
    mco_timing made;
    const auto prepare = [&](Launch& launch) {
      if (!timed) {
        mco::Costs costs = mco::costs_of(*request);
        made.shape.cubes = launch.cores_of_block(true);
        made.shape.vectors = launch.cores_of_block(false);
        const int each = made.shape.cubes + made.shape.vectors;
        const int blocks = !made.shape.cubes ? vector_cores / std::max(made.shape.vectors, 1) : cube_cores;
        costs.chip.cores = double(std::max(blocks, 1)) * each;
        timed = std::make_shared<Timed>(spec, launch.gm(), int64_t(launch.cores.size()), std::move(costs),
                                        request->traced_blocks * each, request->traced_slices);
      }
      launch.time(*timed);
    };
    int kind = std::max(spec.kind, 0);
    for (int tries = 0;; ++tries) {
      if (tries == 3) mco::fail("the kernel says another KERNEL_TASK_TYPE each time it runs");
      timed = nullptr;
      const int wanted = run_once(spec, kind, tries == 0 && spec.kind < 0, prepare, asked);
      before.put_back();
      if (wanted < 0) break;
      kind = wanted;
    }
    timed->begin_timing();
    run_once(spec, kind, false, prepare, asked);
    describe(*timed, made);
    made.timing = std::shared_ptr<mco::Timing>(timed, &timed->timing());
    *out = new mco_timing(std::move(made));
  });
  return asked ? 2 : status;
}

}  // extern "C"
