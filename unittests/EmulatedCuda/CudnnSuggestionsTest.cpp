// SPDX-License-Identifier: Apache-2.0
// Whether the real cuDNN has engines for the graphs that attention and convolutions are described
// by. It says so without a GPU, for one that is described to it; built where the library is.
#include "../../lib/Runtime/device/cuda/CudnnAttention.h"
#include "../../lib/Runtime/device/cuda/CudnnConvolution.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime::cuda;

namespace {

constexpr auto kDeviceProperties = CudnnKind(38);
constexpr auto kPropertiesText = CudnnAttribute(2702);
constexpr auto kHeuristicDevice = CudnnAttribute(204);
constexpr auto kPlanDevice = CudnnAttribute(407);
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
  int64_t window = 0;
};

AttentionGeometry geometryOf(const Sizes &s, DataType type, bool isGradient) {
  auto shape = [&](int64_t heads, int64_t rows, int64_t depth) {
    return StridedShape{{s.batch, heads, rows, depth},
                        {heads * rows * depth, depth, heads * depth, 1}};
  };
  AttentionGeometry g;
  g.type = type;
  g.causal = s.causal;
  g.window = s.window;
  StridedShape query = shape(s.heads, s.queries, s.depth), key = shape(s.groups, s.keys, s.depth),
               value = shape(s.groups, s.keys, s.valueDepth),
               output = shape(s.heads, s.queries, s.valueDepth);
  g.operands = {query, key, value, output};
  if (isGradient)
    g.operands.insert(g.operands.end(), {output, query, key, value});
  return g;
}

/// Bytes of workspace of each engine that the library suggests and `choice` allows, best first; and
/// what comes of building a plan with the first one.
std::vector<int64_t> suggestions(const CudnnCalls &calls, const Gpu &gpu, CudnnGraph &described,
                                 CudnnHeuristicMode mode, const CudnnChoice &choice = {},
                                 Status *built = nullptr) {
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
  EXPECT_TRUE(described.status().isOk()) << described.status().message();
  const auto &operations = described.operations();
  CudnnDescriptor graph = make(CudnnKind::Graph);
  set(graph, CudnnAttribute::GraphOperations, CudnnAttributeType::Descriptor,
      int64_t(operations.size()), operations.data());
  finalize(graph);
  CudnnDescriptor properties = make(kDeviceProperties);
  std::string text = textOf(gpu);
  set(properties, kPropertiesText, kText, int64_t(text.size()), text.data());
  finalize(properties);
  CudnnDescriptor heuristic = make(CudnnKind::Heuristic);
  set(heuristic, CudnnAttribute::HeuristicGraph, CudnnAttributeType::Descriptor, 1, &graph);
  set(heuristic, kHeuristicDevice, CudnnAttributeType::Descriptor, 1, &properties);
  set(heuristic, CudnnAttribute::HeuristicMode, CudnnAttributeType::HeuristicMode, 1, &mode);
  finalize(heuristic);
  std::vector<CudnnDescriptor> configs;
  for (int i = 0; i < 64; ++i)
    configs.push_back(make(CudnnKind::EngineConfig));
  int64_t count = 0;
  EXPECT_EQ(calls.getAttribute(heuristic, CudnnAttribute::HeuristicResults,
                               CudnnAttributeType::Descriptor, int64_t(configs.size()), &count,
                               configs.data()),
            CudnnStatus::Success);
  std::vector<int64_t> workspaces;
  for (int64_t i = 0; i < count; ++i) {
    auto refused = isRefused(calls, configs[size_t(i)], choice);
    EXPECT_TRUE(refused.isOk()) << refused.status().message();
    if (refused.isOk() && *refused)
      continue;
    if (built && workspaces.empty()) {
      CudnnDescriptor plan = make(CudnnKind::Plan);
      set(plan, CudnnAttribute::PlanEngineConfig, CudnnAttributeType::Descriptor, 1,
          &configs[size_t(i)]);
      set(plan, kPlanDevice, CudnnAttributeType::Descriptor, 1, &properties);
      *built = checkCudnn(calls, calls.finalize(plan), "an execution plan");
    }
    int64_t one = 0;
    EXPECT_EQ(calls.getAttribute(configs[size_t(i)], kConfigWorkspace, CudnnAttributeType::Int64, 1,
                                 &one, &workspaces.emplace_back()),
              CudnnStatus::Success);
  }
  return workspaces;
}

std::vector<int64_t> suggestions(const CudnnCalls &calls, const Gpu &gpu,
                                 const AttentionGeometry &geometry) {
  CudnnAttentionGraph described(calls, geometry);
  return suggestions(calls, gpu, described.graph(), CudnnHeuristicMode::A);
}

