// SPDX-License-Identifier: Apache-2.0
// Element types and reductions by NCCL's numbers, and how its communicators are configured.
#pragma once

#include "NcclCalls.h"
#include "NcclPlan.h"
#include "autopar/Artifact/Program.h"

#include <optional>

namespace autopar::runtime::cuda {

/// What NCCL reduces; bytes of others can be moved all the same.
inline std::optional<int> ncclType(DataType dtype) {
  switch (dtype) {
  case DataType::I8:
    return kNcclI8;
  case DataType::U8:
  case DataType::Bool:
    return kNcclU8;
  case DataType::I32:
    return kNcclI32;
  case DataType::U32:
    return kNcclU32;
  case DataType::I64:
    return kNcclI64;
  case DataType::U64:
    return kNcclU64;
  case DataType::F16:
    return kNcclF16;
  case DataType::F32:
    return kNcclF32;
  case DataType::F64:
    return kNcclF64;
  case DataType::BF16:
    return kNcclBF16;
  default:
    return std::nullopt;
  }
}

inline int ncclReduction(artifact::Reduction reduction, DataType dtype) {
  // What is true of one or of all.
  if (dtype == DataType::Bool)
    return reduction == artifact::Reduction::Sum || reduction == artifact::Reduction::Max
               ? kNcclMax
               : kNcclMin;
  switch (reduction) {
  case artifact::Reduction::Sum:
    return kNcclSum;
  case artifact::Reduction::Prod:
    return kNcclProd;
  case artifact::Reduction::Max:
    return kNcclMax;
  case artifact::Reduction::Min:
    return kNcclMin;
  }
  return kNcclSum;
}

/// Blocks of a message's kernel at most. A receive occupies them from its issue on until the
/// message comes, many at a time, and what computes needs the other multiprocessors.
constexpr int kMostMessageCtas = 8;

/// For communicators of this library.
inline NcclConfig ncclConfig(NcclUse::Kind kind, int libraryVersion) {
  NcclConfig config;
  if (libraryVersion < kNcclWithCtas) {
    config.size = kNcclConfigBytes21400;
    config.version = kOldestNccl;
  } else if (kind != NcclUse::Kind::Group) {
    config.maxCtas = kMostMessageCtas;
  }
  return config;
}

} // namespace autopar::runtime::cuda
