// SPDX-License-Identifier: Apache-2.0
// From a graph to something that runs: the library suggests engines, the first one that it can
// build is taken.
#include "CudnnGraph.h"

#include <algorithm>
#include <array>

namespace autopar::runtime::cuda {

using Attribute = CudnnAttribute;
using Type = CudnnAttributeType;

namespace {

/// How many suggestions are tried.
constexpr size_t kMostSuggestions = 64;
/// More than there are.
constexpr size_t kMostNotes = 32;

class Maker {
public:
  explicit Maker(const CudnnCalls &calls) : calls(calls) {}

  Result<OwnedDescriptor> make(CudnnKind kind) const {
    CudnnDescriptor made = nullptr;
    AUTOPAR_RETURN_IF_ERROR(
        checkCudnn(calls, calls.createDescriptor(kind, &made), "cudnnBackendCreateDescriptor"));
    return OwnedDescriptor(made, CudnnDeleter{&calls});
  }

  Status set(const OwnedDescriptor &descriptor, Attribute attribute, Type type, int64_t count,
             const void *values) const {
    return checkCudnn(calls, calls.setAttribute(descriptor.get(), attribute, type, count, values),
                      "cudnnBackendSetAttribute " + std::to_string(int(attribute)));
  }
  Status set(const OwnedDescriptor &descriptor, Attribute attribute, CudnnDescriptor value) const {
    return set(descriptor, attribute, Type::Descriptor, 1, &value);
  }
  Status finalize(const OwnedDescriptor &descriptor, const char *what) const {
    return checkCudnn(calls, calls.finalize(descriptor.get()), what);
  }

  Result<OwnedDescriptor> graph(CudnnHandle handle, const CudnnGraph &of) const {
    auto made = make(CudnnKind::Graph);
    if (!made)
      return made.status();
    AUTOPAR_RETURN_IF_ERROR(set(*made, Attribute::GraphHandle, Type::Handle, 1, &handle));
    AUTOPAR_RETURN_IF_ERROR(set(*made, Attribute::GraphOperations, Type::Descriptor,
                                int64_t(of.operations().size()), of.operations().data()));
    AUTOPAR_RETURN_IF_ERROR(finalize(*made, "the graph"));
    return made;
  }

  /// Engine configurations, best first; Mismatch where the library finds none.
  Result<std::vector<OwnedDescriptor>> suggestions(const OwnedDescriptor &graph,
                                                   CudnnHeuristicMode mode) const {
    auto heuristic = make(CudnnKind::Heuristic);
    if (!heuristic)
      return heuristic.status();
    AUTOPAR_RETURN_IF_ERROR(set(*heuristic, Attribute::HeuristicGraph, graph.get()));
    AUTOPAR_RETURN_IF_ERROR(
        set(*heuristic, Attribute::HeuristicMode, Type::HeuristicMode, 1, &mode));
    AUTOPAR_RETURN_IF_ERROR(finalize(*heuristic, "the choice of an engine"));
    std::vector<OwnedDescriptor> made;
    std::array<CudnnDescriptor, kMostSuggestions> places{};
    for (CudnnDescriptor &place : places) {
      auto config = make(CudnnKind::EngineConfig);
      if (!config)
        return config.status();
      place = config->get();
      made.push_back(config.take());
    }
    int64_t count = 0;
    AUTOPAR_RETURN_IF_ERROR(checkCudnn(
        calls,
        calls.getAttribute(heuristic->get(), Attribute::HeuristicResults, Type::Descriptor,
                           int64_t(places.size()), &count, places.data()),
        "the choice of an engine"));
    if (count == 0)
      return Status::mismatch("it suggests no engine: " + lastWords(calls));
    made.resize(std::min<size_t>(size_t(count), made.size()));
    return made;
  }

  Result<std::vector<CudnnNote>> notesOf(CudnnDescriptor config) const {
    auto engine = make(CudnnKind::Engine);
    if (!engine)
      return engine.status();
    CudnnDescriptor place = engine->get();
    int64_t count = 0;
    AUTOPAR_RETURN_IF_ERROR(checkCudnn(
        calls,
        calls.getAttribute(config, Attribute::ConfigEngine, Type::Descriptor, 1, &count, &place),
        "the engine of a configuration"));
    std::vector<CudnnNote> notes(kMostNotes);
    AUTOPAR_RETURN_IF_ERROR(
        checkCudnn(calls,
                   calls.getAttribute(place, Attribute::EngineNotes, Type::NumericalNote,
                                      int64_t(notes.size()), &count, notes.data()),
                   "the notes of an engine"));
    notes.resize(std::min<size_t>(size_t(count), notes.size()));
    return notes;
  }

