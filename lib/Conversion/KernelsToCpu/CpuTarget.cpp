// SPDX-License-Identifier: Apache-2.0
// Levels of x86-64 and how this machine's level is found: by feature bits, since the model number
// that a virtual machine shows may belong to an older CPU.
#include "Stages.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace autopar {
namespace {

struct Level {
  const char *name;
  const char *cpu;
  const char *features;
  unsigned widestVector;
  /// What the CPU must offer.
  std::initializer_list<const char *> needs;
};

const Level levels[] = {
    {"x86-64-v3", "x86-64-v3", "", 256, {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}},
    {"x86-64-v4",
     "x86-64-v4",
     "",
     512,
     {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
    {"x86-64-v4+amx",
     "x86-64-v4",
     "+avx512bf16,+avx512vnni,+amx-tile,+amx-bf16,+amx-int8",
     512,
     {"avx512bf16", "avx512vnni", "amx-tile", "amx-bf16", "amx-int8"}},
};

const Level *findLevel(llvm::StringRef name) {
  for (const Level &level : levels)
    if (name == level.name)
      return &level;
  return nullptr;
}

/// Each level needs all levels before it.
const Level *hostLevel() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  const Level *best = nullptr;
  for (const Level &level : levels) {
    if (!llvm::all_of(level.needs, [&](const char *feature) { return features.lookup(feature); }))
      break;
    best = &level;
  }
  return best;
}

} // namespace

FailureOr<CpuTarget> resolveCpuTarget(const CpuTarget &target, Location loc) {
  const Level *level = target.level == "native" ? hostLevel() : findLevel(target.level);
  if (!level && target.level == "native")
    return emitError(loc, "this machine's CPU is below x86-64-v3 (AVX2, FMA, F16C), the lowest "
                          "level that kernels are "
                          "compiled for; name the level of the machine that will run them");
  if (!level)
    return emitError(loc, "unknown CPU level '")
           << target.level << "'; expected x86-64-v3, x86-64-v4, x86-64-v4+amx or native";
  unsigned width = target.preferVectorWidth ? target.preferVectorWidth : level->widestVector;
  if (width != 128 && width != 256 && width != 512)
    return emitError(loc, "preferred vector width of ")
           << width << " bits; expected 128, 256 or 512";
  if (width > level->widestVector)
    return emitError(loc, "preferred vector width of ")
           << width << " bits, but " << level->name << " has " << level->widestVector;
  return CpuTarget{level->name, width, target.optimizes};
}

/// "native" has what this machine has, whatever its level.
static bool hasFeature(llvm::StringRef level, llvm::StringRef feature) {
  if (level == "native")
    return llvm::sys::getHostCPUFeatures().lookup(feature);
  const Level *known = findLevel(level);
  return known && llvm::any_of(llvm::ArrayRef(levels, known + 1), [&](const Level &one) {
           return llvm::is_contained(one.needs, feature);
         });
}

bool multipliesBf16(llvm::StringRef level) { return hasFeature(level, "avx512bf16"); }

bool libraryHasBf16(llvm::StringRef level) {
  return hasFeature(level, "avx512bw") && hasFeature("native", "avx512bw");
}

bool multipliesBytes(llvm::StringRef level) {
  return hasFeature(level, "avx512vnni") && hasFeature("native", "avx512vnni");
}

namespace cpu {

LlvmTarget toLlvm(const CpuTarget &resolved) {
  const Level *level = findLevel(resolved.level);
  return {level->cpu, level->features, resolved.preferVectorWidth, resolved.optimizes};
}

} // namespace cpu
} // namespace autopar
