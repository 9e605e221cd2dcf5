// SPDX-License-Identifier: Apache-2.0
// fe::PlatFormInfos and platform_ascendc::PlatformAscendC: the chip of a call.
#ifndef MCO_HOST_PLATFORM_INFOS_H_
#define MCO_HOST_PLATFORM_INFOS_H_

#include <map>
#include <mutex>
#include <string>

#include "mco_host/chip.h"
#include "mco_host/log.h"

#ifndef MCO_HOST_SOC
#define MCO_HOST_SOC "Ascend910B1"
#endif

namespace fe {

enum class LocalMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, RESERVED };

class PlatFormInfos {
 public:
  PlatFormInfos() = default;
  explicit PlatFormInfos(const mco_host::Chip& chip) : chip_(chip) {}
  const mco_host::Chip& chip() const { return chip_; }

  uint32_t GetCoreNum() const { return chip_.split_core ? chip_.vector_cores : chip_.cube_cores; }
  uint32_t GetCoreNumByType(const std::string& type) const {
    return type == "VectorCore" ? chip_.vector_cores : chip_.cube_cores;
  }
  void SetCoreNum(const uint32_t&) {}
  void GetLocalMemSize(const LocalMemType& type, uint64_t& size) const {
    switch (type) {
      case LocalMemType::L0_A:
        size = chip_.l0a;
        break;
      case LocalMemType::L0_B:
        size = chip_.l0b;
        break;
      case LocalMemType::L0_C:
        size = chip_.l0c;
        break;
      case LocalMemType::L1:
        size = chip_.l1;
        break;
      case LocalMemType::L2:
        size = chip_.l2;
        break;
      case LocalMemType::UB:
        size = chip_.ub;
        break;
      default:
        size = 0;
    }
  }
  bool GetPlatformRes(const std::string& label, const std::string& key, std::string& value) const {
    if (label == "version") {
      if (key == "SoC_version" || key == "Short_SoC_version") {
        value = key == "SoC_version" ? chip_.name : std::string("Ascend") + chip_.family;
        return true;
      }
    } else if (label == "SoCInfo") {
      if (key == "ai_core_cnt" || key == "cube_core_cnt") return value = std::to_string(chip_.cube_cores), true;
      if (key == "vector_core_cnt") return value = std::to_string(chip_.vector_cores), true;
      if (key == "l2_size") return value = std::to_string(chip_.l2), true;
    } else if (label == "AICoreSpec") {
      if (key == "ub_size") return value = std::to_string(chip_.ub), true;
      if (key == "l1_size") return value = std::to_string(chip_.l1), true;
      if (key == "l0_a_size") return value = std::to_string(chip_.l0a), true;
      if (key == "l0_b_size") return value = std::to_string(chip_.l0b), true;
      if (key == "l0_c_size") return value = std::to_string(chip_.l0c), true;
      if (key == "cube_vector_split") return value = chip_.split_core ? "1" : "0", true;
    }
    return false;
  }
  bool GetPlatformResWithLock(const std::string& label, const std::string& key, std::string& value) const {
    return GetPlatformRes(label, key, value);
  }

 private:
  mco_host::Chip chip_ = *mco_host::FindChip("Ascend910B");
};

}  // namespace fe

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };
enum class SocVersion {
  ASCEND910 = 0,
  ASCEND910B,
  ASCEND310P,
  ASCEND310B,
  ASCEND910_93,
  ASCEND950,
  ASCEND910_95 = ASCEND950,
  RESERVED_VERSION = 99999
};
enum class NpuArch { DAV_1001 = 1001, DAV_2002 = 2002, DAV_2201 = 2201, DAV_3002 = 3002, DAV_3510 = 3510 };
enum class ReservedSize : uint32_t { RESERVED_SIZE_8K, RESERVED_SIZE_16K, RESERVED_SIZE_32K };

class PlatformAscendC {
 public:
  PlatformAscendC() = delete;
  explicit PlatformAscendC(fe::PlatFormInfos* infos) : chip_(infos ? infos->chip() : Missing()) {}

  // Vector cores where they are cores of their own.
  uint32_t GetCoreNum() const { return chip_.split_core ? chip_.vector_cores : chip_.cube_cores; }
  uint32_t GetCoreNumAic() const { return chip_.cube_cores; }
  uint32_t GetCoreNumAiv() const { return chip_.split_core ? chip_.vector_cores : chip_.cube_cores; }
  uint32_t GetCoreNumVector() const { return Is("310P") ? chip_.vector_cores : 0; }
  uint32_t GetVectorCoreNum() const { return GetCoreNumVector(); }

