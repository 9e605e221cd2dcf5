// SPDX-License-Identifier: Apache-2.0
// Handlers and checks of the instruction table, one pair per family.
#pragma once

#include "instruction.h"
#include "machine.h"

namespace mco {

// Numbers of LaneOp in OpInfo::code for the element-wise family.
void check_lanes(const Program&, const Instr&);
void run_lanes(Machine&, const Instr&);
void check_dup(const Program&, const Instr&);
void check_shift(const Program&, const Instr&);

void check_vconv(const Program&, const Instr&);
void run_vconv(Machine&, const Instr&);

void check_compare(const Program&, const Instr&);
void run_compare(Machine&, const Instr&);
void check_select(const Program&, const Instr&);
void run_select(Machine&, const Instr&);

// OpInfo::code of reductions.
enum ReduceOp { kReduceAdd, kReduceMax, kReduceMin, kGroupAdd, kGroupMax, kGroupMin, kPairAdd };
void check_reduce(const Program&, const Instr&);
void run_reduce(Machine&, const Instr&);

void check_nchw(const Program&, const Instr&);
void run_nchw(Machine&, const Instr&);
void check_vtranspose(const Program&, const Instr&);
void run_vtranspose(Machine&, const Instr&);
void check_load2d(const Program&, const Instr&);
void run_load2d(Machine&, const Instr&);

void check_data_move(const Program&, const Instr&);
void run_data_move(Machine&, const Instr&);
void check_move_pad(const Program&, const Instr&);
void run_move_pad(Machine&, const Instr&);
void check_nd2nz(const Program&, const Instr&);
void run_nd2nz(Machine&, const Instr&);
void check_move_l0c(const Program&, const Instr&);
void run_move_l0c(Machine&, const Instr&);
void check_fixpipe(const Program&, const Instr&);
void run_fixpipe(Machine&, const Instr&);

void check_mmad(const Program&, const Instr&);
void run_mmad(Machine&, const Instr&);
void check_matmul(const Program&, const Instr&);
void run_matmul(Machine&, const Instr&);

void check_atomic_mode(const Program&, const Instr&);
void run_atomic_mode(Machine&, const Instr&);
void check_pipe(const Program&, const Instr&);
void run_nothing(Machine&, const Instr&);
void check_barrier(const Program&, const Instr&);
void run_barrier(Machine&, const Instr&);

}  // namespace mco
