// SPDX-License-Identifier: Apache-2.0
// cuDNN's C functions for the emulated GPUs. Strict: attributes must be known, of their type, set
// before a descriptor is final and all there when it becomes so; a call names every tensor in
// memory once, with 16-byte alignment and all of it allocated.
#include "Cudnn.h"
#include "Emulation.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <type_traits>

using namespace autopar::runtime::cuda;
using namespace emulated;
using cudnn::describe;
using cudnn::isKnown;
using cudnn::partOf;
using cudnn::Rule;
using cudnn::ruleOf;
using Attribute = CudnnAttribute;
using Type = CudnnAttributeType;
using Kind = CudnnKind;

namespace {

constexpr CudnnStatus kBadParam = CudnnStatus(2000), kNotSupported = CudnnStatus(3000),
                      kExecutionFailed = CudnnStatus(5000);
constexpr size_t kVersion = 91900;
constexpr uint64_t kAlignment = 16, kWorkspaceAlignment = 256;
/// Of rows that its kernels know.
constexpr int64_t kLongestRow = 256;
/// Of pixels for which it has an engine that adds in one order.
constexpr int64_t kLongestLine = 4096;

/// What the heuristics suggest, best first. That it cannot be built is no mistake of anybody's.
struct Engine {
  std::vector<CudnnNote> notes;
  uint64_t workspaceBytes = 256;
  bool isBuilt = true;
};
const std::vector<Engine> &enginesFor(const cudnn::Graph &graph) {
  static const std::vector<Engine> ofConvolutions{{{CudnnNote::TensorCore}},
                                                  {{CudnnNote::ReducedPrecisionReduction}},
                                                  {{CudnnNote::Nondeterministic}},
                                                  {{}, uint64_t{1} << 40},
                                                  {{}, 0, false},
                                                  {{}, 4096}},
      ofHalfConvolutions(ofConvolutions.begin() + 1, ofConvolutions.end()),
      ofLongLines{{{CudnnNote::Nondeterministic}}}, ofOthers{{{}, 0, false}, {}};
  if (!graph.convolves())
    return ofOthers;
  for (const auto &[id, tensor] : graph.tensors)
    if (tensor.dims.back() > kLongestLine)
      return ofLongLines;
  return graph.tensors.begin()->second.type == CudnnType::F32 ? ofConvolutions : ofHalfConvolutions;
}

/// Ranks are threads.
std::recursive_mutex lock;
std::atomic<uint64_t> plansBuilt = 0;
thread_local std::string lastComplaint;

template <typename T>
std::set<T *> &all() {
  static std::set<T *> known;
  return known;
}
template <typename T>
bool exists(T *one) {
  std::lock_guard guard(lock);
  return all<T>().count(one) != 0;
}

CudnnStatus refuse(const std::string &why, CudnnStatus status = kBadParam) {
  lastComplaint = why;
  complain("cuDNN: " + why);
  return status;
}

int64_t sizeOf(Type type) {
  switch (type) {
  case Type::Boolean:
    return 1;
  case Type::DataType:
  case Type::Float:
  case Type::ConvolutionMode:
  case Type::NumericalNote:
  case Type::HeuristicMode:
  case Type::PointwiseMode:
  case Type::ReductionOperator:
    return 4;
  default:
    return 8;
  }
}

CudnnStatus finalizeTensor(CudnnDescriptor tensor) {
  auto dims = tensor->list<int64_t>(Attribute::TensorDims),
       strides = tensor->list<int64_t>(Attribute::TensorStrides);
  if ((dims.size() != 4 && dims.size() != 5) || strides.size() != dims.size())
    return refuse("a tensor without 4 or 5 dims and strides", kNotSupported);
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] < 1 || strides[d] < 1)
      return refuse("a tensor with an empty dim or without a stride");
  if (tensor->one<int64_t>(Attribute::TensorAlignment) != int64_t(kAlignment))
    return refuse("an alignment that its kernels do not know", kNotSupported);
  auto flag = [&](Attribute attribute) {
    return tensor->has(attribute) && tensor->one<bool>(attribute);
  };
  if (flag(Attribute::TensorIsVirtual) && flag(Attribute::TensorIsByValue))
    return refuse("a tensor that is nowhere and with the host");
  return CudnnStatus::Success;
}

