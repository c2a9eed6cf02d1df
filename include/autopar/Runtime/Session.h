// SPDX-License-Identifier: Apache-2.0
// The runtime as a value: open an artifact, set inputs, run steps, get outputs. Runs all ranks in
// this process, or is one rank of many when it is given a transport. autopar-run and the C
// interface are thin layers over it.
#pragma once

#include "autopar/Artifact/Reader.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Executor.h"
#include "autopar/Runtime/ParameterStore.h"
#include "autopar/Runtime/Transport.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autopar::runtime {

/// How bytes get from one device's memory to another's where the host cannot reach them.
enum class CommunicationChoice {
  Auto,   ///< by NCCL where every rank has a GPU of its own, else staged
  Nccl,   ///< refuses what NCCL cannot do
  Staged, ///< through memory of the host
};

class Session;

struct SessionOptions {
  /// Whether collectOutputs() compares what ranks of this process hold of the same box of an
  /// output, bit by bit. For tests: a plan is wrong where replicas differ, though only the first is
  /// given out.
  bool checkReplicas = false;
  /// Threads per rank; 0 = cores of this process divided by the ranks that share them, at least 1.
  int32_t threads = 0;
  /// Ranks on this machine when a transport is given (to divide the cores); 0 = all.
  int32_t ranksHere = 0;
  /// Which of them this one is, which decides what GPU it takes; -1 = its rank. Without a transport
  /// every rank is here.
  int32_t localRank = -1;
  /// Folders to look for NVIDIA's libraries in, separated by colons; the system's come after them.
  std::string cudaLibraries;
  /// Threads that drive the ranks of this process, at most one per rank; 0 = cores / `threads`
  /// where each of them gets as many ranks, else up to 16 per core. With fewer of them than ranks,
  /// ranks take turns when they wait.
  int32_t workers = 0;
  /// For models without weights, or in place of those that a training step starts with.
  std::optional<Initializer> initializer;
  /// Of another program of the same model in this process: parameters, state and what load makes of
  /// parameters are held once for both where ranks of one number hold the same, and the other's
  /// memory stays as long as this session. They run one at a time. Null: nothing is.
  const Session *beside = nullptr;
  /// Null: all ranks run in this process.
  std::unique_ptr<Transport> transport;
  /// Asked while a rank waits for others: not Ok ends the job (a rendezvous' verdict on dead
  /// peers).
  std::function<Status()> verdict;
  /// Records when each instruction ran.
  bool record = false;
  /// Whether a device that can runs a step as one (see Executor::captureSteps).
  bool captures = true;
  CommunicationChoice communication = CommunicationChoice::Auto;
};

/// A tensor that the program takes or gives, as a whole.
struct TensorSpec {
  std::string name;
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  std::optional<artifact::Limits> limits = std::nullopt; ///< of the values of an input
  /// Dimensions of which a step may be given fewer positions than `shape` has.
  std::vector<artifact::VaryingDim> varying = {};
};

/// Bytes that one rank allocates.
struct RankMemory {
  int32_t rank = 0;
  int64_t arenaBytes[artifact::kSpaceCount] = {};
  int64_t unplannedBytes = 0;
  int64_t sharedBytes = 0; ///< of what the session beside it holds; not allocated
};

/// When the instructions of a rank ran.
struct RankEvents {
  int32_t rank = 0;
  const std::vector<ExecutionEvent> *events = nullptr;
};

/// A rank's part of a state: something that lasts from step to step.
struct StateBox {
  std::string name;
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape; ///< of the whole tensor
  Box box;
};

/// Not thread-safe; one call at a time.
class Session {
public:
  /// Verifies the artifact and this machine, agrees with the other ranks on the artifact, allocates
  /// and loads parameters.
  static Result<std::unique_ptr<Session>> open(const std::string &path, SessionOptions options);
  static Result<std::unique_ptr<Session>> open(artifact::Reader reader, SessionOptions options);
  ~Session();

  const artifact::Reader &reader() const;
  const std::vector<TensorSpec> &inputs() const;
  const std::vector<TensorSpec> &outputs() const; ///< outputs, then metrics
  /// Threads per rank that were chosen.
  int32_t threads() const;
  /// Why steps run one instruction at a time on a device that could run them as one; empty where
  /// they run as one, and for devices that cannot.
  std::string whyUncaptured() const;
  /// Whether a step runs as one from the second on.
  bool captures() const;
  /// How the ranks' devices communicate, and why so; empty where nothing is to be said.
  std::string communication() const;
  /// What files of the initializer give in vain, and what they leave as it is
  /// (Initializer::remarks).
  std::vector<std::string> initializerRemarks() const;
  /// Which of the processes of the job this is, and how many there are.
  std::pair<int32_t, int32_t> process() const;
  /// True where outputs arrive: in process always, else on rank 0.
  bool hasOutputs() const;

