// SPDX-License-Identifier: Apache-2.0
// Compile, run, compare: see the header.
#include "RunModule.h"

#include "autopar/Pipelines/Compile.h"
#include "autopar/Runtime/Session.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <unistd.h>

using ::autopar::DataType;
using ::autopar::Result;
using ::autopar::Status;
using namespace autopar_law;

/// Fills a tensor with multiples of 1/4 in [-4, 4], or whole numbers for integers.
static std::vector<char> drawTensor(const ::autopar::runtime::TensorSpec &spec,
                                    std::mt19937_64 &random) {
  std::vector<char> bytes(spec.bytes);
  size_t count = spec.bytes / ::autopar::byteSize(spec.dtype);
  auto store = [&](size_t i, auto value) {
    std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
  };
  for (size_t i = 0; i < count; ++i) {
    int drawn = static_cast<int>(random() % 33) - 16;
    switch (spec.dtype) {
    case DataType::F32:
      store(i, drawn * 0.25f);
      break;
    case DataType::F64:
      store(i, drawn * 0.25);
      break;
    case DataType::I64:
      store(i, static_cast<int64_t>(drawn / 4));
      break;
    case DataType::I32:
      store(i, static_cast<int32_t>(drawn / 4));
      break;
    default:
      store(i, static_cast<uint8_t>(drawn & 1));
      break;
    }
  }
  return bytes;
}

static std::string temporaryPath(const char *suffix) {
  static int counter = 0;
  return "/tmp/autopar-law-" + std::to_string(getpid()) + "-" + std::to_string(counter++) + suffix;
}

Result<std::unique_ptr<::autopar::runtime::Session>>
autopar_law::openModule(mlir::ModuleOp module, Where where, bool optimizesKernels) {
  std::string text = temporaryPath(".mlir"), artifact = temporaryPath(".bin");
  std::error_code error;
  {
    llvm::raw_fd_ostream stream(text, error);
    module.print(stream);
  }
  mlir::autopar::CompileOptions options;
  options.input = text;
  options.output = artifact;
  options.startAt = mlir::autopar::Phase::FormGroups;
  options.target = where == Where::Cpu ? "cpu" : "cuda";
  options.optimizesKernels = optimizesKernels;
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "\n";
    return mlir::success();
  });
  Result<mlir::autopar::CompileResult> compiled =
      mlir::autopar::compileModel(options, *module.getContext());
  llvm::sys::fs::remove(text);
  if (!compiled)
    return Status::badInput("compile: " + compiled.status().message() + diagnostics);
  ::autopar::runtime::SessionOptions sessionOptions;
  sessionOptions.threads = 1;
  sessionOptions.checkReplicas = true;
  sessionOptions.cudaLibraries = EMULATED_CUDA;
  if (where != Where::Cpu)
    sessionOptions.communication = where == Where::GpusByNccl
                                       ? ::autopar::runtime::CommunicationChoice::Nccl
                                       : ::autopar::runtime::CommunicationChoice::Staged;
  Result<std::unique_ptr<::autopar::runtime::Session>> session =
      ::autopar::runtime::Session::open(artifact, std::move(sessionOptions));
  llvm::sys::fs::remove(artifact);
  return session ? std::move(session) : session.status().at("open");
}

/// Stages have their own inputs and outputs, in an order of their own.
static std::vector<::autopar::runtime::TensorSpec>
byName(std::vector<::autopar::runtime::TensorSpec> specs) {
  std::sort(specs.begin(), specs.end(), [](auto &a, auto &b) { return a.name < b.name; });
  return specs;
}

Result<std::vector<Output>> autopar_law::runModule(mlir::ModuleOp module, uint64_t inputSeed,
                                                   Where where) {
  // Drawn, so that every operation meets both.
  bool optimizesKernels = std::mt19937_64(inputSeed)() % 4 == 0;
  Result<std::unique_ptr<::autopar::runtime::Session>> session =
      openModule(module, where, optimizesKernels);
  if (!session)
    return session.status();
  std::mt19937_64 random(inputSeed);
  std::vector<Output> outputs;
  for (int draw = 0; draw < kInputDraws; ++draw) {
    for (const ::autopar::runtime::TensorSpec &spec : byName((*session)->inputs()))
      AUTOPAR_RETURN_IF_ERROR(
          (*session)->setInput(spec.name, spec.dtype, spec.shape, drawTensor(spec, random).data()));
    AUTOPAR_RETURN_IF_ERROR((*session)->run(0, 1));
    AUTOPAR_RETURN_IF_ERROR((*session)->collectOutputs());
    for (const ::autopar::runtime::TensorSpec &spec : byName((*session)->outputs())) {
      Result<const void *> data = (*session)->output(spec.name);
      if (!data)
        return data.status();
      const char *begin = static_cast<const char *>(*data);
      outputs.push_back({spec.name, spec.dtype, {begin, begin + spec.bytes}});
    }
  }
  return outputs;
}

template <typename T>
static std::string compareFloats(const Output &expected, const Output &actual, double tolerance) {
  auto at = [](const Output &output, size_t i) {
    T value;
    std::memcpy(&value, output.bytes.data() + i * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  };
  size_t count = expected.bytes.size() / sizeof(T);
  double scale = 1;
  for (size_t i = 0; i < count; ++i)
    if (std::isfinite(at(expected, i)))
      scale = std::max(scale, std::abs(at(expected, i)));
  for (size_t i = 0; i < count; ++i) {
    double want = at(expected, i), have = at(actual, i);
    bool same = std::isnan(want)   ? std::isnan(have)
                : std::isinf(want) ? want == have
                                   : std::abs(want - have) <= tolerance * scale;
    if (!same)
      return expected.name + "[" + std::to_string(i) + "]: " + std::to_string(have) +
             ", one rank computes " + std::to_string(want);
  }
  return "";
}

std::string autopar_law::firstDifference(const std::vector<Output> &expected,
                                         const std::vector<Output> &actual, double tolerance) {
  if (expected.size() != actual.size())
    return "number of outputs differs";
  for (size_t i = 0; i < expected.size(); ++i) {
    const Output &want = expected[i], &have = actual[i];
    if (want.dtype != have.dtype || want.bytes.size() != have.bytes.size())
      return want.name + ": type or size differs";
    std::string difference;
    if (want.dtype == DataType::F32)
      difference = compareFloats<float>(want, have, tolerance);
    else if (want.dtype == DataType::F64)
      difference = compareFloats<double>(want, have, tolerance);
    else if (want.bytes != have.bytes)
      difference = want.name + ": integers differ";
    if (!difference.empty())
      return difference;
  }
  return "";
}