Engine engineOf(CudnnDescriptor config) {
  cudnn::Graph graph;
  describe(partOf(config, Attribute::HeuristicGraph), graph);
  return enginesFor(graph).at(config->number);
}

/// How many operands a pointwise operation has beside x.
CudnnStatus finalizePointwise(CudnnDescriptor operation) {
  bool b = operation->has(Attribute::PointwiseOperationB),
       t = operation->has(Attribute::PointwiseOperationT);
  CudnnDescriptor how = partOf(operation, Attribute::PointwiseOperationMode);
  bool fits = false;
  switch (how->one<CudnnPointwise>(Attribute::PointwiseMode)) {
  case CudnnPointwise::Exp:
  case CudnnPointwise::Log:
  case CudnnPointwise::Identity:
    fits = !b && !t;
    break;
  case CudnnPointwise::Index:
    fits = !b && !t && how->has(Attribute::PointwiseAxis);
    break;
  case CudnnPointwise::Select:
    fits = b && t;
    break;
  default:
    fits = b && !t;
  }
  return fits ? CudnnStatus::Success : refuse("a pointwise operation with other operands");
}

CudnnStatus finalize(CudnnDescriptor d) {
  switch (d->kind) {
  case Kind::Tensor:
    return finalizeTensor(d);
  case Kind::PointwiseOperation:
    return finalizePointwise(d);
  case Kind::Graph: {
    cudnn::Graph described;
    std::string why = describe(d, described);
    return why.empty() ? CudnnStatus::Success : refuse(why, kNotSupported);
  }
  case Kind::EngineConfig:
    return refuse("an engine configuration that no heuristic has filled");
  case Kind::Plan: {
    if (engineOf(partOf(d, Attribute::PlanEngineConfig)).isBuilt) {
      ++plansBuilt;
      return CudnnStatus::Success;
    }
    lastComplaint = "this engine cannot be built here";
    return kNotSupported;
  }
  case Kind::VariantPack:
    return d->list<int64_t>(Attribute::PackIds).size() ==
                   d->list<void *>(Attribute::PackPointers).size()
               ? CudnnStatus::Success
               : refuse("a call with more tensors than addresses");
  default:
    return CudnnStatus::Success;
  }
}

uint64_t alignmentOf(const void *address) {
  uint64_t number = uint64_t(address);
  return number & (~number + 1);
}

} // namespace

#define EXPORTED extern "C" EMULATED_API CudnnStatus

/// How many plans were built so far, which takes the real library a while.
extern "C" EMULATED_API uint64_t emulatedCudnnPlans() { return plansBuilt; }

extern "C" EMULATED_API size_t cudnnGetVersion() { return kVersion; }
extern "C" EMULATED_API const char *cudnnGetErrorString(CudnnStatus status) {
  return status == CudnnStatus::Success ? "CUDNN_STATUS_SUCCESS"
         : status == kBadParam          ? "CUDNN_STATUS_BAD_PARAM"
         : status == kNotSupported      ? "CUDNN_STATUS_NOT_SUPPORTED"
                                        : "CUDNN_STATUS_EXECUTION_FAILED";
}
extern "C" EMULATED_API void cudnnGetLastErrorString(char *text, size_t most) {
  if (most == 0)
    return;
  size_t count = lastComplaint.copy(text, most - 1);
  text[count] = 0;
  lastComplaint.clear();
}

EXPORTED cudnnCreate(CudnnHandle *handle) {
  if (currentDevice() < 0)
    return refuse("no context", kExecutionFailed);
  std::lock_guard guard(lock);
  *handle = new CudnnContextRecord{currentDevice(), nullptr};
  all<CudnnContextRecord>().insert(*handle);
  return CudnnStatus::Success;
}
EXPORTED cudnnDestroy(CudnnHandle handle) {
  std::lock_guard guard(lock);
  if (!all<CudnnContextRecord>().erase(handle))
    return refuse("no such handle");
  delete handle;
  return CudnnStatus::Success;
}
EXPORTED cudnnSetStream(CudnnHandle handle, Stream stream) {
  if (!exists(handle))
    return refuse("no such handle");
  handle->stream = stream;
  return CudnnStatus::Success;
}

