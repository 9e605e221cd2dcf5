// SPDX-License-Identifier: Apache-2.0
// Handlers and checks of the instruction table, one pair per family.
#pragma once

#include "instruction.h"
#include "machine.h"

namespace mco {

// Numbers of LaneOp in OpInfo::code for the element-wise family.
void check_lanes(const Program&, const Instr&);
void run_lanes(Machine&, const Instr&);
void prepare_scalar(const Program&, const Instr&, Plan&);  // of an instruction that run_lanes executes
void check_dup(const Program&, const Instr&);
// Whether it is one operation of run_lanes on elements of one dtype; whether it reads what it overwrites.
bool is_flat_lanes(const Instr&);
bool reads_dst(const Instr&);
// The LaneOp and the job of such an instruction whose plan is flat.
int flat_job(Machine&, const Instr&, LaneJob&);

#define MCO_HANDLERS(check, run)            \
  void check(const Program&, const Instr&); \
  void run(Machine&, const Instr&);
MCO_HANDLERS(check_gather, run_vgather)
void run_vscatter(Machine&, const Instr&);
MCO_HANDLERS(check_gatherb, run_vgatherb)
MCO_HANDLERS(check_bcb, run_vbcb)
MCO_HANDLERS(check_vci, run_vci)
MCO_HANDLERS(check_copy, run_vcopy)
MCO_HANDLERS(check_padding, run_vpadding)
MCO_HANDLERS(check_vbi, run_vbi)
MCO_HANDLERS(check_vreduce, run_vreduce)
MCO_HANDLERS(check_mulconv, run_two_sources)
void check_adddeq(const Program&, const Instr&);
MCO_HANDLERS(check_select_scalars, run_select_scalars)
MCO_HANDLERS(check_conv_deq, run_conv_deq)
void run_mode(Machine&, const Instr&);
MCO_HANDLERS(check_rpsort, run_rpsort)
MCO_HANDLERS(check_sort32, run_sort32)
MCO_HANDLERS(check_mrgsort, run_mrgsort)
MCO_HANDLERS(check_scores, run_rpac)
void run_viou(Machine&, const Instr&);
void run_vaadd(Machine&, const Instr&);
MCO_HANDLERS(check_field, run_field)
MCO_HANDLERS(check_mrgch, run_mrgch)
MCO_HANDLERS(check_suppression, run_rpn_cor)
void run_rpn_cor_diag(Machine&, const Instr&);
#undef MCO_HANDLERS

void check_vconv(const Program&, const Instr&);
void run_vconv(Machine&, const Instr&);

void check_compare(const Program&, const Instr&);
void run_compare(Machine&, const Instr&);
void run_masked_compare(Machine&, const Instr&);
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
void check_load2d_square(const Program&, const Instr&);
void run_load2d_square(Machine&, const Instr&);

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

void check_load3dv1(const Program&, const Instr&);
void run_load3dv1(Machine&, const Instr&);
void check_load3dv2(const Program&, const Instr&);
void run_load3dv2(Machine&, const Instr&);
void check_col2img(const Program&, const Instr&);
void run_col2img(Machine&, const Instr&);
void check_conv2d(const Program&, const Instr&);
void run_conv2d(Machine&, const Instr&);
void check_l0c_out(const Program&, const Instr&);
void run_l0c_out(Machine&, const Instr&);
void check_l0c_matrix(const Program&, const Instr&);
void run_l0c_matrix(Machine&, const Instr&);
void check_broadcast_l0c(const Program&, const Instr&);
void run_broadcast_l0c(Machine&, const Instr&);
void check_fill(const Program&, const Instr&);
void run_fill(Machine&, const Instr&);
void run_fill_blocks(Machine&, const Instr&);
void check_v4dtrans(const Program&, const Instr&);
void run_v4dtrans(Machine&, const Instr&);
void check_load_image(const Program&, const Instr&);
void run_load_image(Machine&, const Instr&);

void run_atomic_mode(Machine&, const Instr&);
void check_nothing(const Program&, const Instr&);
void run_nothing(Machine&, const Instr&);
void check_barrier(const Program&, const Instr&);
void run_barrier(Machine&, const Instr&);

}  // namespace mco