  /// Copies the whole tensor, row-major, to the ranks of this process; it stays until it is set
  /// again, or a session beside this one was given inputs or ran. Varying dimensions may have any
  /// of their extents; run() refuses inputs that disagree about one. BadInput names the expected
  /// type, shape and size, for an unknown name all inputs, and the first value that is outside of
  /// the input's limits.
  Status setInput(const std::string &name, DataType dtype, const std::vector<int64_t> &shape,
                  const void *data);

  /// The same, where `read` gives the box of each rank of this process: row-major, in the input's
  /// type. Called from several threads at once. Limits are not checked.
  using BoxReader = std::function<Status(const Box &box, void *out)>;
  Status setInput(const std::string &name, const BoxReader &read);

  /// The learning rate of the steps to come; until then it is the one that was compiled in.
  /// BadInput where the program is no training step.
  Status setLearningRate(double rate);

  /// Parameters as if the session had been opened with this initializer; state stays, and inputs
  /// are to be set again. Sessions beside this one have the new ones where they share them, and
  /// keep the rest until they are loaded too. BadInput where the program trains its parameters.
  Status loadWeights(Initializer initializer);

  /// Runs steps [first, first + count) on all ranks of this process. BadInput lists inputs that
  /// were not set, or says that a loss is not finite (then the session may still be used). After
  /// any other failure the session can only be closed.
  Status run(int64_t first, int64_t count);
  /// A training step whose loss is NaN or infinite never changes parameters or state. It ends run()
  /// with BadInput, which says where the first NaN came from; or, with `skips`, run() goes on.
  void setSkipNonFinite(bool skips);
  /// Whether the last step of run() changed nothing because its loss was not finite.
  bool wasSkipped() const;
  /// How many such steps run() has gone on from, in this session and in those whose checkpoints it
  /// continues: optimizers do not count them.
  int64_t skippedSteps() const;
  void setSkippedSteps(int64_t count);

  /// The metrics of a batch that the program can give without changing anything: of a training step
  /// the loss first. Empty where there are none.
  const std::vector<std::string> &evaluated() const;
  /// These metrics of the inputs that are set now, on every rank; all ranks call it. Neither
  /// parameters nor state change. `step` is what the program takes for the number of the step.
  Result<std::vector<double>> evaluate(int64_t step);

  /// Fetches the outputs of the last step into memory; with a transport, all ranks call it and rank
  /// 0 receives.
  Status collectOutputs();
  /// The shape of an output of the last step: that of its spec, with as many positions in varying
  /// dimensions as the inputs had.
  std::vector<int64_t> outputShape(const TensorSpec &output) const;
  /// The whole tensor, of that shape, valid until the next run() or collectOutputs().
  Result<const void *> output(const std::string &name) const;

  /// Calls `visit` for every rank of this process, from several threads at once, with the boxes
  /// that only this rank answers for (no replicas), and a way to read one: row-major, no padding.
  using BoxBytes = std::function<Result<std::vector<uint8_t>>(size_t box)>;
  using StateVisitor =
      std::function<Status(int32_t rank, const std::vector<StateBox> &boxes, const BoxBytes &read)>;
  Status visitStates(const StateVisitor &visit);
  /// Fills the states of all ranks of this process, replicas included; `read` as for setInput.
  using StateReader = std::function<Status(const StateBox &box, void *out)>;
  Status setStates(const StateReader &read);
  /// The states as whole tensors.
  const std::vector<TensorSpec> &states() const;
  /// One state, whole and row-major, read from or written to all ranks, which must all be in this
  /// process; BadInput where they are not, where there is no such state or it has another type or
  /// shape. `data` has room for the bytes of its spec.
  Status readState(const std::string &name, void *data);
  Status setState(const std::string &name, DataType dtype, const std::vector<int64_t> &shape,
                  const void *data);

  /// A text of each process, on rank 0 (empty elsewhere); all ranks call it.
  Result<std::vector<std::string>> gatherTexts(const std::string &mine);
  /// Rank 0's text, everywhere; all ranks call it.
  Result<std::string> broadcastText(const std::string &text);

  std::vector<RankMemory> memory() const;
  /// Whether all ranks of this process have a state in common with the session beside this one.
  bool sharesState(const std::string &name) const;
  /// Fetches the recorded events of other processes; with a transport, all ranks call it and rank 0
  /// receives. Their times are then those of this machine's steady clock.
  Status collectEvents();
  /// Of the ranks of this process, and of those whose events were collected.
  std::vector<RankEvents> events() const;
  void clearEvents();

private:
  struct State;
  explicit Session(std::shared_ptr<State> state);
  Result<std::string> explainNonFinite(int64_t step);
  void shareSkippedSteps();
  std::shared_ptr<State> state; ///< also of sessions beside this one, for its memory
};

/// "input_ids: i64 [8,1..128]" for each, for messages.
std::string describe(const std::vector<TensorSpec> &tensors);

} // namespace autopar::runtime