EXPORTED cudnnBackendCreateDescriptor(CudnnKind kind, CudnnDescriptor *descriptor) {
  if (!isKnown(kind))
    return refuse("a kind of descriptor that is not known", kNotSupported);
  std::lock_guard guard(lock);
  *descriptor = new CudnnDescriptorRecord{kind, false, {}, 0};
  all<CudnnDescriptorRecord>().insert(*descriptor);
  return CudnnStatus::Success;
}
EXPORTED cudnnBackendDestroyDescriptor(CudnnDescriptor descriptor) {
  std::lock_guard guard(lock);
  if (!all<CudnnDescriptorRecord>().erase(descriptor))
    return refuse("no such descriptor");
  delete descriptor;
  return CudnnStatus::Success;
}
EXPORTED cudnnBackendSetAttribute(CudnnDescriptor descriptor, CudnnAttribute attribute,
                                  CudnnAttributeType type, int64_t count, const void *values) {
  if (!exists(descriptor))
    return refuse("no such descriptor");
  if (descriptor->isFinal)
    return refuse("a descriptor that is final is changed");
  std::string name = "attribute " + std::to_string(int(attribute));
  const Rule *rule = ruleOf(descriptor->kind, attribute);
  if (!rule)
    return refuse(name + " is not one of this descriptor");
  if (rule->type != type || count < 1 || (count != 1 && !rule->isList) || !values)
    return refuse(name + " has another type or size");
  const uint8_t *bytes = static_cast<const uint8_t *>(values);
  CudnnDescriptorRecord::Value value{type, {bytes, bytes + count * sizeOf(type)}};
  descriptor->values[attribute] = value;
  if (type == Type::Descriptor)
    for (CudnnDescriptor part : descriptor->list<CudnnDescriptor>(attribute))
      if (!exists(part) || !part->isFinal)
        return refuse(name + " is a descriptor that does not exist or is not final");
  if (type == Type::Handle && !exists(descriptor->one<CudnnHandle>(attribute)))
    return refuse("no such handle");
  return CudnnStatus::Success;
}
EXPORTED cudnnBackendFinalize(CudnnDescriptor descriptor) {
  if (!exists(descriptor))
    return refuse("no such descriptor");
  if (descriptor->isFinal)
    return refuse("a descriptor is made final twice");
  for (const Rule &rule : cudnn::rules())
    if (rule.kind == descriptor->kind && rule.isNeeded && !descriptor->has(rule.attribute))
      return refuse("attribute " + std::to_string(int(rule.attribute)) + " is missing");
  CudnnStatus status = finalize(descriptor);
  descriptor->isFinal = status == CudnnStatus::Success;
  return status;
}
EXPORTED cudnnBackendGetAttribute(CudnnDescriptor descriptor, CudnnAttribute attribute,
                                  CudnnAttributeType type, int64_t wanted, int64_t *count,
                                  void *values) {
  if (!exists(descriptor) || !descriptor->isFinal)
    return refuse("a descriptor that does not exist or is not final is asked");
  if (descriptor->kind == Kind::Plan && attribute == Attribute::PlanWorkspaceSize &&
      type == Type::Int64 && wanted == 1) {
    int64_t bytes =
        int64_t(engineOf(partOf(descriptor, Attribute::PlanEngineConfig)).workspaceBytes);
    std::memcpy(values, &bytes, sizeof(bytes));
    *count = 1;
    return CudnnStatus::Success;
  }
  if (descriptor->kind == Kind::EngineConfig && attribute == Attribute::ConfigEngine &&
      type == Type::Descriptor && wanted == 1) {
    CudnnDescriptor engine = *static_cast<CudnnDescriptor *>(values);
    if (!exists(engine) || engine->kind != Kind::Engine)
      return refuse("no room for an engine");
    engine->isFinal = true;
    engine->number = descriptor->number;
    engine->values = descriptor->values;
    *count = 1;
    return CudnnStatus::Success;
  }
  if (descriptor->kind == Kind::Engine && attribute == Attribute::EngineNotes &&
      type == Type::NumericalNote) {
    std::vector<CudnnNote> notes = engineOf(descriptor).notes;
    *count = std::min<int64_t>(wanted, int64_t(notes.size()));
    std::copy_n(notes.begin(), *count, static_cast<CudnnNote *>(values));
    return CudnnStatus::Success;
  }
  if (descriptor->kind != Kind::Heuristic || attribute != Attribute::HeuristicResults ||
      type != Type::Descriptor)
    return refuse("attribute " + std::to_string(int(attribute)) + " is not one to ask for");
  cudnn::Graph graph;
  describe(partOf(descriptor, Attribute::HeuristicGraph), graph);
  if (graph.multipliesLongRows(kLongestRow)) {
    lastComplaint = "rows of more than " + std::to_string(kLongestRow) + " elements";
    *count = 0;
    return CudnnStatus::Success;
  }
  auto *configs = static_cast<CudnnDescriptor *>(values);
  *count = std::min<int64_t>(wanted, int64_t(enginesFor(graph).size()));
  for (int64_t i = 0; i < *count; ++i) {
    if (!exists(configs[i]) || configs[i]->kind != Kind::EngineConfig)
      return refuse("no room for an engine configuration");
    configs[i]->isFinal = true;
    configs[i]->number = size_t(i);
    configs[i]->values[Attribute::HeuristicGraph] =
        descriptor->values.at(Attribute::HeuristicGraph);
  }
  return CudnnStatus::Success;
}

