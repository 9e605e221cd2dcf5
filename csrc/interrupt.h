// SPDX-License-Identifier: Apache-2.0
// SIGINT while the engine runs below a framework, on a thread that cannot ask the interpreter: a handler of ours counts
// it and calls the one that was there, which keeps its effect.
#pragma once

namespace mco {

// Number of SIGINTs so far. A process that has no handler of its own for it gets none from here.
unsigned begin_heeding_interrupts();
void end_heeding_interrupts();
unsigned interrupts();

}  // namespace mco
