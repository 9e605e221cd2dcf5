// SPDX-License-Identifier: Apache-2.0
// What host code asks of the chip: one row of the chip table, chips.inc, which is generated from soc/table.py.
#ifndef MCO_HOST_CHIP_H_
#define MCO_HOST_CHIP_H_

#include <cstdint>
#include <cstring>
#include <string>

namespace mco_host {

struct Chip {
  const char* name;
  const char* family;
  uint32_t cube_cores, vector_cores;
  bool split_core;
  uint64_t ub, l1, l0a, l0b, l0c, bt, l2;
};

inline const Chip kChips[] = {
#include "mco_host/chips.inc"
};

// The chip called `name`, or of that family; null when there is none.
inline const Chip* FindChip(const char* name) {
  for (const Chip& chip : kChips) {
    if (!std::strcmp(chip.name, name)) return &chip;
  }
  std::string family = std::strncmp(name, "Ascend", 6) ? name : name + 6;
  if (family == "910") family = "910A";
  for (const Chip& chip : kChips) {
    if (family == chip.family) return &chip;
  }
  return nullptr;
}

// Bytes at the start of a workspace that belong to the library: what GetLibApiWorkSpaceSize answers and
// GetUserWorkspace of a kernel skips.
constexpr uint32_t kSystemWorkspaceBytes = 16 * 1024 * 1024;

}  // namespace mco_host

#endif  // MCO_HOST_CHIP_H_
