// SPDX-License-Identifier: Apache-2.0
// Compile, run, compare: see the header.
#include "RunModule.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Pipelines/Compile.h"
#include "autopar/Runtime/Session.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
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
    case DataType::I8:
      store(i, static_cast<int8_t>(drawn / 4));
      break;
    case DataType::U8:
      store(i, static_cast<uint8_t>(std::abs(drawn / 4)));
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

using Sessions = std::vector<std::unique_ptr<::autopar::runtime::Session>>;

/// Calls it with every rank's number, at once; what tells most of what went wrong.
static Status onAll(size_t count, const std::function<Status(size_t)> &call) {
  std::vector<Status> statuses(count, Status::ok());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back([&, i] { statuses[i] = call(i); });
  statuses[0] = call(0);
  for (std::thread &thread : threads)
    thread.join();
  const Status *worst = &statuses[0];
  for (const Status &status : statuses)
    if (!status.isOk() && (worst->isOk() || worst->code() == ::autopar::StatusCode::PeerLost))
      worst = &status;
  return *worst;
}

/// One session with all ranks, or one per rank.
static Result<Sessions> openSessions(const std::string &artifact, Where where) {
  Result<::autopar::artifact::Reader> reader = ::autopar::artifact::Reader::open(artifact);
  if (!reader)
    return reader.status();
  setenv("AUTOPAR_EMULATED_CUDA_RACECHECK", "1", /*overwrite=*/0);
  std::vector<std::unique_ptr<::autopar::runtime::Transport>> transports;
  if (where == Where::GpusByNccl)
    transports = ::autopar::runtime::createInProcessTransports(reader->worldSize());
  Sessions sessions(std::max<size_t>(transports.size(), 1));
  Status status = onAll(sessions.size(), [&](size_t i) {
    ::autopar::runtime::SessionOptions options;
    options.threads = 1;
    options.checkReplicas = true;
    options.cudaLibraries = EMULATED_CUDA;
    if (where == Where::GpusByNccl) {
      options.transport = std::move(transports[i]);
      options.localRank = static_cast<int32_t>(i);
      options.communication = ::autopar::runtime::CommunicationChoice::Nccl;
    } else if (where == Where::GpusStaged) {
      options.communication = ::autopar::runtime::CommunicationChoice::Staged;
    }
    auto session = ::autopar::runtime::Session::open(artifact, std::move(options));
    if (!session)
      return session.status();
    sessions[i] = session.take();
    return where != Where::GpusByNccl || sessions[i]->captures()
               ? Status::ok()
               : Status::internal("not captured: " + sessions[i]->whyUncaptured());
  });
  return status.isOk() ? Result<Sessions>(std::move(sessions)) : status.at("open");
}

/// Ends them together, as NCCL's communicators do.
static void closeAll(Sessions &sessions) {
  (void)onAll(sessions.size(), [&](size_t i) {
    sessions[i].reset();
    return Status::ok();
  });
}

static bool hasGroups(mlir::ModuleOp module) {
  return module->walk([](mlir::autopar::GroupOp) { return mlir::WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Lowers and emits a module on local shapes (a module without a mesh is one rank) and opens it.
static Result<Sessions> openOn(mlir::ModuleOp module, Where where, bool optimizesKernels) {
  std::string text = temporaryPath(".mlir"), artifact = temporaryPath(".bin");
  std::error_code error;
  {
    llvm::raw_fd_ostream stream(text, error);
    module.print(stream);
  }
  mlir::autopar::CompileOptions options;
  options.input = text;
  options.output = artifact;
  options.startAt =
      hasGroups(module) ? mlir::autopar::Phase::Schedule : mlir::autopar::Phase::FormGroups;
  options.target = where == Where::Cpu ? "cpu" : "cuda";
  options.optimizesKernels = optimizesKernels;
  options.rounds = "always";
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
  Result<Sessions> sessions = openSessions(artifact, where);
  llvm::sys::fs::remove(artifact);
  return sessions;
}

Result<std::unique_ptr<::autopar::runtime::Session>>
autopar_law::openModule(mlir::ModuleOp module) {
  Result<Sessions> sessions = openOn(module, Where::Cpu, /*optimizesKernels=*/true);
  if (!sessions)
    return sessions.status();
  return std::move(sessions->front());
}

/// Stages have their own inputs and outputs, in an order of their own.
static std::vector<::autopar::runtime::TensorSpec>
byName(std::vector<::autopar::runtime::TensorSpec> specs) {
  std::sort(specs.begin(), specs.end(), [](auto &a, auto &b) { return a.name < b.name; });
  return specs;
}

/// A step on inputs of its own; adds what comes out of it.
static Status runDraw(Sessions &sessions, std::mt19937_64 &random, std::vector<Output> &outputs) {
  for (const ::autopar::runtime::TensorSpec &spec : byName(sessions[0]->inputs())) {
    std::vector<char> values = drawTensor(spec, random);
    for (auto &session : sessions)
      AUTOPAR_RETURN_IF_ERROR(session->setInput(spec.name, spec.dtype, spec.shape, values.data()));
  }
  AUTOPAR_RETURN_IF_ERROR(onAll(sessions.size(), [&](size_t i) {
    AUTOPAR_RETURN_IF_ERROR(sessions[i]->run(0, 1));
    return sessions[i]->collectOutputs();
  }));
  for (const ::autopar::runtime::TensorSpec &spec : byName(sessions[0]->outputs())) {
    Result<const void *> data = sessions[0]->output(spec.name);
    if (!data)
      return data.status();
    const char *begin = static_cast<const char *>(*data);
    outputs.push_back({spec.name, spec.dtype, {begin, begin + spec.bytes}});
  }
  return Status::ok();
}

Result<std::vector<Output>> autopar_law::runModule(mlir::ModuleOp module, uint64_t inputSeed,
                                                   Where where, Optimized optimized) {
  // Drawn, so that every operation meets both.
  bool optimizesKernels = optimized == Optimized::Drawn && std::mt19937_64(inputSeed)() % 4 == 0;
  Result<Sessions> sessions = openOn(module, where, optimizesKernels);
  if (!sessions)
    return sessions.status();
  std::mt19937_64 random(inputSeed);
  std::vector<Output> outputs;
  Status status = Status::ok();
  for (int draw = 0; draw < kInputDraws && status.isOk(); ++draw)
    status = runDraw(*sessions, random, outputs);
  closeAll(*sessions);
  return status.isOk() ? Result<std::vector<Output>>(std::move(outputs)) : status;
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
