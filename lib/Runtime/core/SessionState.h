// SPDX-License-Identifier: Apache-2.0
// What a session holds between calls. Private to the Session*.cpp files.
#pragma once

#include "RankTurns.h"
#include "RankWorkers.h"
#include "StuckRanks.h"
#include "VaryingExtents.h"
#include "autopar/Artifact/LastingValues.h"
#include "autopar/Runtime/KernelLibrary.h"
#include "autopar/Runtime/Session.h"

#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <set>

namespace autopar::runtime {

/// A rank that lives in this process. Everything in it is used by one worker thread at a time.
struct LocalRank {
  int32_t rank = 0;
  std::unique_ptr<Device> device;
  HeldElsewhere elsewhere;         ///< what the session beside this one holds
  std::map<int32_t, int32_t> lent; ///< the same, by which buffers it has it in
  std::array<int64_t, artifact::kSpaceCount> arenaBytes{};
  Workspace workspace; ///< for sessions beside this one too, in turn
  /// Under way while ranks are connected. In front of the communicator, which may use them as long
  /// as it lives when others fail.
  std::list<std::vector<uint8_t>> messages;
  std::unique_ptr<Communicator> communicator; ///< between host memories
  std::unique_ptr<Communicator> forDevice;    ///< between device memories, where they are apart
  std::unique_ptr<Executor> executor;
  bool captures = false;     ///< steps run as one
  std::string whyUncaptured; ///< where they could
  std::string communication; ///< how, and why so
  Communicator &communicatorOfSteps() { return forDevice ? *forDevice : *communicator; }
  Status status;
};

/// An output that one rank holds whole stays where it is; others are assembled from boxes.
struct OutputTensor {
  const void *direct = nullptr;
  std::vector<uint8_t> assembled;
  const void *data() const { return direct ? direct : assembled.data(); }
};

struct Session::State {
  artifact::Reader reader;
  SessionOptions options;
  std::shared_ptr<const State> beside; ///< of the session whose memory this one uses; may be null
  /// Whose inputs and outputs are in the memory that sessions beside each other have in common.
  std::shared_ptr<State *> turn = std::make_shared<State *>(nullptr);
  std::unique_ptr<ParameterStore> parameters;
  std::vector<std::shared_ptr<const KernelLibrary>> kernels; ///< per class, null where unused
  std::vector<SharedProgram> programs;                       ///< per class
  /// Memory of messages that Session itself sends and receives. In front of the ranks, so that it
  /// outlives their transports: after a failure a message may still be under way.
  std::list<std::vector<uint8_t>> messages;
  std::vector<LocalRank> ranks;
  std::unique_ptr<RankWorkers> workers;
  bool isDistributed = false;
  bool hasFailed = false;
  bool skipsNonFinite = false;
  /// Of the state, which sessions beside each other may have in common.
  std::shared_ptr<int64_t> skippedSteps = std::make_shared<int64_t>(0);
  int32_t threads = 1;
  std::vector<TensorSpec> inputs, outputs, states;
  std::vector<std::string> evaluated; ///< metrics
  std::set<std::string> inputsGiven;
  MissingPositions missing; ///< of extents that vary
  std::map<std::string, OutputTensor> outputData;
  std::map<int32_t, std::vector<ExecutionEvent>> eventsElsewhere; ///< by rank; on rank 0

  State(artifact::Reader reader, SessionOptions options)
      : reader(std::move(reader)), options(std::move(options)) {}
  ~State();

  Status open();
  Status loadKernels();
  Status collectPorts();
  void findEvaluated();
  void createRanks();
  int32_t mostWorkers() const;
  Status createDevice(LocalRank &rank);
  Status checkBeside() const;
  std::vector<artifact::LastingValue> lastingValues(const LocalRank &rank) const;
  const LocalRank *rankBeside(const LocalRank &rank) const;
  void findElsewhere(LocalRank &rank) const;
  void takeTurn();
  Status prepareDevice(LocalRank &rank);
  Result<std::vector<uint8_t>> gatherFromAll(LocalRank &rank, const std::vector<uint8_t> &own);
  Status connectDevices(LocalRank &rank);
  Result<std::string> whyStaged(LocalRank &rank);
  Status connectByNccl(LocalRank &rank);
  void loadKernelsEarly() const;
  void capture(LocalRank &rank);
  Status agree(LocalRank &rank);
  Status writeInput(const TensorSpec &spec, const BoxReader &read, const void *whole);
  Status writeInput(LocalRank &rank, const TensorSpec &spec, const BoxReader &read,
                    const void *whole);
  Status checkInputsGiven() const;
  Status tellMissing();
  Status runStep(int64_t step, StepKind kind);
  Status collect(LocalRank &rank);
  std::optional<size_t> portToWrite(int32_t rank, const std::string &output);
  Status receiveOutput(LocalRank &root, size_t output);
  Status compareReplicas();
  Status sendText(LocalRank &rank, int32_t to, const std::string &text);
  Result<std::string> receiveText(LocalRank &rank, int32_t from);
  Status sendEvents(LocalRank &rank);
  Status receiveEvents(LocalRank &root, int32_t other);
  void takeBox(int32_t rank, size_t port, const void *data, const std::vector<int64_t> &shape);
  const void *wholeOutput(const std::string &name);
  void takeOwnBox(LocalRank &rank, size_t port);
  void cutOutput(const TensorSpec &output);
  std::vector<uint8_t> compactBox(LocalRank &rank, size_t port);
  Status visitStates(LocalRank &rank, const StateVisitor &visit);
  Result<TensorSpec> stateNamed(const std::string &name) const;
  Status setStates(LocalRank &rank, const std::string *only, const StateReader &read);
  Status writeBox(LocalRank &rank, size_t port, const std::function<Status(void *out)> &read);

  Status waitFor(LocalRank &rank, Token token);
  Status sendBytes(LocalRank &rank, int32_t to, int32_t tag, std::vector<uint8_t> bytes);
  Result<std::vector<uint8_t>> receiveBytes(LocalRank &rank, int32_t from, int32_t tag,
                                            size_t count);
  Status checkVerdict(std::chrono::steady_clock::time_point &last);
  Status checkOthers(LocalRank &rank, std::chrono::steady_clock::time_point &last);
  /// explainLoss(), and where the rank was.
  Status explain(LocalRank &rank, const Status &status);
  /// Runs `begin` on every rank, then its executor until done.
  Status drive(const std::function<Status(LocalRank &)> &begin,
               const std::function<Status(LocalRank &)> &end);
  void takeTurns(RankTurns &turns, StuckRanks &stuck, int32_t worker,
                 const std::function<Status(LocalRank &)> &begin,
                 const std::function<Status(LocalRank &)> &end);
  void fail(LocalRank &rank, const Status &status);
};

/// Of several tensors of a kind ("input", "state") the one that is called so; BadInput lists them.
Result<TensorSpec> tensorNamed(const std::string &wanted, const std::string &kind,
                               const std::vector<TensorSpec> &tensors);
/// BadInput where what a caller gives for a tensor is of another type or shape.
Status checkGiven(const std::string &kind, const TensorSpec &spec, DataType dtype,
                  const std::vector<int64_t> &shape);

} // namespace autopar::runtime