  Result<OwnedDescriptor> plan(CudnnHandle handle, const OwnedDescriptor &config) const {
    auto made = make(CudnnKind::Plan);
    if (!made)
      return made.status();
    AUTOPAR_RETURN_IF_ERROR(set(*made, Attribute::PlanHandle, Type::Handle, 1, &handle));
    AUTOPAR_RETURN_IF_ERROR(set(*made, Attribute::PlanEngineConfig, config.get()));
    AUTOPAR_RETURN_IF_ERROR(finalize(*made, "an execution plan"));
    return made;
  }

private:
  const CudnnCalls &calls;
};

} // namespace

Result<bool> isRefused(const CudnnCalls &calls, CudnnDescriptor config, const CudnnChoice &choice) {
  if (choice.refused.empty())
    return false;
  auto notes = Maker(calls).notesOf(config);
  if (!notes)
    return notes.status();
  return std::find_first_of(notes->begin(), notes->end(), choice.refused.begin(),
                            choice.refused.end()) != notes->end();
}

Result<std::unique_ptr<CudnnPlan>> CudnnPlan::create(const CudnnCalls &calls, CudnnHandle handle,
                                                     CudnnGraph described,
                                                     const CudnnChoice &choice) {
  AUTOPAR_RETURN_IF_ERROR(described.status());
  std::unique_ptr<CudnnPlan> plan(new CudnnPlan(calls, handle, std::move(described)));
  Maker maker(calls);
  auto graph = maker.graph(handle, plan->described);
  if (!graph)
    return graph.status();
  plan->graph = graph.take();
  std::string why;
  for (CudnnHeuristicMode mode : {CudnnHeuristicMode::A, CudnnHeuristicMode::Fallback}) {
    auto configs = maker.suggestions(plan->graph, mode);
    if (!configs) {
      why = why.empty() ? configs.status().message() : why;
      continue;
    }
    for (OwnedDescriptor &config : *configs) {
      auto refused = isRefused(calls, config.get(), choice);
      if (!refused)
        return refused.status();
      if (*refused) {
        why = why.empty() ? "its engines would change the numbers" : why;
        continue;
      }
      auto built = maker.plan(handle, config);
      if (!built) {
        why = built.status().message();
        continue;
      }
      int64_t count = 0, workspace = 0;
      AUTOPAR_RETURN_IF_ERROR(
          checkCudnn(calls,
                     calls.getAttribute(built->get(), Attribute::PlanWorkspaceSize, Type::Int64, 1,
                                        &count, &workspace),
                     "the workspace of an execution plan"));
      if (workspace > choice.mostWorkspace) {
        why = "its engines want " + std::to_string(workspace) +
              " bytes of workspace, planned are " + std::to_string(choice.mostWorkspace);
        continue;
      }
      plan->config = std::move(config);
      plan->plan = built.take();
      plan->workspace = workspace;
      return plan;
    }
  }
  return Status::mismatch(why);
}

Status CudnnPlan::run(const std::vector<int64_t> &ids, const std::vector<void *> &addresses,
                      void *workspaceArea, Stream stream) const {
  Maker maker(calls);
  auto pack = maker.make(CudnnKind::VariantPack);
  if (!pack)
    return pack.status();
  AUTOPAR_RETURN_IF_ERROR(
      maker.set(*pack, Attribute::PackIds, Type::Int64, int64_t(ids.size()), ids.data()));
  AUTOPAR_RETURN_IF_ERROR(maker.set(*pack, Attribute::PackPointers, Type::Pointer,
                                    int64_t(addresses.size()), addresses.data()));
  AUTOPAR_RETURN_IF_ERROR(
      maker.set(*pack, Attribute::PackWorkspace, Type::Pointer, 1, &workspaceArea));
  AUTOPAR_RETURN_IF_ERROR(maker.finalize(*pack, "the addresses of a call"));
  AUTOPAR_RETURN_IF_ERROR(checkCudnn(calls, calls.setStream(handle, stream), "cudnnSetStream"));
  return checkCudnn(calls, calls.execute(handle, plan.get(), pack->get()), "cudnnBackendExecute");
}

} // namespace autopar::runtime::cuda