const Gpu kGpus[] = {{"A100", 800, 108, 166912},
                     {"L40", 890, 142, 101376},
                     {"H100", 900, 132, 232448},
                     {"B200", 1000, 148, 232448}};

class CudnnSuggestions : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_TRUE(calls) << dlerror();
    if (calls->version < kOldestCudnn)
      GTEST_SKIP() << "cuDNN " << calls->version;
  }

  /// Some engine is suggested, and what any of them wants is planned.
  void expectPlanned(const Gpu &gpu, const AttentionGeometry &g, const std::string &what) {
    std::vector<int64_t> workspaces = suggestions(*calls, gpu, g);
    EXPECT_FALSE(workspaces.empty()) << what;
    for (int64_t bytes : workspaces)
      EXPECT_LE(cudaGradientSums(g).total() + bytes, cudaScratchBytes(g)) << what;
  }

  const CudnnCalls *calls = library();
};

TEST_F(CudnnSuggestions, AttentionHasEnginesWhoseWorkspaceIsPlanned) {
  for (const Gpu &gpu : kGpus)
    for (DataType type : {DataType::BF16, DataType::F16})
      for (const Sizes &s :
           {Sizes{2, 8, 8, 1024, 1024, 64, 64, true}, Sizes{2, 8, 2, 1024, 1024, 128, 128, true},
            Sizes{2, 8, 4, 100, 77, 64, 64, false}, Sizes{1, 8, 8, 77, 77, 24, 40, true},
            Sizes{2, 4, 2, 8, 8, 8, 8, false}, Sizes{2, 4, 4, 1, 64, 64, 64, false},
            Sizes{1, 12, 12, 1, 1024, 64, 64, false}, Sizes{32, 12, 12, 1, 1024, 64, 64, false},
            Sizes{1, 32, 8, 1, 8192, 128, 128, false}, Sizes{8, 12, 12, 1, 2048, 64, 64, false}})
        for (bool isGradient : {false, true}) {
          // The device refuses these by itself.
          if (isGradient && s.keys % kCudnnKeyBlock != 0 && calls->version < kCudnnForAnyKeys)
            continue;
          // Not a call of cuDNN.
          if (isGradient && s.queries == 1 && s.keys > 64)
            continue;
          AttentionGeometry g = geometryOf(s, type, isGradient);
          std::string what = std::string(gpu.name) + " " + std::string(name(type)) + " " +
                             std::to_string(s.queries) + "x" + std::to_string(s.keys) +
                             (isGradient ? ", gradient" : "");
          expectPlanned(gpu, g, what);
        }
}

TEST_F(CudnnSuggestions, AttentionToAWindowHasEnginesToo) {
  for (const Gpu &gpu : kGpus)
    for (DataType type : {DataType::BF16, DataType::F16})
      for (const Sizes &s :
           {Sizes{2, 64, 8, 4096, 4096, 64, 64, true, 128},
            Sizes{2, 8, 2, 1024, 2048, 128, 128, true, 256},
            Sizes{1, 8, 8, 77, 77, 24, 40, true, 5}, Sizes{1, 16, 16, 100, 300, 64, 64, true, 64}})
        for (bool isGradient : {false, true}) {
          if (isGradient && s.keys % kCudnnKeyBlock != 0 && calls->version < kCudnnForAnyKeys)
            continue;
          expectPlanned(gpu, geometryOf(s, type, isGradient),
                        std::string(gpu.name) + " " + std::to_string(s.queries) + "x" +
                            std::to_string(s.keys) + (isGradient ? ", gradient" : ""));
        }
}

// Query, key and value that one product made, and gradients that are read as one tensor.
TEST_F(CudnnSuggestions, AttentionOnPartsOfOneTensorHasEnginesToo) {
  for (const Gpu &gpu : kGpus)
    for (DataType type : {DataType::BF16, DataType::F16})
      for (bool isGradient : {false, true}) {
        AttentionGeometry g = geometryOf({2, 12, 12, 1024, 1024, 64, 64, true}, type, isGradient);
        for (size_t number : {0, 1, 2, 5, 6, 7})
          if (number < g.operands.size())
            g.operands[number].strides = {3 * 768 * 1024, 64, 3 * 768, 1};
        expectPlanned(gpu, g, std::string(gpu.name) + (isGradient ? ", gradient" : ""));
      }
}

