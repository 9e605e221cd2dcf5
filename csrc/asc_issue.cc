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
  if (call.mask == MCO_ASC_KEPT || call.mask == MCO_ASC_COUNT) {
    if (call.mask == MCO_ASC_COUNT) {
      core.mask_counter = false;
      core.mask[0] = core.mask[1] = ~uint64_t(0);
    }
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
  const std::string text = format("%s starts at byte %lld of %s (%s); accepted: a multiple of %d",
                                  op.tensors[size_t(i)].name, (long long)(o.memory.scope == GM ? o.offset : address),
                                  kScopeName[o.memory.scope], o.memory.name.c_str(), align);
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
    DirectOperand& o = core.seat->places[i];
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

// The mask register as far as the call goes by it.
MaskRegister register_of(const AscCore& core, const mco_asc_call& call) {
  MaskRegister held;
  if (call.mask == MCO_ASC_REGISTER) {
    held.bits[0] = core.mask[0];
    held.bits[1] = core.mask[1];
  }
  held.counter = call.mask > MCO_ASC_COUNT && core.mask_counter;
  return held;
}

// What a timed launch adds.
void name(AscCore& core, const mco_asc_call& call, const mco_asc_operand* operands, Direct& direct) {
  core.timer->at(core.launch.timed->step_of(call.where));
  direct.loc = core.place_of(call.where);
  for (int i = 0; i < call.operands; ++i) {
    MemorySpan& memory = core.seat->places[i].memory;
    memory.number = core.number_of(static_cast<const Home*>(operands[i].home), memory);
  }
}

// Arguments of the mask, which come before those of the call.
size_t first_of(const mco_asc_call& call) { return call.mask == MCO_ASC_NO_MASK ? 0 : 3; }

uint64_t head_of(const mco_asc_call& call) {
  return uint64_t(call.op) | uint64_t(call.operands) << 16 | uint64_t(call.args) << 24 | uint64_t(call.attrs) << 32 |
         uint64_t(call.mask) << 40;
}

uint64_t places_of(const DirectOperand* places, int n) {
  uint64_t word = 0;
  for (int i = 0; i < n; ++i) word = word << 8 | uint64_t(places[i].dtype) << 4 | uint64_t(places[i].memory.scope);
  return word;
}

// Whether the call is that of its site, but for where its operands lie and what each call brings.
bool is_again(const Site& site, const AscCore& core, const mco_asc_call& call, const mco_asc_value* args,
              const int64_t* attrs) {
  if (site.head != head_of(call) || site.call_floats != call.floats) return false;
  if (site.bits[0] != call.bits[0] || site.bits[1] != call.bits[1] || site.repeat != call.repeat) return false;
  if (call.mask > MCO_ASC_COUNT && register_of(core, call) != site.before) return false;
  const int64_t* word = site.words;
  for (int i = 0; i < call.args; ++i, ++word) {
    if (args[i].i != *word && !(site.loose >> i & 1)) return false;
  }
  for (int i = 0; i < call.attrs; ++i, ++word) {
    if (attrs[i] != *word) return false;
  }
  return true;
}

void note(Site& site, const OpInfo& op, const AscCore& core, const mco_asc_call& call, const mco_asc_value* args,
          const int64_t* attrs) {
  site.known = KnownForm();
  const bool fits =
      call.args + call.attrs <= Site::kWords && call.operands <= Site::kOperands && call.repeat == int32_t(call.repeat);
  site.head = fits ? head_of(call) : Site::kNobody;
  if (!fits) return;
  site.op = &op;
  site.call_floats = call.floats;
  site.bits[0] = call.bits[0];
  site.bits[1] = call.bits[1];
  site.repeat = int32_t(call.repeat);
  site.before = register_of(core, call);
  site.loose = 0;
  for (int i = 0; i < call.args; ++i) {
    site.words[i] = args[i].i;
    site.loose |= uint32_t(is_loose(op, first_of(call) + size_t(i))) << i;
  }
  for (int i = 0; i < call.attrs; ++i) site.words[call.args + i] = attrs[i];
}

// Runs an instruction; an error of the engine's is one of the core, in the words of the API.
template <class Run>
void run(AscCore& core, const mco_asc_call& call, const OpInfo& op, uint32_t loc, Run execute) {
  if (!core.issued) {
    core.issued = true;
    core.launch.end_probe();
  }
  try {
    return execute();
  } catch (const std::exception& e) {
    if (core.checker) {
      core.checker->refused(e.what(), loc);
      for (int i = 0; i < call.operands; ++i) {
        if (!op.tensors[size_t(i)].written) continue;
        core.checker->assume_written(core.seat->places[i].memory.number, core.seat->places[i].offset);
      }
      return;
    }
    core.error = core.title() + ": " + call.where.call + ": " + api_text(e.what(), op.name);
  }
  core.failed = true;
  core.leave();
}

// Where the operands lie. False where a checked launch leaves the instruction out.
bool locate(AscCore& core, const mco_asc_call& call, const OpInfo& op, const mco_asc_operand* operands) {
  bool aligned = true;
  for (int i = 0; i < call.operands; ++i) {
    DirectOperand& place = core.seat->places[i];
    place.dtype = DType(operands[i].dtype);
    core.locate(operands[i], place, call, i);
    aligned &= check_align(core, call, op, i, place, operands[i].align);
  }
  return aligned;
}

// A vector instruction takes tensors of UB. Asked where a site is new: its later calls have tensors of the same
// memories.
void check_vector(AscCore& core, const mco_asc_call& call, const mco_asc_operand* operands) {
  for (int i = 0; i < call.operands; ++i) {
    const auto* home = static_cast<const Home*>(operands[i].home);
    if (!home) continue;
    const Scope scope = scope_of(home->position, false);  // CO2 counts, as on chips whose cores are one
    if (scope == UB) continue;
    core.fail(call.where, Fault::ParamRange,
              std::string("a tensor lies in ") + position_name(home->position) +
                  "; accepted: tensors in UB (VECIN, VECOUT, VECCALC)");
  }
}

// A call that its site does not know: notes it there.
void issue_new(AscCore& core, const mco_asc_call& call, const mco_asc_operand* operands, const mco_asc_value* args,
               const int64_t* attrs, Site* site) {
  const OpInfo* op = op_at(call.op);
  const bool masked = call.mask != MCO_ASC_NO_MASK;
  if (!op || op->tensors.size() != call.operands || op->args.size() != call.args + (masked ? 3u : 0u) ||
      op->attrs.size() != call.attrs + (masked ? 1u : 0u)) {
    core.fail(call.where, "made by other headers than those of this version; build the kernel again");
  }
  if (masked) check_vector(core, call, operands);
  if (site) note(*site, *op, core, call, args, attrs);
  Value* const values = core.seat->values;
  int64_t* const all_attrs = core.seat->attrs;
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
  const bool aligned = locate(core, call, *op, operands);
  Direct direct{
      op, core.seat->places, values, all_attrs, floats, call.where.file ? call.where.file : "", call.where.line};
  if (site) {
    site->places = places_of(core.seat->places, call.operands);
    site->floats = floats;
    site->after = {{core.mask[0], core.mask[1]}, core.mask_counter};
  }
  if (core.checker && !look(core, call, *op, operands, direct, aligned)) return;
  if (core.timer) name(core, call, operands, direct);
  KnownForm none;
  run(core, call, *op, direct.loc, [&] { core.core->issue(direct, site ? site->known : none); });
}

// The site of a call; not `again`: it is another's, or nobody's, and becomes that of this call.
Site& site_of(AscCore& core, const mco_asc_call& call, const mco_asc_value* args, const int64_t* attrs, bool& again) {
  const auto known = [&core](const Site& site) { return core.core->knows(site.known); };
  Site& first = core.seat->sites.of(call);
  again = known(first) && is_again(first, core, call, args, attrs);
  if (again || !known(first)) return first;
  Site* const others = core.seat->sites.others(call, args, attrs);
  for (int i = 0; i < 2; ++i) {
    again = known(others[i]) && is_again(others[i], core, call, args, attrs);
    if (again) return others[i];
  }
  return others[known(others[0])];
}

void issue(AscCore& core, const mco_asc_call& call, const mco_asc_operand* operands, const mco_asc_value* args,
           const int64_t* attrs) {
  if (__builtin_expect(core.info.observed, 0)) return issue_new(core, call, operands, args, attrs, nullptr);
  bool again;
  Site& site = site_of(core, call, args, attrs, again);
  if (!again) return issue_new(core, call, operands, args, attrs, &site);
  const Sites::Next next = core.seat->sites.follow(site);
  const OpInfo& op = *site.op;
  locate(core, call, op, operands);
  if (site.places != places_of(core.seat->places, call.operands)) {
    return issue_new(core, call, operands, args, attrs, &site);
  }
  if (call.mask != MCO_ASC_NO_MASK) {
    core.mask[0] = site.after.bits[0];
    core.mask[1] = site.after.bits[1];
    core.mask_counter = site.after.counter;
  }
  Value* const values = core.seat->values + first_of(call);
  for (uint32_t left = site.loose; left; left &= left - 1) {
    const int i = __builtin_ctz(left);
    std::memcpy(&values[i], &args[i], sizeof values[i]);
  }
  const Direct direct{&op,
                      core.seat->places,
                      core.seat->values,
                      nullptr,
                      site.floats,
                      call.where.file ? call.where.file : "",
                      call.where.line};
  run(core, call, op, 0, [&] { core.core->issue_again(direct, site.known); });
  Sites::foresee(next, *core.core);
}

}  // namespace

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
