// SPDX-License-Identifier: Apache-2.0
// How a block lets rows wait. Every check is that of the handler, in its order.
#include "handlers.h"
#include "machine.h"

namespace mco {

// Rows that wait read GM and write on chip, or read UB and add to GM: a scalar of UB is what it was.
void Machine::catch_up_for_load(const Step& s) {
  catch_up_pieces();
  if (!rows_.empty() && program.buffers[s.place->buffer].scope != UB) rows_.run(kernels);
}

void Machine::take_row(const Instr& in) {
  catch_up_pieces();
  if (in.row->adds ? add_row(in) : gather_row(in)) return;
  catch_up();
  in.op->run(*this, in);
}

bool Machine::gather_row(const Instr& in) {
  const Row& row = *in.row;
  if (rows_.has_adds()) rows_.run(kernels);
  const uint8_t* src;
  uint8_t* dst;
  if (in.op->run == run_nd2nz) {
    src = read(in, isa::nd2nz::src, 0, row.bytes);
    dst = write(in, isa::nd2nz::dst, 0, row.extent());
  } else {
    int64_t room;
    src = move_operand(in, isa::data_move::src, row.bytes, false, room);
    if (room != INT64_MAX) return false;
    dst = write(in, isa::data_move::dst, 0, row.extent());
  }
  rows_.gather(kernels, row, dst, src);
  return true;
}

// Only an add that lands at once, of the dtype and in the mode that the handler would take; the others are its own.
bool Machine::add_row(const Instr& in) {
  const bool plain = atomic == F32 && atomic_op == AtomicOp::Add && shared_.deterministic;
  if (!plain || !(has_turn_ || (has_turn_ = shared_.order.has_turn(block_)))) return false;
  if (rows_.has_gathers()) rows_.run(kernels);
  int64_t room;
  const uint8_t* src = move_operand(in, isa::data_move::src, in.row->bytes, false, room);
  uint8_t* dst = move_operand(in, isa::data_move::dst, in.row->bytes, true, room);
  if (room != INT64_MAX) return false;
  log_.apply(program.saturate);
  rows_.add(kernels, dst, src, in.row->bytes);
  return true;
}

}  // namespace mco