EXPORTED cudnnBackendExecute(CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor pack) {
  if (!exists(handle) || !exists(plan) || !exists(pack) || plan->kind != Kind::Plan ||
      pack->kind != Kind::VariantPack || !plan->isFinal || !pack->isFinal)
    return refuse("a handle or descriptor that does not exist or is not final");
  if (handle->device != currentDevice())
    return refuse("a handle of another GPU");
  auto graph = std::make_shared<cudnn::Graph>();
  CudnnDescriptor config = partOf(plan, Attribute::PlanEngineConfig);
  describe(partOf(config, Attribute::HeuristicGraph), *graph);
  Engine engine = engineOf(config);
  graph->isCoarse = !engine.notes.empty();
  auto ids = pack->list<int64_t>(Attribute::PackIds);
  auto pointers = pack->list<void *>(Attribute::PackPointers);
  std::map<int64_t, void *> addresses;
  // Numbers of the host may change as soon as the call is made.
  auto numbers = std::make_shared<std::map<int64_t, std::vector<uint8_t>>>();
  for (size_t i = 0; i < ids.size(); ++i) {
    auto found = graph->tensors.find(ids[i]);
    if (found == graph->tensors.end() || found->second.isVirtual)
      return refuse("an address for a tensor that is not in memory");
    if (!addresses.emplace(ids[i], pointers[i]).second)
      return refuse("two addresses for a tensor");
    if (found->second.isByValue) {
      auto *bytes = static_cast<const uint8_t *>(pointers[i]);
      (*numbers)[ids[i]].assign(bytes, bytes + cudnn::bytesOf(found->second.type));
    } else if (alignmentOf(pointers[i]) < kAlignment) {
      return refuse("a tensor at an address that is no multiple of 16");
    }
  }
  for (const auto &[id, tensor] : graph->tensors)
    if (!tensor.isVirtual && !addresses.count(id))
      return refuse("a tensor in memory without an address");
  void *workspace = pack->one<void *>(Attribute::PackWorkspace);
  if (engine.workspaceBytes > 0 && (alignmentOf(workspace) < kWorkspaceAlignment ||
                                    !deviceBytes(workspace, engine.workspaceBytes)))
    return refuse("too small a workspace, or one that is not aligned");
  bool queued = enqueueWork("graphs of cuDNN", handle->stream, [=] {
    cudnn::Places places;
    for (const auto &[id, tensor] : graph->tensors) {
      if (tensor.isVirtual)
        continue;
      places[id] = tensor.isByValue
                       ? numbers->at(id).data()
                       : deviceBytes(addresses.at(id),
                                     uint64_t(tensor.span() * cudnn::bytesOf(tensor.type)));
      if (!places[id]) {
        complain("cuDNN: a tensor is not all in allocated memory");
        return int(DriverError::IllegalAddress);
      }
    }
    // What an engine leaves in its workspace.
    if (uint8_t *scratch =
            engine.workspaceBytes > 0 ? deviceBytes(workspace, engine.workspaceBytes) : nullptr)
      std::memset(scratch, 0xff, engine.workspaceBytes);
    cudnn::run(*graph, places);
    return 0;
  });
  return queued ? CudnnStatus::Success : refuse("no such stream", kExecutionFailed);
}

#define EMULATED_SAME(name, symbol, parameters)                                                    \
  static_assert(std::is_same_v<decltype(&symbol), decltype(CudnnCalls::name)>);
AUTOPAR_CUDNN_CALLS(EMULATED_SAME)