// With less or more of it repeated, and rows that start anywhere.
TEST_F(CudnnSuggestions, AttentionWithABiasHasEnginesToo) {
  if (calls->version < kCudnnForAnyKeys)
    GTEST_SKIP() << "cuDNN " << calls->version;
  for (const Gpu &gpu : kGpus)
    for (DataType type : {DataType::BF16, DataType::F16})
      for (DataType biasType : {DataType::F32, type})
        for (const Sizes &s :
             {Sizes{2, 8, 8, 1024, 1024, 64, 64, true}, Sizes{2, 8, 2, 1024, 1024, 128, 128, false},
              Sizes{2, 8, 4, 100, 77, 24, 40, false}, Sizes{2, 4, 4, 1, 64, 64, 64, false}})
          for (const std::vector<int64_t> &strides :
               {std::vector<int64_t>{s.keys, 0, 0, 1}, {0, s.queries * s.keys, s.keys, 1}})
            for (bool isGradient : {false, true}) {
              AttentionGeometry g = geometryOf(s, type, isGradient);
              g.biasType = biasType;
              g.bias = {{s.batch, s.heads, s.queries, s.keys}, strides};
              std::string what = std::string(gpu.name) + " " + std::string(name(type)) + " + " +
                                 std::string(name(biasType)) + " " + std::to_string(s.queries) +
                                 "x" + std::to_string(s.keys) + (isGradient ? ", gradient" : "");
              expectPlanned(gpu, g, what);
            }
}

// The library compiles it for a GPU that is only described, and then gives it to the driver, which
// is a stub here. Models of scripts/gpu-pack, and what is odd about others.
TEST_F(CudnnSuggestions, TheFirstEngineOfAttentionCanBeBuilt) {
  struct Case {
    Sizes sizes;
    bool hasBias, isGradient;
  };
  for (const Case &c : {Case{{64, 12, 12, 1024, 1024, 64, 64, true}, false, false},
                        {{64, 12, 12, 1024, 1024, 64, 64, true}, false, true},
                        {{32, 12, 12, 512, 512, 64, 64, false}, true, false},
                        {{1, 12, 12, 1, 1024, 64, 64, false}, true, false},
                        {{4, 4, 2, 40, 40, 32, 32, true}, false, false},
                        {{4, 4, 2, 1, 40, 32, 32, false}, true, false},
                        {{4, 4, 4, 32, 32, 16, 16, true}, false, true},
                        {{4, 64, 8, 4096, 4096, 64, 64, true, 128}, false, false},
                        {{4, 64, 8, 4096, 4096, 64, 64, true, 128}, false, true},
                        {{2, 4, 1, 5, 33, 24, 8, false}, false, true},
                        {{2, 4, 4, 7, 301, 16, 16, false}, true, true}}) {
    if (c.isGradient && c.sizes.keys % 128 != 0 && calls->version < kCudnnForAnyKeys)
      continue; // refused when a program is loaded
    AttentionGeometry g = geometryOf(c.sizes, DataType::BF16, c.isGradient);
    const auto &[batch, heads, groups, queries, keys, depth, valueDepth, causal, window] = c.sizes;
    g.biasType = DataType::F32;
    if (c.hasBias)
      g.bias = {{batch, heads, queries, keys}, {keys, 0, 0, 1}};
    CudnnAttentionGraph described(*calls, g);
    Status built = Status::internal("nothing is suggested");
    suggestions(*calls, kGpus[2], described.graph(), CudnnHeuristicMode::A, {}, &built);
    EXPECT_TRUE(built.isOk() || built.message().find("cuLibraryLoadData") != std::string::npos)
        << queries << "x" << keys << ": " << built.message();
  }
}

// Which GPUs LibraryAttention.cpp gives them to.
TEST_F(CudnnSuggestions, RowsOfLatentAttentionHaveEnginesFromHopperOn) {
  const Sizes latent{1, 16, 16, 1024, 1024, 192, 128, true}, few{2, 4, 4, 7, 77, 192, 128, false};
  for (const Sizes &s : {latent, few})
    for (bool isGradient : {false, true}) {
      // The device refuses these by itself.
      if (isGradient && s.keys % kCudnnKeyBlock != 0 && calls->version < kCudnnForAnyKeys)
        continue;
      AttentionGeometry g = geometryOf(s, DataType::BF16, isGradient);
      for (const Gpu &gpu : kGpus)
        if (gpu.chip >= 900)
          expectPlanned(gpu, g, gpu.name);
        else if (isGradient)
          EXPECT_TRUE(suggestions(*calls, gpu, g).empty()) << gpu.name;
    }
}

