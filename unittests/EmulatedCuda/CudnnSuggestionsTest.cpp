// SPDX-License-Identifier: Apache-2.0
// Whether the real cuDNN has engines for the graphs that attention is described by. It says so
// without a GPU, for one that is described to it; built where the library is.
#include "../../lib/Runtime/device/cuda/CudnnAttention.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime::cuda;

namespace {

constexpr auto kDeviceProperties = CudnnKind(38);
constexpr auto kPropertiesText = CudnnAttribute(2702);
constexpr auto kHeuristicDevice = CudnnAttribute(204);
constexpr auto kConfigWorkspace = CudnnAttribute(303);
constexpr auto kText = CudnnAttributeType(24);

const CudnnCalls *library() {
  static CudnnCalls calls;
  if (calls.create)
    return &calls;
  // Engines are only counted where there is a driver.
  if (!dlopen(CUDA_STUB, RTLD_NOW | RTLD_GLOBAL))
    return nullptr;
  void *opened = dlopen(CUDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!opened)
    return nullptr;
#define FIND(name, symbol, parameters)                                                             \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(opened, #symbol));
  AUTOPAR_CUDNN_CALLS(FIND)
#undef FIND
  calls.getVersion = reinterpret_cast<size_t (*)()>(dlsym(opened, "cudnnGetVersion"));
  calls.errorText =
      reinterpret_cast<const char *(*)(CudnnStatus)>(dlsym(opened, "cudnnGetErrorString"));
  calls.lastError =
      reinterpret_cast<void (*)(char *, size_t)>(dlsym(opened, "cudnnGetLastErrorString"));
  calls.version = calls.getVersion();
  return &calls;
}

struct Gpu {
  const char *name;
  int chip, units, sharedBytes;
};

std::string textOf(const Gpu &gpu) {
  return std::string(R"({"cudaDeviceId":0,"driverVer":13000,"warpSize":32,"deviceName":")") +
         gpu.name + R"(","deviceVer":)" + std::to_string(gpu.chip) + R"(,"multiProcessorCount":)" +
         std::to_string(gpu.units) + R"(,"maxSharedMemoryPerBlockOptin":)" +
         std::to_string(gpu.sharedBytes) +
         R"(,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
         R"("regsPerBlock":65536,"maxSharedMemoryPerBlock":49152,)"
         R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
         R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"smClockRateKHz":1700000,"memClockRateKHz":2600000,)"
         R"("l2CacheSize":41943040,"totalGlobalMem":80000000000,"oversizedSharedMemoryPerBlock":0,)"
         R"("memoryBusWidth":5120,"smCountOrigin":0})";
}

struct Sizes {
  int64_t batch, heads, groups, queries, keys, depth, valueDepth;
  bool causal;
};

AttentionGeometry geometryOf(const Sizes &s, DataType type, bool isGradient) {
  auto shape = [&](int64_t heads, int64_t rows, int64_t depth) {
    return StridedShape{{s.batch, heads, rows, depth},
                        {heads * rows * depth, depth, heads * depth, 1}};
  };
  AttentionGeometry g;
  g.type = type;
  g.causal = s.causal;
  StridedShape query = shape(s.heads, s.queries, s.depth), key = shape(s.groups, s.keys, s.depth),
               value = shape(s.groups, s.keys, s.valueDepth),
               output = shape(s.heads, s.queries, s.valueDepth);
  g.operands = {query, key, value, output};
  if (isGradient)
    g.operands.insert(g.operands.end(), {output, query, key, value});
  return g;
}

