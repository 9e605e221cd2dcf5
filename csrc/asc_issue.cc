// SPDX-License-Identifier: Apache-2.0
// Calls of the API as instructions of the table: masks from the mask register, operands from addresses, errors in the
// words of the API.
#include <cstring>

#include "asc_check.h"
#include "asc_run.h"
#include "lanes.h"

namespace mco::asc {

namespace {

// Mask arguments and the repeats of a call, and what it leaves in the mask register.
struct MaskValues {
  int64_t kind, mask0, mask1, repeat;
};

int lanes_of(const OpInfo& op, const mco_asc_operand* operands) {
  int widest = 1;
  for (int i = 0; i < op.shape.operands; ++i) {
    widest = std::max<int>(widest, kSize[operands[op.shape.tensor[i]].dtype]);
  }
  return int(kVectorBytes) / widest;
}

MaskValues mask_of(AscCore& core, const mco_asc_call& call, int lanes) {
  uint64_t low = call.bits[0], high = call.bits[1];
  if (call.mask == MCO_ASC_COUNT) {
    core.mask_counter = false;
    core.mask[0] = core.mask[1] = ~uint64_t(0);
    if (int64_t(low) < 0)
      core.fail(call.where, Fault::ParamRange, format("count is %lld; accepted: 0 or more", (long long)int64_t(low)));
    return {kMaskCounter, int64_t(low), 0, 1};
  }
  if (call.mask == MCO_ASC_NUMBER) {
    if (core.mask_counter) {
      core.mask[0] = low;
      core.mask[1] = 0;
      return {kMaskCounter, int64_t(low), 0, 1};
    }
    const uint64_t n = std::min<uint64_t>(low, uint64_t(lanes));
    core.mask[0] = n >= 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1;
    core.mask[1] = n <= 64 ? 0 : n >= 128 ? ~uint64_t(0) : (uint64_t(1) << (n - 64)) - 1;
    return {kMaskCount, int64_t(n), 0, call.repeat};
  }
  if (call.mask == MCO_ASC_BITS) {
    core.mask[0] = low;
    core.mask[1] = high;
  }
  low = core.mask[0];
  high = core.mask[1];
  if (core.mask_counter) return {kMaskCounter, int64_t(low), 0, 1};
  if (lanes <= 64) high = 0;
  if (lanes < 64) low &= (uint64_t(1) << lanes) - 1;
  return {kMaskBits, int64_t(low), int64_t(high), call.repeat};
}

// What was wrong, in the words of the API: the engine's text begins with the name of its row.
std::string api_text(const char* what, const std::string& row) {
  const std::string text = what;
  return text.compare(0, row.size() + 2, row + ": ") == 0 ? text.substr(row.size() + 2) : text;
}

// False where a checked launch has noted that the operand starts off the grid.
bool check_align(AscCore& core, const mco_asc_call& call, const OpInfo& op, int i, const DirectOperand& o, int align) {
  const int64_t address =
      o.memory.scope == GM ? reinterpret_cast<int64_t>(o.memory.base) + o.offset : o.memory.address + o.offset;
  if ((address & (align - 1)) == 0) return true;  // a power of two
  const std::string text =
      format("%s starts at byte %lld of %s (%s); accepted: a multiple of %d", op.tensors[size_t(i)].name,
             (long long)(o.memory.scope == GM ? o.offset : address), kScopeName[o.memory.scope], o.memory.name, align);
  if (!core.checker) core.fail(call.where, text);
  core.find(call.where, Fault::Misaligned, text);
  return false;
}

// What a checked launch adds: numbers of memory and place. False where the instruction is left out.
bool look(AscCore& core, const mco_asc_call& call, const OpInfo& op, const mco_asc_operand* operands, Direct& direct,
          bool aligned) {
  direct.loc = core.place_of(call.where);
  core.checker->call(call.where.call);
  for (int i = 0; i < call.operands; ++i) {
    const auto* home = static_cast<const Home*>(operands[i].home);
    DirectOperand& o = core.places[i];
    o.memory.number = core.number_of(home, o.memory);
    if (home) core.check_alive(*home, direct.loc);
    // What a cube core hands to its vector cores lies in their memory.
    AscCore* owner = home ? home->owner : nullptr;
    if (owner && owner != &core && owner->checker && op.tensors[size_t(i)].written) {
      owner->core->catch_up();
      owner->checker->assume_written(o.memory.number, o.offset);
    }
    if (!aligned && op.tensors[size_t(i)].written) core.checker->assume_written(o.memory.number, o.offset);
  }
  return aligned;
}

}  // namespace

// What a timed launch adds.
static void name(AscCore& core, const mco_asc_call& call, const mco_asc_operand* operands, Direct& direct) {
  core.timer->at(core.launch.timed->step_of(call.where));
  direct.loc = core.place_of(call.where);
  for (int i = 0; i < call.operands; ++i) {
    MemorySpan& memory = core.places[i].memory;
    memory.number = core.number_of(static_cast<const Home*>(operands[i].home), memory);
  }
}

static void issue(AscCore& core, const mco_asc_call& call, const mco_asc_operand* operands, const mco_asc_value* args,
                  const int64_t* attrs) {
  const OpInfo* op = op_at(call.op);
  const bool masked = call.mask != MCO_ASC_NO_MASK;
  if (!op || op->tensors.size() != call.operands || op->args.size() != call.args + (masked ? 3u : 0u) ||
      op->attrs.size() != call.attrs + (masked ? 1u : 0u)) {
    core.fail(call.where, "made by other headers than those of this version; build the kernel again");
  }
  DirectOperand* const places = core.places;
  Value* const values = core.values;
  int64_t* const all_attrs = core.attrs;
  uint32_t floats = call.floats;
  int first = 0, first_attr = 0;
  if (masked) {
    const MaskValues mask = mask_of(core, call, lanes_of(*op, operands));
    values[0].i = mask.mask0;
    values[1].i = mask.mask1;
    values[2].i = mask.repeat;
    all_attrs[0] = mask.kind;
    first = 3;
    first_attr = 1;
    floats <<= 3;
  }
  for (int i = 0; i < call.args; ++i) std::memcpy(&values[first + i], &args[i], sizeof values[0]);
  for (int i = 0; i < call.attrs; ++i) all_attrs[first_attr + i] = attrs[i];
  bool aligned = true;
  for (int i = 0; i < call.operands; ++i) {
    places[i].dtype = DType(operands[i].dtype);
    core.locate(operands[i], places[i], call, i);
    aligned &= check_align(core, call, *op, i, places[i], operands[i].align);
  }
  Direct direct{op, places, values, all_attrs, floats, call.where.file ? call.where.file : "", call.where.line};
  if (!core.issued) {
    core.issued = true;
    core.launch.end_probe();
  }
  if (__builtin_expect(core.checker != nullptr, 0) && !look(core, call, *op, operands, direct, aligned)) return;
  if (__builtin_expect(core.timer != nullptr, 0)) name(core, call, operands, direct);
  bool failed = false;
  try {
    core.core->issue(direct);
  } catch (const std::exception& e) {
    if (core.checker) {
      core.checker->refused(e.what(), direct.loc);
      for (int i = 0; i < call.operands; ++i) {
        if (op->tensors[size_t(i)].written) core.checker->assume_written(places[i].memory.number, places[i].offset);
      }
      return;
    }
    core.error = core.title() + ": " + call.where.call + ": " + api_text(e.what(), op->name);
    failed = true;
  }
  if (failed) {
    core.failed = true;
    core.leave();
  }
}

}  // namespace mco::asc

using mco::asc::here;

extern "C" {

void mco_asc_issue(const mco_asc_call* call, const mco_asc_operand* operands, const mco_asc_value* args,
                   const int64_t* attrs) {
  auto& core = here(call->where.call);
  core.look(call->where);
  mco::asc::issue(core, *call, operands, args, attrs);
}

void mco_asc_set_mask(uint64_t low, uint64_t high) {
  auto& core = here("SetVectorMask");
  core.mask[0] = low;
  core.mask[1] = high;
}

void mco_asc_set_mask_mode(int counter) { here("SetMaskMode").mask_counter = counter != 0; }

int mco_asc_mask_mode(void) { return here("SetMaskMode").mask_counter; }

void mco_asc_atomic(const mco_asc_where* where, int operation, int dtype) {
  auto& core = here(where->call);
  mco::Machine& machine = core.core->machine();
  machine.atomic = operation ? mco::DType(dtype) : mco::kDTypes;
  if (operation > 0) {
    machine.atomic_op = operation == 2 ? mco::AtomicOp::Max : operation == 3 ? mco::AtomicOp::Min : mco::AtomicOp::Add;
  }
}

}  // extern "C"