TEST_F(CudnnSuggestions, LongerRowsHaveNoGradientEverywhere) {
  AttentionGeometry g = geometryOf({2, 8, 8, 128, 128, 136, 136, true}, DataType::BF16, true);
  EXPECT_TRUE(suggestions(*calls, kGpus[0], g).empty());
}

struct Convolved {
  const char *name;
  std::vector<int64_t> input, filter, strides, padsBegin, padsEnd, dilations;
  int64_t groups;
};
const Convolved kConvolutions[] = {
    {"3x3", {32, 64, 56, 56}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
    {"an image", {32, 3, 224, 224}, {64, 3, 7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}, 1},
    {"1x1", {32, 256, 56, 56}, {64, 256, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {"strided", {32, 128, 56, 56}, {128, 128, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1},
    {"deep", {32, 512, 7, 7}, {512, 512, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
    {"odd", {2, 5, 9, 7}, {6, 5, 3, 2}, {2, 1}, {1, 0}, {1, 0}, {1, 2}, 1},
    {"padded behind", {2, 8, 9, 7}, {8, 8, 3, 3}, {2, 2}, {0, 0}, {1, 1}, {1, 1}, 1},
    {"by channel", {8, 32, 28, 28}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 32},
    {"groups", {4, 6, 11, 9}, {4, 3, 3, 2}, {2, 1}, {2, 1}, {2, 1}, {2, 3}, 2},
    {"a line", {4, 16, 100}, {32, 16, 5}, {1}, {2}, {2}, {1}, 1},
    {"a volume", {2, 3, 8, 7, 6}, {4, 3, 3, 2, 3}, {2, 1, 1}, {1, 0, 1}, {1, 0, 1}, {1, 1, 2}, 1},
    {"grouped volume",
     {2, 8, 8, 14, 14},
     {8, 2, 3, 3, 3},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     4},
    {"one number", {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {"more border than filter", {1, 2, 3, 3}, {2, 2, 2, 2}, {1, 1}, {3, 3}, {3, 3}, {1, 1}, 1},
};

ConvolutionGeometry geometryOf(const Convolved &c, DataType type, ConvolutionKind kind) {
  ConvolutionGeometry g;
  g.xType = g.wType = g.yType = type;
  g.kind = kind;
  g.strides = c.strides, g.padsBegin = c.padsBegin, g.padsEnd = c.padsEnd;
  g.dilations = c.dilations, g.groups = c.groups;
  std::vector<int64_t> output{c.input[0], c.filter[0]};
  for (size_t i = 0; i < c.strides.size(); ++i)
    output.push_back((c.input[i + 2] + c.padsBegin[i] + c.padsEnd[i] -
                      (c.filter[i + 2] - 1) * c.dilations[i] - 1) /
                         c.strides[i] +
                     1);
  g.x = kind == ConvolutionKind::InputGradient ? output : c.input;
  g.w = kind == ConvolutionKind::FilterGradient ? output : c.filter;
  g.y = kind == ConvolutionKind::Forward         ? output
        : kind == ConvolutionKind::InputGradient ? c.input
                                                 : c.filter;
  return g;
}

// Of f32 none in TF32, of none one that adds in another order every time.
TEST_F(CudnnSuggestions, ConvolutionsHaveEnginesWithinThePlannedWorkspace) {
  int all = 0, byHeuristic = 0;
  for (const Gpu &gpu : kGpus)
    for (DataType type : {DataType::F32, DataType::BF16, DataType::F16})
      for (const Convolved &c : kConvolutions)
        for (ConvolutionKind kind : {ConvolutionKind::Forward, ConvolutionKind::InputGradient,
                                     ConvolutionKind::FilterGradient}) {
          ConvolutionGeometry g = geometryOf(c, type, kind);
          int64_t planned = cudaScratchBytes(g);
          CudnnChoice choice = convolutionChoice(g, planned);
          bool isFound = false;
          for (CudnnHeuristicMode mode : {CudnnHeuristicMode::A, CudnnHeuristicMode::Fallback}) {
            CudnnGraph graph = describeConvolution(*calls, g);
            for (int64_t bytes : suggestions(*calls, gpu, graph, mode, choice))
              if (bytes <= planned && !isFound) {
                isFound = true;
                byHeuristic += mode == CudnnHeuristicMode::A;
              }
          }
          EXPECT_TRUE(isFound) << gpu.name << " " << name(type) << ", " << c.name << ", kind "
                               << int(kind);
          ++all;
        }
  std::printf("%d convolutions, %d of them by the heuristic\n", all, byHeuristic);
}

} // namespace
