// SPDX-License-Identifier: Apache-2.0
// Numbers of places in the source and of memory for what looks at a launch, the same for all of its cores.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "asc_core.h"

namespace mco::asc {

class Directory {
 public:
  Directory();
  virtual ~Directory() = default;

  uint32_t place(const Place& place);
  uint32_t number_of(const Home& home);
  uint32_t number_of(const MemorySpan& memory, const Place& made);
  const Program& program() const { return program_; }
  // Name and address of everything that is named; lives as long as its owners.
  std::shared_ptr<const Program> shared_program() const { return {shared_, &shared_->program}; }

 protected:
  // Memory that has a number from now on.
  virtual void added(uint32_t, const MemorySpan&) {}

 private:
  struct Tables {
    Program program;
    std::deque<std::string> names;
  };
  const std::shared_ptr<Tables> shared_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> places_;
  std::map<std::tuple<std::string, int, int64_t, int64_t>, uint32_t> buffers_;

 protected:
  Program& program_;
};

}  // namespace mco::asc
