// SPDX-License-Identifier: Apache-2.0
// What is used of NCCL (libnccl.so.2): its C interface, declared here so that building needs no
// toolkit. A test compares the numbers with NCCL's header where it is.
#pragma once

#include "../../device/cuda/DriverCalls.h"

#include <climits>

namespace autopar::runtime::cuda {

enum class NcclResult : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};

using NcclHandle = struct NcclRecord *;
struct NcclUniqueId {
  char bytes[128];
};
constexpr int kOldestNccl = 21400;
/// The first version whose configuration has numbers of blocks.
constexpr int kNcclWithCtas = 21700;
constexpr int kNcclUndefined = INT_MIN;
/// As of 2.17; `size` and `version` say how much of it is meant, and later versions take it for
/// what it is. Before 2.17 it ended behind `blocking`.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kNcclWithCtas;
  int blocking = 0;
  int cgaClusterSize = kNcclUndefined;
  int minCtas = kNcclUndefined, maxCtas = kNcclUndefined; ///< blocks of a kernel
  const char *netName = nullptr;
};
constexpr size_t kNcclConfigBytes21400 = 24;

constexpr int kNcclI8 = 0, kNcclU8 = 1, kNcclI32 = 2, kNcclU32 = 3, kNcclI64 = 4, kNcclU64 = 5,
              kNcclF16 = 6, kNcclF32 = 7, kNcclF64 = 8, kNcclBF16 = 9;
constexpr int kNcclSum = 0, kNcclProd = 1, kNcclMax = 2, kNcclMin = 3;

#define AUTOPAR_NCCL_CALLS(X)                                                                      \
  X(getVersion, ncclGetVersion, (int *version))                                                    \
  X(getUniqueId, ncclGetUniqueId, (NcclUniqueId * id))                                             \
  X(init, ncclCommInitRankConfig,                                                                  \
    (NcclHandle * comm, int ranks, NcclUniqueId id, int rank, NcclConfig *config))                 \
  X(destroy, ncclCommDestroy, (NcclHandle comm))                                                   \
  X(finalize, ncclCommFinalize, (NcclHandle comm))                                                 \
  X(abort, ncclCommAbort, (NcclHandle comm))                                                       \
  X(asyncError, ncclCommGetAsyncError, (NcclHandle comm, NcclResult * state))                      \
  X(groupStart, ncclGroupStart, ())                                                                \
  X(groupEnd, ncclGroupEnd, ())                                                                    \
  X(allReduce, ncclAllReduce,                                                                      \
    (const void *input, void *output, size_t count, int type, int reduction, NcclHandle comm,      \
     Stream stream))                                                                               \
  X(allGather, ncclAllGather,                                                                      \
    (const void *input, void *output, size_t count, int type, NcclHandle comm, Stream stream))     \
  X(reduceScatter, ncclReduceScatter,                                                              \
    (const void *input, void *output, size_t count, int type, int reduction, NcclHandle comm,      \
     Stream stream))                                                                               \
  X(broadcast, ncclBroadcast,                                                                      \
    (const void *input, void *output, size_t count, int type, int root, NcclHandle comm,           \
     Stream stream))                                                                               \
  X(send, ncclSend,                                                                                \
    (const void *data, size_t count, int type, int peer, NcclHandle comm, Stream stream))          \
  X(receive, ncclRecv,                                                                             \
    (void *data, size_t count, int type, int peer, NcclHandle comm, Stream stream))

/// NCCL's functions, as they were found.
struct NcclCalls {
#define AUTOPAR_MEMBER(name, symbol, parameters) NcclResult(*name) parameters = nullptr;
  AUTOPAR_NCCL_CALLS(AUTOPAR_MEMBER)
#undef AUTOPAR_MEMBER
  const char *(*errorText)(NcclResult result) = nullptr; ///< ncclGetErrorString
  const char *(*lastError)(NcclHandle comm) = nullptr;   ///< ncclGetLastError
  int version = 0;
};

} // namespace autopar::runtime::cuda
