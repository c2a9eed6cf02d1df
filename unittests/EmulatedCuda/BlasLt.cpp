// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's C functions for the emulated GPUs, by definition. Strict: an algorithm serves the
// problem and the alignments that it was asked for, matrices must lie in allocated memory, a bias
// vector needs its pointer.
#include "BlasLt.h"
#include "Emulation.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>

using namespace autopar::runtime::cuda;
using namespace emulated;

extern "C" autopar::runtime::cuda::DriverError cuDriverGetVersion(int *version);

namespace {

/// Ranks are threads.
std::recursive_mutex lock;

template <typename T>
std::set<T *> &all() {
  static std::set<T *> known;
  return known;
}
template <typename T>
BlasStatus make(T **made, T value) {
  std::lock_guard guard(lock);
  *made = new T(value);
  all<T>().insert(*made);
  return BlasStatus::Success;
}
template <typename T>
BlasStatus drop(T *one) {
  std::lock_guard guard(lock);
  if (!all<T>().erase(one))
    return BlasStatus::InvalidValue;
  delete one;
  return BlasStatus::Success;
}
template <typename T>
bool exists(T *one) {
  std::lock_guard guard(lock);
  return all<T>().count(one) != 0;
}

BlasStatus refuse(const std::string &why, BlasStatus status = BlasStatus::InvalidValue) {
  complain("cuBLASLt: " + why);
  return status;
}

/// What an algorithm is for.
struct Problem {
  uint64_t rows = 0, columns = 0, depth = 0;
  uint64_t key() const { return (rows * 1000003 + columns) * 1000003 + depth; }
};

/// Whether a product of these sizes may have the epilogue.
BlasStatus checkEpilogue(const BlasOperationRecord &o, int32_t matrices, const Problem &problem) {
  constexpr int activations[] = {kBlasNoEpilogue,
                                 kBlasBias,
                                 kBlasRelu,
                                 kBlasRelu | kBlasBias,
                                 kBlasRelu | kBlasAux,
                                 kBlasRelu | kBlasAux | kBlasBias,
                                 kBlasGelu,
                                 kBlasGelu | kBlasBias,
                                 kBlasGelu | kBlasAux,
                                 kBlasGelu | kBlasAux | kBlasBias,
                                 kBlasReluGradient,
                                 kBlasGeluGradient,
                                 kBlasSumsOfLeft,
                                 kBlasSumsOfRight};
  if (std::find(std::begin(activations), std::end(activations), int(o.epilogue)) ==
      std::end(activations))
    return refuse("an epilogue that is none: " + std::to_string(o.epilogue));
  if (!has(o, kBlasAux) && !hasSums(o))
    return BlasStatus::Success;
  if (matrices != 1)
    return refuse("a second result of several matrices in one place");
  int64_t step = hasMask(o) ? kBlasMaskStep : kBlasAuxStep;
  if (has(o, kBlasAux) && (o.auxLeading % step != 0 || o.auxLeading < int64_t(problem.rows)))
    return refuse("lines of aux that are no multiple of " + std::to_string(step) + ", or too short",
                  BlasStatus::NotSupported);
  // NVIDIA's nvmath-python keeps these from the library.
  if (has(o, kBlasSumsOfLeft) && (o.transposeA || problem.rows == 1))
    return refuse("sums of a transposed A, or of one row", BlasStatus::NotSupported);
  if (has(o, kBlasSumsOfRight) && (!o.transposeB || problem.columns == 1))
    return refuse("sums of a B that is not transposed, or of one column", BlasStatus::NotSupported);
  return (hasSums(o) || hasGradient(o)) && problem.depth == 1 ? BlasStatus::NotSupported
                                                              : BlasStatus::Success;
}

/// Whether operation and layouts fit each other.
BlasStatus check(const BlasOperationRecord &o, const BlasLayoutRecord &a, const BlasLayoutRecord &b,
                 const BlasLayoutRecord &c, const BlasLayoutRecord &d, Problem &problem) {
  uint64_t m = o.transposeA ? a.columns : a.rows, k = o.transposeA ? a.rows : a.columns;
  uint64_t kB = o.transposeB ? b.columns : b.rows, n = o.transposeB ? b.rows : b.columns;
  problem = {m, n, k};
  if (k != kB || d.rows != m || d.columns != n || c.rows != m || c.columns != n || m == 0 ||
      n == 0 || k == 0)
    return refuse("sizes of operands do not fit");
  for (const BlasLayoutRecord *layout : {&a, &b, &c, &d}) {
    if (layout->leading < int64_t(layout->rows))
      return refuse("a leading dimension is smaller than the rows");
    if (layout->count != d.count || layout->count < 1)
      return refuse("batches of different size");
    if (layout->count > kBlasMostBatches)
      return refuse("more matrices than a grid is high", BlasStatus::NotSupported);
    if (layout->stride < 0)
      return refuse("a negative batch stride");
  }
  if (d.count > 1 && d.stride == 0)
    return refuse("results of a batch in one place");
  bool isDouble = o.compute == kBlasComputeF64;
  int stored = a.type == kBlasF8 ? kBlasBF16 : a.type;
  bool fits = a.type == b.type && c.type == d.type &&
              (isDouble ? a.type == kBlasF64 && d.type == kBlasF64 && o.scaleType == kBlasF64
                        : a.type != kBlasF64 && (d.type == stored || d.type == kBlasF32) &&
                              o.scaleType == kBlasF32);
  if (!fits)
    return refuse("types that do not go together", BlasStatus::NotSupported);
  // What its documents ask of matrices of 8 bits.
  if (a.type == kBlasF8) {
    if (!o.transposeA || o.transposeB)
      return refuse("matrices of 8 bits that are not TN", BlasStatus::NotSupported);
    for (const BlasLayoutRecord *layout : {&a, &b, &d})
      if (layout->leading * bytesOf(layout->type) % kBlasByteAlignment != 0 ||
          (layout->count > 1 && layout->stride * bytesOf(layout->type) % kBlasByteAlignment != 0))
        return refuse("matrices of 8 bits, or their result, in columns that are no multiple of 16 "
                      "bytes",
                      BlasStatus::NotSupported);
  }
  if ((o.epilogue & kBlasBias) && o.biasType >= 0 && o.biasType != d.type)
    return refuse("a bias of another type than the result", BlasStatus::NotSupported);
  return checkEpilogue(o, a.count, problem);
}

uint64_t spanBytes(const BlasLayoutRecord &l) {
  return uint64_t((l.count - 1) * l.stride + int64_t(l.columns - 1) * l.leading + int64_t(l.rows)) *
         uint64_t(bytesOf(l.type));
}

/// Whether what the epilogue reads lies where it can read it.
BlasStatus checkPlaces(const BlasOperationRecord &o) {
  if ((o.epilogue & kBlasBias) && (!o.bias || o.bias % kBlasEpilogueAlignment != 0))
    return refuse("a bias without an address, or at one that is no multiple of 16");
  if (hasSums(o) && (!o.bias || o.bias % kBlasEpilogueAlignment != 0))
    return refuse("sums without an address, or at one that is no multiple of 16");
  if (has(o, kBlasAux) && (!o.aux || o.aux % kBlasEpilogueAlignment != 0))
    return refuse("aux without an address, or at one that is no multiple of 16");
  return BlasStatus::Success;
}

/// What a call is to say instead of doing something; 0 as a rule.
BlasStatus failureOf(const char *variable) {
  const char *number = std::getenv(variable);
  return BlasStatus(number ? std::atoi(number) : 0);
}

/// By the name under which it was opened.
bool isOfCuda13() {
  Dl_info found;
  return dladdr(reinterpret_cast<void *>(&isOfCuda13), &found) &&
         std::string(found.dli_fname).ends_with(".13");
}
int driverVersion() {
  int version = 0;
  cuDriverGetVersion(&version);
  return version;
}

uint64_t alignmentOf(const void *address) {
  uint64_t number = uint64_t(address);
  return number & (~number + 1);
}

} // namespace

