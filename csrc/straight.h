// SPDX-License-Identifier: Apache-2.0
// Moves beside a product that are made on the way: fractals are taken from where load2d would have copied them from,
// and a result goes straight to where fixpipe copies it. Found once, while a Program is loaded.
//
// A load2d is left out where all that is read of its destination, anywhere in the Program, are operands of products
// that it goes before on every way to them, with nothing in between that writes its source; conditions may lie between,
// ends of loops may not. A result is written to its place alone where nothing else in the Program reads those bytes of
// L0C. Every check of both instructions is made as before.
#pragma once

#include "program.h"

namespace mco {

// Bits of Instr::straight.
enum Straight : uint8_t {
  kNoted = 1,   // load2d: notes where fractals lie, copies none
  kLeft = 2,    // mmad: its left operand is what was noted
  kRight = 4,   // and its right one
  kLeaves = 8,  // mmad: its result goes to where `partner`, a fixpipe, would copy it
  kCame = 16,   // that fixpipe
};

void make_straight(Program& p);

}  // namespace mco
