// SPDX-License-Identifier: Apache-2.0
// Compares the artifact's target with the CPU it is about to run on.
#include "autopar/Artifact/CudaTarget.h"
#include "autopar/Runtime/KernelLibrary.h"

#include <cpuid.h>

namespace autopar::runtime {
namespace {

/// psABI level of this CPU, 1 to 4.
int cpuLevel() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("ssse3") ||
      !__builtin_cpu_supports("popcnt"))
    return 1;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("fma"))
    return 2;
  for (bool has :
       {bool(__builtin_cpu_supports("avx512f")), bool(__builtin_cpu_supports("avx512bw")),
        bool(__builtin_cpu_supports("avx512cd")), bool(__builtin_cpu_supports("avx512dq")),
        bool(__builtin_cpu_supports("avx512vl"))})
    if (!has)
      return 3;
  return 4;
}

bool hasAmx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1) &&
         (d >> 22 & 1); // tiles and bf16
}

} // namespace

Status checkTarget(const artifact::Target &target) {
  // The GPU and its driver are looked at when the device is created.
  if (target.isCuda())
    return artifact::CudaTarget::parse(target.features).status();
  if (target.architecture != "x86-64")
    return Status::mismatch("the artifact is for " + target.architecture +
                            ", this machine is x86-64; compile the model for this machine");
  std::string level = target.features;
  bool wantsAmx = false, wantsVnni = false;
  if (size_t plus = level.find('+'); plus != std::string::npos) {
    wantsAmx = level.substr(plus) == "+amx";
    wantsVnni = level.substr(plus) == "+vnni";
    if (!wantsAmx && !wantsVnni)
      return Status::mismatch("the artifact wants CPU features '" + target.features +
                              "', which this program does not know; use a newer autopar-run");
    level.resize(plus);
  }
  int needed = level == "x86-64"      ? 1
               : level == "x86-64-v2" ? 2
               : level == "x86-64-v3" ? 3
               : level == "x86-64-v4" ? 4
                                      : 0;
  if (needed == 0)
    return Status::mismatch("the artifact wants CPU features '" + target.features +
                            "', which this program does not know; use a newer autopar-run");
  int have = cpuLevel();
  bool lacksAmx = wantsAmx && !hasAmx(),
       lacksVnni = wantsVnni && !__builtin_cpu_supports("avx512vnni");
  if (have < needed || lacksAmx || lacksVnni)
    return Status::mismatch(
        "the artifact was compiled for " + target.features + ", this CPU offers " +
        (have == 1 ? std::string("x86-64") : "x86-64-v" + std::to_string(have)) +
        (lacksAmx ? " without AMX" : "") + (lacksVnni ? " without AVX512-VNNI" : "") +
        "; compile with --target-cpu for this machine");
  return Status::ok();
}

} // namespace autopar::runtime
