// SPDX-License-Identifier: Apache-2.0
// A graph of cuDNN's operations and the plan that the library makes of it.
#pragma once

#include "CudnnCalls.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace autopar::runtime::cuda {

struct CudnnDeleter {
  const CudnnCalls *calls = nullptr;
  void operator()(CudnnDescriptor descriptor) const { calls->destroyDescriptor(descriptor); }
};
using OwnedDescriptor = std::unique_ptr<struct CudnnDescriptorRecord, CudnnDeleter>;

/// Describes operations in the order in which they are given. The first call that the library
/// refuses is kept; what follows it does nothing.
class CudnnGraph {
public:
  using Dims = std::vector<int64_t>;
  struct Tensor {
    int64_t id = -1; ///< the place in the list of addresses of CudnnPlan::run
    CudnnType type = CudnnType::F32;
    Dims dims, strides;
    CudnnDescriptor descriptor = nullptr;
  };

  explicit CudnnGraph(const CudnnCalls &calls) : calls(calls) {}

  /// In memory of the GPU.
  Tensor stored(CudnnType type, const Dims &dims, const Dims &strides) {
    return describe(type, dims, strides, Place::Memory);
  }
  /// A number that lies with the host.
  Tensor scalar(CudnnType type) { return describe(type, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::Host); }
  /// Passed from operation to operation.
  Tensor passed(CudnnType type, const Dims &dims) {
    return describe(type, dims, dense(dims), Place::Nowhere);
  }
  Tensor passed(CudnnType type, const Dims &dims, const Dims &strides) {
    return describe(type, dims, strides, Place::Nowhere);
  }

  /// How a filter moves over an input; an entry per spatial dimension.
  struct Window {
    Dims strides, padsBegin, padsEnd, dilations;
  };
  /// `operation` is ConvolutionOperation, or one of the two gradients: which of the three tensors
  /// is written.
  void convolve(CudnnKind operation, const Window &window, const Tensor &input,
                const Tensor &filter, const Tensor &output);
  void matmul(const Tensor &a, const Tensor &b, const Tensor &c);
  void reduce(CudnnReduction what, const Tensor &x, const Tensor &y);
  void reshape(const Tensor &x, const Tensor &y);
  void unary(CudnnPointwise mode, const Tensor &x, const Tensor &y);
  void binary(CudnnPointwise mode, const Tensor &x, const Tensor &b, const Tensor &y);
  /// Where each element lies along the dimension.
  void index(int64_t dim, const Tensor &x, const Tensor &y);
  /// x where `where` is set, else b.
  void select(const Tensor &x, const Tensor &b, const Tensor &where, const Tensor &y);

  const std::vector<CudnnDescriptor> &operations() const { return all; }
  Status status() const { return failure; }

  static Dims dense(const Dims &dims);

private:
  enum class Place { Memory, Host, Nowhere };
  Tensor describe(CudnnType type, const Dims &dims, const Dims &strides, Place place);
  CudnnDescriptor make(CudnnKind kind, const char *what);
  void set(CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnAttributeType type,
           int64_t count, const void *values);
  void set(CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnDescriptor value);
  void finalize(CudnnDescriptor descriptor, const char *what);
  CudnnDescriptor startPointwise(CudnnPointwise mode, CudnnType compute, int64_t dim = -1);
  void finishPointwise(CudnnDescriptor operation, const Tensor &x, const Tensor &y);

  const CudnnCalls &calls;
  std::vector<OwnedDescriptor> owned;
  std::vector<CudnnDescriptor> all; ///< operations
  int64_t tensors = 0;
  Status failure = Status::ok();
};

/// Which of the library's engines will not do.
struct CudnnChoice {
  std::vector<CudnnNote> refused;
  int64_t mostWorkspace = std::numeric_limits<int64_t>::max();
};

/// Whether the engine of a configuration has a note that `choice` refuses.
Result<bool> isRefused(const CudnnCalls &calls, CudnnDescriptor config, const CudnnChoice &choice);

/// The first of the ways that the library suggests for a graph that it can build.
class CudnnPlan {
public:
  /// Mismatch with the library's words where it has no way, or none that `choice` allows.
  static Result<std::unique_ptr<CudnnPlan>> create(const CudnnCalls &calls, CudnnHandle handle,
                                                   CudnnGraph described,
                                                   const CudnnChoice &choice = {});

  int64_t workspaceBytes() const { return workspace; }
  /// `addresses` in the order in which the graph's tensors were described, where they have one:
  /// `ids` says which these are.
  Status run(const std::vector<int64_t> &ids, const std::vector<void *> &addresses,
             void *workspaceArea, Stream stream) const;

private:
  CudnnPlan(const CudnnCalls &calls, CudnnHandle handle, CudnnGraph described)
      : calls(calls), handle(handle), described(std::move(described)) {}

  const CudnnCalls &calls;
  CudnnHandle handle;
  CudnnGraph described; ///< outlives what was made of it, as do the next
  OwnedDescriptor graph, config, plan;
  int64_t workspace = 0;
};

/// What the library says about what it refused last, on one line; empty if nothing.
std::string lastWords(const CudnnCalls &calls);
/// Ok, or what failed and those words.
Status checkCudnn(const CudnnCalls &calls, CudnnStatus status, const std::string &what);

} // namespace autopar::runtime::cuda
