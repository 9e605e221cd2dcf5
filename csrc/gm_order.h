// SPDX-License-Identifier: Apache-2.0
// Order of the cores of a launch whose accesses to GM flags, barriers and handed work order: vector clocks of the
// pipes of every core, and for every byte in GM who wrote it last and who has read it since. Serves one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cores.h"
#include "pipes.h"

namespace mco {

class GmOrder {
 public:
  // What a core knows of others: the clocks of their pipes, by core.
  using Known = std::vector<std::pair<int64_t, Pipes::Clock>>;

  GmOrder(const Program& p, std::vector<std::string> titles);

  // Bytes that a pipe of a core touches at a time of its clock.
  struct Event {
    int64_t core;
    int pipe;
    uint32_t time, loc, buffer;
    GmUse use;
  };
  void access(const Event& e, int64_t base, const Touched& touched, Findings& found);
  // What a flag carries that a core sets; `own`: the clock of the pipe that sets it.
  Known tell(int64_t core, const Pipes::Clock& own) const;
  void learn(int64_t core, const Known& known);
  static void join(Known& to, const Known& from);
  // A core that looks at GM again and again, until it sees what it waits for, has not read it yet.
  void polls(int64_t core);
  // All cores have met: nothing before is unordered to what comes.
  void forget();

 private:
  struct Segment {
    int64_t end;
    std::vector<Event> writes, reads;  // several writes: additions of several cores
  };
  using Segments = std::map<int64_t, Segment>;
  bool knows(int64_t core, const Event& past) const;
  void run(const Event& e, int64_t lo, int64_t hi, Findings& found);
  void look(const Event& e, const Segment& s, int64_t lo, int64_t hi, bool whole, Findings& found);
  void clash(const Event& e, const Event& past, int64_t lo, int64_t hi, Findings& found);
  static Segments::iterator split(Segments& all, int64_t at);
  static void note(std::vector<Event>& list, const Event& e);

  const Program& program_;
  const std::vector<std::string> titles_;
  std::vector<Known> known_;
  std::map<uint32_t, Segments> of_;  // by buffer
};

}  // namespace mco
