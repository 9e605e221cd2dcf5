// SPDX-License-Identifier: Apache-2.0
// C interface of timed runs.
#include <cstring>

#include "capi.h"
#include "capi_program.h"
#include "capi_timing.h"
#include "guarded.h"
#include "timer.h"

mco::Costs mco::costs_of(const mco_timing_request& request) {
  const double* const chip = request.chip;
  const int n = request.chip_values, nrows = request.row_count;
  const mco_row_cost* const rows = request.rows;
  const int32_t* const route = request.route;
  mco::Costs costs;
  const auto& names = mco::chip_value_names();
  if (n != int(names.size())) mco::fail("mco_time: %d numbers of a chip; accepted: %zu", n, names.size());
  static_assert(sizeof(mco::Chip) % sizeof(double) == 0, "numbers alone");
  std::memcpy(static_cast<void*>(&costs.chip), chip, sizeof costs.chip);
  for (int i = 0; i < nrows; ++i) {
    const mco::OpInfo* op = mco::find_op(rows[i].row);
    if (!op) mco::fail("mco_time: unknown instruction %s", rows[i].row);
    mco::RowCost cost;
    cost.pipe = rows[i].pipe;
    cost.startup = rows[i].startup;
    for (int w = 0; w < 3; ++w) cost.cycles[w] = rows[i].cycles[w];
    costs.rows.emplace(op, cost);
  }
  for (int dst = 0; dst < mco::kScopes; ++dst) {
    for (int src = 0; src < mco::kScopes; ++src) costs.route[dst][src] = route[dst * mco::kScopes + src];
  }
  const mco::Chip& c = costs.chip;
  if (!(c.queue >= 1 && c.cores >= 1 && c.bank_groups >= 1 && c.bank_groups <= 32 && c.banks_per_group >= 1 &&
        c.bank_bytes >= 32 && c.group_ports >= 1 && c.granule >= 1 && c.line >= 1)) {
    mco::fail("mco_time: a size or a count of the chip is below 1");
  }
  return costs;
}

namespace {

void size_pages(mco::Timing& timing, const mco_tensor* tensors, int n) {
  const mco::Program& p = timing.program;
  for (const uint32_t index : p.workspaces) timing.size_pages(index, p.buffers[index].size_bytes);
  for (int i = 0; i < n; ++i) {
    const bool input = size_t(i) < p.inputs.size();
    timing.size_pages(input ? p.inputs[size_t(i)] : p.outputs[size_t(i) - p.inputs.size()], tensors[i].bytes);
  }
}

}  // namespace

extern "C" {

const char* mco_chip_value(int index) {
  const auto& names = mco::chip_value_names();
  return index >= 0 && index < int(names.size()) ? names[size_t(index)] : nullptr;
}

int mco_time(const mco_program* program, const mco_tensor* tensors, int n, const mco_scalar* scalars, int ns,
             const mco_options* options, const mco_timing_request* request, mco_timing** out, char* err,
             size_t errlen) {
  bool asked = false;
  const int failed = mco::guarded(err, errlen, [&] {
    if (!program || !request || !out || !request->chip || !request->rows || !request->route || !options) {
      mco::fail("mco_time: a pointer is null");
    }
    const mco::Program& p = *program->program;
    const mco::ProgramHeld held(program);
    if (request->execute < 0 || request->execute > 2) {
      mco::fail("mco_time: execute is %d; accepted: 0 (what control flow needs), 1 (all), 2 (integers)",
                request->execute);
    }
    const bool all = request->execute == 1 || (request->execute == 0 && mco::needs_data(p));
    const mco::Execute execute = all                     ? mco::Execute::All
                                 : request->execute == 2 ? mco::Execute::Integers
                                                         : mco::Execute::Few;
    mco_options o = *options;
    o.mode = MCO_MODE_FAST;
    mco::Costs costs = mco::costs_of(*request);
    std::unique_ptr<mco::Timing> timing;
    for (const bool times : {false, true}) {
      // A source is made when the number of blocks is known, which the run finds.
      mco::Run run(p, tensors, n, scalars, ns, o);
      if (!timing) {
        timing = std::make_unique<mco::Timing>(p, std::move(costs), run.blocks(), execute, request->traced_blocks,
                                               request->traced_slices);
        size_pages(*timing, tensors, n);
      }
      if (times) timing->begin_timing();
      run.observe(timing.get());
      try {
        run.execute();
      } catch (...) {
        asked = run.asked_to_stop();
        throw;
      }
    }
    auto made = std::make_unique<mco_timing>();
    made->timing = std::move(timing);
    *out = made.release();
  });
  return failed && asked ? 2 : failed;
}

void mco_timing_free(mco_timing* timing) { delete timing; }

void mco_timing_shape(const mco_timing* timing, mco_launch_shape* out) { *out = timing->shape; }

int mco_timing_call(const mco_timing* timing, int64_t step, const char** call, const char** file, uint32_t* line) {
  if (step < 0 || step >= int64_t(timing->steps.size())) return 1;
  const mco_timing::Step& s = timing->steps[size_t(step)];
  *call = s.call.c_str();
  *file = s.file.c_str();
  *line = s.line;
  return 0;
}

int64_t mco_timing_blocks(const mco_timing* timing, int64_t* out, int64_t room) {
  const auto& blocks = timing->timing->blocks;
  static_assert(sizeof(mco::BlockSum) % sizeof(int64_t) == 0, "numbers alone");
  const int64_t each = sizeof(mco::BlockSum) / sizeof(int64_t), all = int64_t(blocks.size()) * each;
  if (out && room >= all && all) std::memcpy(out, blocks.data(), size_t(all) * sizeof(int64_t));
  return all;
}

int64_t mco_timing_steps(const mco_timing* timing, int64_t* out, int64_t room) {
  const auto& steps = timing->timing->steps;
  static_assert(sizeof(mco::StepSum) == 4 * sizeof(int64_t), "numbers alone");
  const int64_t all = int64_t(steps.size()) * 4;
  if (out && room >= all && all) std::memcpy(out, steps.data(), size_t(all) * sizeof(int64_t));
  return all;
}

int64_t mco_timing_slices(const mco_timing* timing, mco_slice* out, int64_t room) {
  const auto& slices = timing->timing->slices;
  static_assert(sizeof(mco::TimeSpan) == sizeof(mco_slice), "the same record");
  const int64_t all = int64_t(slices.size());
  if (out && room >= all && all) std::memcpy(static_cast<void*>(out), slices.data(), size_t(all) * sizeof(mco_slice));
  return all;
}

}  // extern "C"