  void GetCoreMemSize(const CoreMemType& type, uint64_t& size) const {
    switch (type) {
      case CoreMemType::L0_A:
        size = chip_.l0a;
        break;
      case CoreMemType::L0_B:
        size = chip_.l0b;
        break;
      case CoreMemType::L0_C:
        size = chip_.l0c;
        break;
      case CoreMemType::L1:
        size = chip_.l1;
        break;
      case CoreMemType::L2:
        size = chip_.l2;
        break;
      case CoreMemType::UB:
        size = chip_.ub - reserved_;
        break;
      case CoreMemType::FB:
        size = chip_.split_core ? 2048 : 0;
        break;
      case CoreMemType::BT:
        size = chip_.bt;
        break;
      default:
        size = 0;
    }
  }
  uint64_t GetCoreMemSize(const CoreMemType& type) const {
    uint64_t size = 0;
    GetCoreMemSize(type, size);
    return size;
  }
  // The chip table has no bandwidths.
  void GetCoreMemBw(const CoreMemType& type, uint64_t& bandwidth) const = delete;
  void ReserveLocalMemory(ReservedSize size) {
    reserved_ = size == ReservedSize::RESERVED_SIZE_8K ? 8192 : size == ReservedSize::RESERVED_SIZE_16K ? 16384 : 32768;
  }
  uint32_t GetLibApiWorkSpaceSize() const { return mco_host::kSystemWorkspaceBytes; }
  uint32_t GetResCubeGroupWorkSpaceSize() const { return 1024 * 1024; }
  uint32_t GetResGroupBarrierWorkSpaceSize() const { return 1024 * 1024; }
  SocVersion GetSocVersion() const {
    if (Is("910B")) return SocVersion::ASCEND910B;
    if (Is("910_93")) return SocVersion::ASCEND910_93;
    if (Is("310P")) return SocVersion::ASCEND310P;
    if (Is("910A")) return SocVersion::ASCEND910;
    return SocVersion::RESERVED_VERSION;
  }
  NpuArch GetCurNpuArch() const {
    return chip_.split_core ? NpuArch::DAV_2201 : Is("310P") ? NpuArch::DAV_2002 : NpuArch::DAV_1001;
  }
  uint32_t CalcTschNumBlocks(uint32_t slices, uint32_t cube_cores, uint32_t vector_cores) const {
    return CalcTschBlockDim(slices, cube_cores, vector_cores);
  }
  // Blocks for `slices` pieces of work: on split chips a block is one cube core and its vector cores.
  uint32_t CalcTschBlockDim(uint32_t slices, uint32_t cube_cores, uint32_t vector_cores) const {
    if (!chip_.split_core || cube_cores == 0 || vector_cores == 0 || cube_cores > vector_cores) return slices;
    const uint32_t ratio = vector_cores / cube_cores;
    return (slices + ratio - 1) / ratio;
  }

 protected:
  explicit PlatformAscendC(const mco_host::Chip& chip) : chip_(chip) {}

 private:
  static const mco_host::Chip& Missing() {
    mco_host::Log(mco_host::kError, __FILE__, __LINE__, "PlatformAscendC: the platform info is null");
    static const mco_host::Chip none = {"", "", 0, 0, false, 0, 0, 0, 0, 0, 0, 0};
    return none;
  }
  bool Is(const char* family) const { return !std::strcmp(chip_.family, family); }
  mco_host::Chip chip_;
  uint64_t reserved_ = 0;
};

// For programs that launch kernels themselves: the chip by name, or the one the program was built for.
class PlatformAscendCManager {
 public:
  static PlatformAscendC* GetInstance() { return Named(MCO_HOST_SOC); }
  static PlatformAscendC* GetInstance(const char* soc) { return Named(soc ? soc : MCO_HOST_SOC); }

 private:
  struct Owned : PlatformAscendC {
    explicit Owned(const mco_host::Chip& chip) : PlatformAscendC(chip) {}
  };
  static PlatformAscendC* Named(const char* soc) {
    const mco_host::Chip* chip = mco_host::FindChip(soc);
    if (!chip) return nullptr;
    static std::map<std::string, Owned> platforms;
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    return &platforms.emplace(chip->name, Owned(*chip)).first->second;
  }
};

}  // namespace platform_ascendc

using platform_ascendc::NpuArch;

#endif  // MCO_HOST_PLATFORM_INFOS_H_