#define EXPORTED extern "C" EMULATED_API BlasStatus

extern "C" EMULATED_API const char *cublasLtGetStatusName(BlasStatus status) {
  return status == BlasStatus::Success           ? "CUBLAS_STATUS_SUCCESS"
         : status == BlasStatus::NotInitialized  ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : status == BlasStatus::InvalidValue    ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == BlasStatus::ExecutionFailed ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                 : "CUBLAS_STATUS_NOT_SUPPORTED";
}
EXPORTED cublasLtCreate(BlasHandle *handle) {
  if (currentDevice() < 0)
    return refuse("no context", BlasStatus::NotInitialized);
  if (isOfCuda13() && driverVersion() < 13000)
    return refuse("a library of CUDA 13 on an older driver", BlasStatus::NotInitialized);
  if (BlasStatus failure = failureOf("AUTOPAR_EMULATED_CUBLASLT_CREATE");
      failure != BlasStatus::Success)
    return failure;
  return make(handle, BlasContextRecord{currentDevice()});
}
EXPORTED cublasLtDestroy(BlasHandle handle) { return drop(handle); }
EXPORTED cublasLtMatmulDescCreate(BlasOperation *operation, int compute, int scaleType) {
  if (compute != kBlasComputeF32 && compute != kBlasComputeF64)
    return refuse("a compute type that is not known", BlasStatus::NotSupported);
  BlasOperationRecord made;
  made.compute = compute;
  made.scaleType = scaleType;
  return make(operation, made);
}
EXPORTED cublasLtMatmulDescDestroy(BlasOperation operation) { return drop(operation); }
EXPORTED cublasLtMatmulDescSetAttribute(BlasOperation operation, int attribute, const void *value,
                                        size_t bytes) {
  if (!exists(operation))
    return refuse("no such operation");
  auto put = [&](auto &member) {
    if (bytes != sizeof(member))
      return refuse("attribute " + std::to_string(attribute) + " has another size");
    std::memcpy(&member, value, bytes);
    return BlasStatus::Success;
  };
  switch (attribute) {
  case kBlasTransposeA:
    return put(operation->transposeA);
  case kBlasTransposeB:
    return put(operation->transposeB);
  case kBlasEpilogue:
    return put(operation->epilogue);
  case kBlasBiasPointer:
    return put(operation->bias);
  case kBlasBiasType:
    return put(operation->biasType);
  case kBlasAuxPointer:
    return put(operation->aux);
  case kBlasAuxLeading:
    return put(operation->auxLeading);
  }
  return refuse("attribute " + std::to_string(attribute) + " of operations is not known");
}
EXPORTED cublasLtMatrixLayoutCreate(BlasLayout *layout, int type, uint64_t rows, uint64_t columns,
                                    int64_t leading) {
  if (bytesOf(type) == 0)
    return refuse("a type that is not known", BlasStatus::NotSupported);
  BlasLayoutRecord made;
  made.type = type, made.rows = rows, made.columns = columns, made.leading = leading;
  return make(layout, made);
}
EXPORTED cublasLtMatrixLayoutDestroy(BlasLayout layout) { return drop(layout); }
EXPORTED cublasLtMatrixLayoutSetAttribute(BlasLayout layout, int attribute, const void *value,
                                          size_t bytes) {
  if (!exists(layout))
    return refuse("no such layout");
  if (attribute == kBlasBatchCount && bytes == sizeof(layout->count)) {
    std::memcpy(&layout->count, value, bytes);
    return BlasStatus::Success;
  }
  if (attribute == kBlasBatchStride && bytes == sizeof(layout->stride)) {
    std::memcpy(&layout->stride, value, bytes);
    return BlasStatus::Success;
  }
  return refuse("attribute " + std::to_string(attribute) + " of layouts is not known");
}
EXPORTED cublasLtMatmulPreferenceCreate(BlasPreference *preference) {
  return make(preference, BlasPreferenceRecord{});
}
EXPORTED cublasLtMatmulPreferenceDestroy(BlasPreference preference) { return drop(preference); }
EXPORTED cublasLtMatmulPreferenceSetAttribute(BlasPreference preference, int attribute,
                                              const void *value, size_t bytes) {
  if (!exists(preference))
    return refuse("no such preference");
  if (attribute == kBlasMaxWorkspace && bytes == 8) {
    std::memcpy(&preference->workspace, value, 8);
    return BlasStatus::Success;
  }
  if (attribute == kBlasReductionSchemes && bytes == 4) {
    std::memcpy(&preference->reductions, value, 4);
    return BlasStatus::Success;
  }
  if (attribute >= kBlasMinAlignmentA && attribute <= kBlasMinAlignmentD && bytes == 4) {
    std::memcpy(&preference->alignments[attribute - kBlasMinAlignmentA], value, 4);
    return BlasStatus::Success;
  }
  return refuse("attribute " + std::to_string(attribute) + " of preferences is not known");
}
EXPORTED cublasLtMatmulAlgoGetHeuristic(BlasHandle handle, BlasOperation operation, BlasLayout a,
                                        BlasLayout b, BlasLayout c, BlasLayout d,
                                        BlasPreference preference, int wanted,
                                        BlasHeuristic *results, int *found) {
  *found = 0;
  if (BlasStatus failure = failureOf("AUTOPAR_EMULATED_CUBLASLT_HEURISTIC");
      failure != BlasStatus::Success)
    return failure;
  if (!exists(handle) || !exists(operation) || !exists(a) || !exists(b) || !exists(c) ||
      !exists(d) || !exists(preference) || wanted < 1)
    return refuse("a handle that does not exist");
  Problem problem;
  if (BlasStatus status = check(*operation, *a, *b, *c, *d, problem); status != BlasStatus::Success)
    return status;
  if (BlasStatus status = checkPlaces(*operation); status != BlasStatus::Success)
    return status;
  if (bytesOf(d->type) == 2 && (preference->reductions & ~kBlasReduceInComputeType))
    return refuse("parts of sums that may be rounded to 16 bits");
  for (int i = 0; i < 4; ++i) {
    const BlasLayoutRecord *layouts[] = {a, b, c, d};
    if (preference->alignments[i] < uint32_t(bytesOf(layouts[i]->type)))
      return refuse("an alignment below that of an element");
  }
  if (const char *lacks = std::getenv("AUTOPAR_EMULATED_CUBLASLT_LACKS");
      lacks && operation->epilogue == uint32_t(std::atoi(lacks)))
    return BlasStatus::NotSupported;
  // PyTorch found this and keeps such products from the library
  // (aten/src/ATen/native/cuda/Blas.cpp).
  if ((operation->epilogue & kBlasBias) &&
      (problem.rows == 1 || problem.columns == 1 || problem.depth == 1))
    return BlasStatus::InvalidValue;
  // The first answer is none: only where its state is a success do its other fields count.
  *results = BlasHeuristic{};
  results->state = BlasStatus::NotSupported;
  *found = 1;
  if (wanted == 1)
    return BlasStatus::Success;
  BlasHeuristic best{};
  best.algorithm.data[0] = problem.key();
  for (int i = 0; i < 4; ++i)
    best.algorithm.data[1 + i] = preference->alignments[i];
  // Deep products are split, which takes room.
  uint64_t workspace = problem.depth >= 64 ? problem.rows * problem.columns * 4 : 0;
  best.workspaceBytes = best.algorithm.data[5] = workspace <= preference->workspace ? workspace : 0;
  results[1] = best;
  *found = 2;
  return BlasStatus::Success;
}
EXPORTED cublasLtMatmul(BlasHandle handle, BlasOperation operation, const void *alpha,
                        const void *aData, BlasLayout a, const void *bData, BlasLayout b,
                        const void *beta, const void *cData, BlasLayout c, void *dData,
                        BlasLayout d, const BlasAlgorithm *algorithm, void *workspace,
                        size_t workspaceBytes, Stream stream) {
  if (!exists(handle) || !exists(operation) || !exists(a) || !exists(b) || !exists(c) ||
      !exists(d) || !algorithm)
    return refuse("a handle that does not exist");
  if (handle->device != currentDevice())
    return refuse("a handle of another GPU");
  Problem problem;
  if (BlasStatus status = check(*operation, *a, *b, *c, *d, problem); status != BlasStatus::Success)
    return status;
  if (BlasStatus status = checkPlaces(*operation); status != BlasStatus::Success)
    return status;
  if (algorithm->data[0] != problem.key())
    return refuse("an algorithm for another product");
  const void *operands[] = {aData, bData, cData, dData};
  for (int i = 0; i < 4; ++i)
    if (alignmentOf(operands[i]) < algorithm->data[1 + i])
      return refuse("an operand that is less aligned than was promised");
  if (workspaceBytes < algorithm->data[5] ||
      (workspaceBytes && !deviceBytes(workspace, workspaceBytes)))
    return refuse("too small a workspace");
  if (workspace && (alignmentOf(workspace) < 256 || !workspaceBytes))
    return refuse("a workspace at an address that is no multiple of 256, or of no bytes");
  bool isDouble = operation->compute == kBlasComputeF64;
  auto scalar = [&](const void *at) {
    return loadNumber(isDouble ? kBlasF64 : kBlasF32, static_cast<const uint8_t *>(at));
  };
  double alphaValue = scalar(alpha), betaValue = scalar(beta);
  // Descriptors may change as soon as the call is made.
  BlasOperationRecord o = *operation;
  BlasLayoutRecord aL = *a, bL = *b, cL = *c, dL = *d;
  bool queued = enqueueWork("products", stream, [=] {
    uint8_t *aAt = deviceBytes(aData, spanBytes(aL)), *bAt = deviceBytes(bData, spanBytes(bL)),
            *cAt = deviceBytes(cData, spanBytes(cL)), *dAt = deviceBytes(dData, spanBytes(dL));
    uint64_t lengths[] = {dL.rows, dL.columns}, width = uint64_t(bytesOf(dL.type));
    uint8_t *biasAt = deviceBytes(reinterpret_cast<const void *>(o.bias),
                                  lengths[has(o, kBlasSumsOfRight)] * width);
    uint64_t lineBytes = hasMask(o) ? uint64_t(o.auxLeading) / 8 : uint64_t(o.auxLeading) * width;
    uint64_t lastBytes = hasMask(o) ? lineBytes : dL.rows * width;
    uint8_t *auxAt = deviceBytes(reinterpret_cast<const void *>(o.aux),
                                 lineBytes * (dL.columns - 1) + lastBytes);
    bool needsBias = has(o, kBlasBias) || hasSums(o);
    if (!aAt || !bAt || !cAt || !dAt || (needsBias && !biasAt) || (has(o, kBlasAux) && !auxAt)) {
      complain("cuBLASLt: an operand is not all in allocated memory");
      return int(DriverError::IllegalAddress);
    }
    // What an algorithm leaves in its workspace.
    if (uint8_t *scratch = workspaceBytes ? deviceBytes(workspace, workspaceBytes) : nullptr)
      std::memset(scratch, 0xff, workspaceBytes);
    for (int32_t i = 0; i < dL.count; ++i) {
      auto at = [&](uint8_t *base, const BlasLayoutRecord &l) {
        return base + i * l.stride * bytesOf(l.type);
      };
      multiply(o, {aL, bL, cL, dL}, alphaValue, betaValue,
               {at(aAt, aL), at(bAt, bL), at(cAt, cL), at(dAt, dL), biasAt, auxAt});
    }
    return 0;
  });
  return queued ? BlasStatus::Success : refuse("no such stream", BlasStatus::ExecutionFailed);
}

#define EMULATED_SAME(name, symbol, parameters)                                                    \
  static_assert(std::is_same_v<decltype(&symbol), decltype(BlasLtCalls::name)>);
AUTOPAR_CUBLASLT_CALLS(EMULATED_SAME)
