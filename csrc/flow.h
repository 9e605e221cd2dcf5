// SPDX-License-Identifier: Apache-2.0
// How marks of bytes without content go through an instruction, lane by lane, byte by byte.
#pragma once

#include "checker.h"

namespace mco {

class Flow {
 public:
  // Some byte that the instruction reads is not held.
  Flow(Checker& checker, Machine& m, const Instr& in, const Use& use, std::vector<OperandUse>& operands)
      : c_(checker), m_(m), in_(in), use_(use), operands_(operands) {}
  void run();

 private:
  int index(const char* name) const { return use_.operand(name); }
  Mark named(int operand, Mark mark);                    // a mark of bytes that this instruction reads first
  Mark first_mark(int operand);                          // of the bytes an operand is read on, or kHeld
  Mark range_mark(int operand, int64_t lo, int64_t hi);  // of bytes from its start
  void put(int operand, int64_t lo, int64_t hi, Mark mark);
  void put_all(int operand, Mark mark);

  void lanes();
  void select();
  void compare();
  void reduce();
  void product();
  void matrix();
  void elements();
  void gather();
  void keep();
  void records();
  void bytes();
  void unpad();
  int pad_index() const;
  void all();
  void decides(int operand, const char* what);  // bytes that choose addresses or results

  Checker& c_;
  Machine& m_;
  const Instr& in_;
  const Use& use_;
  std::vector<OperandUse>& operands_;
};

}  // namespace mco