/// Bytes of workspace of each engine that the library suggests, best first.
std::vector<int64_t> suggestions(const CudnnCalls &calls, const Gpu &gpu,
                                 const AttentionGeometry &geometry) {
  std::vector<OwnedDescriptor> owned;
  auto make = [&](CudnnKind kind) {
    CudnnDescriptor made = nullptr;
    EXPECT_EQ(calls.createDescriptor(kind, &made), CudnnStatus::Success);
    owned.push_back(OwnedDescriptor(made, CudnnDeleter{&calls}));
    return made;
  };
  auto set = [&](CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnAttributeType type,
                 int64_t count, const void *values) {
    Status status =
        checkCudnn(calls, calls.setAttribute(descriptor, attribute, type, count, values),
                   std::to_string(int(attribute)));
    EXPECT_TRUE(status.isOk()) << status.message();
  };
  auto finalize = [&](CudnnDescriptor descriptor) {
    Status status = checkCudnn(calls, calls.finalize(descriptor), "finalize");
    EXPECT_TRUE(status.isOk()) << status.message();
  };
  CudnnAttentionGraph described(calls, geometry);
  EXPECT_TRUE(described.graph().status().isOk()) << described.graph().status().message();
  const auto &operations = described.graph().operations();
  CudnnDescriptor graph = make(CudnnKind::Graph);
  set(graph, CudnnAttribute::GraphOperations, CudnnAttributeType::Descriptor,
      int64_t(operations.size()), operations.data());
  finalize(graph);
  CudnnDescriptor properties = make(kDeviceProperties);
  std::string text = textOf(gpu);
  set(properties, kPropertiesText, kText, int64_t(text.size()), text.data());
  finalize(properties);
  CudnnDescriptor heuristic = make(CudnnKind::Heuristic);
  CudnnHeuristicMode mode = CudnnHeuristicMode::A;
  set(heuristic, CudnnAttribute::HeuristicGraph, CudnnAttributeType::Descriptor, 1, &graph);
  set(heuristic, kHeuristicDevice, CudnnAttributeType::Descriptor, 1, &properties);
  set(heuristic, CudnnAttribute::HeuristicMode, CudnnAttributeType::HeuristicMode, 1, &mode);
  finalize(heuristic);
  std::vector<CudnnDescriptor> configs;
  for (int i = 0; i < 8; ++i)
    configs.push_back(make(CudnnKind::EngineConfig));
  int64_t count = 0;
  EXPECT_EQ(calls.getAttribute(heuristic, CudnnAttribute::HeuristicResults,
                               CudnnAttributeType::Descriptor, int64_t(configs.size()), &count,
                               configs.data()),
            CudnnStatus::Success);
  std::vector<int64_t> workspaces;
  for (int64_t i = 0; i < count; ++i) {
    int64_t one = 0;
    EXPECT_EQ(calls.getAttribute(configs[size_t(i)], kConfigWorkspace, CudnnAttributeType::Int64, 1,
                                 &one, &workspaces.emplace_back()),
              CudnnStatus::Success);
  }
  return workspaces;
}

TEST(CudnnSuggestions, AttentionHasEnginesWhoseWorkspaceIsPlanned) {
  const CudnnCalls *calls = library();
  ASSERT_TRUE(calls) << dlerror();
  if (calls->version < kOldestCudnn)
    GTEST_SKIP() << "cuDNN " << calls->version;
  for (const Gpu &gpu : {Gpu{"A100", 800, 108, 166912}, Gpu{"L40", 890, 142, 101376},
                         Gpu{"H100", 900, 132, 232448}, Gpu{"B200", 1000, 148, 232448}})
    for (DataType type : {DataType::BF16, DataType::F16})
      for (const Sizes &s :
           {Sizes{2, 8, 8, 1024, 1024, 64, 64, true}, Sizes{2, 8, 2, 1024, 1024, 128, 128, true},
            Sizes{2, 8, 4, 100, 77, 64, 64, false}, Sizes{1, 8, 8, 77, 77, 24, 40, true},
            Sizes{2, 4, 2, 8, 8, 8, 8, false}, Sizes{2, 4, 4, 1, 64, 64, 64, false}})
        for (bool isGradient : {false, true}) {
          // The device refuses these by itself.
          if (isGradient && s.keys % kCudnnKeyBlock != 0 && calls->version < kCudnnForAnyKeys)
            continue;
          AttentionGeometry g = geometryOf(s, type, isGradient);
          std::string what = std::string(gpu.name) + " " + std::string(name(type)) + " " +
                             std::to_string(s.queries) + "x" + std::to_string(s.keys) +
                             (isGradient ? ", gradient" : "");
          std::vector<int64_t> workspaces = suggestions(*calls, gpu, g);
          EXPECT_FALSE(workspaces.empty()) << what;
          for (int64_t bytes : workspaces)
            EXPECT_LE(cudaGradientSums(g).total() + bytes, cudaScratchBytes(g)) << what;
        }
}

TEST(CudnnSuggestions, LongerRowsHaveNoGradientEverywhere) {
  const CudnnCalls *calls = library();
  ASSERT_TRUE(calls) << dlerror();
  if (calls->version < kOldestCudnn)
    GTEST_SKIP() << "cuDNN " << calls->version;
  AttentionGeometry g = geometryOf({2, 8, 8, 128, 128, 136, 136, true}, DataType::BF16, true);
  EXPECT_TRUE(suggestions(*calls, Gpu{"A100", 800, 108, 166912}, g).empty());
}

} // namespace
