// SPDX-License-Identifier: Apache-2.0
// Runs the instruction streams of one rank as a resumable state machine: it advances until
// something is pending and never blocks, so a thread per rank, a pool for many ranks or a virtual
// clock can drive it.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Clock.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Communicator.h"
#include "autopar/Runtime/Device.h"
#include "autopar/Runtime/NonFinite.h"
#include "autopar/Runtime/ParameterStore.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autopar::runtime {

enum class Progress { Done, Pending, Error };

/// When an instruction ran, in nanoseconds of the executor's clock.
struct ExecutionEvent {
  int32_t entry = 0;
  int32_t instruction = 0;
  int32_t slot = 0; ///< of the row that ran it
  int64_t step = 0; ///< -1 for "load"
  int64_t beginNs = 0, endNs = 0;
};

/// What of a step runs.
enum class StepKind {
  Whole,      ///< all of it; state is kept as it was where a guard is not finite
  Evaluation, ///< what the loss needs; no state changes
  Inspection, ///< all but what changes the state, looking for the first NaN and the first infinity
};

/// A program and what all ranks that run it share.
class SharedProgram {
public:
  /// `program` outlives it.
  explicit SharedProgram(const artifact::Program &program);

  const artifact::Program &program;

  /// An instruction that runs: `rows[row]` runs the entry whose instruction it is.
  struct Place {
    int32_t row, instruction;
  };
  /// The rows of a load or a step as one list, numbered through. What decides when they start lies
  /// close together: it is looked at far more often than they run.
  struct Order {
    std::vector<artifact::TimetableRow> rows;
    std::vector<Place> places;
    std::array<std::vector<int32_t>, artifact::kQueueCount> queues; ///< in program order
    std::vector<artifact::Queue> service;                           ///< queues in use
    struct Wait {
      int32_t index; ///< of an earlier one of the list
      artifact::Queue queue;
    };
    std::vector<Wait> after;       ///< of all instructions
    std::vector<int32_t> afterEnd; ///< per instruction: where its part of `after` ends

    size_t afterBegin(int32_t index) const {
      return index == 0 ? 0 : size_t(afterEnd[size_t(index) - 1]);
    }
  };
  const Order &load() const { return loading; }
  const Order &step() const { return stepping; }

  const artifact::TimetableRow &rowAt(const Order &order, int32_t index) const {
    return order.rows[size_t(order.places[size_t(index)].row)];
  }
  const artifact::Instruction &instructionAt(const Order &order, int32_t index) const {
    const artifact::Entry &entry = program.entries[size_t(rowAt(order, index).entry)];
    return entry.instructions[size_t(order.places[size_t(index)].instruction)];
  }
  /// "step[3] fc", for messages.
  std::string describe(const Order &order, int32_t index) const;

private:
  Order orderOf(std::vector<artifact::TimetableRow> rows) const;
  Order loading, stepping;
};

class CapturedStep;

/// One rank. All calls come from one thread at a time; nothing given to it is owned.
class Executor {
public:
  Executor(const SharedProgram &program, const artifact::RankTable &table, int32_t rank,
           Device &device, Communicator &communicator, ParameterSource &parameters,
           const Clock &clock = steadyClock());
  ~Executor();

  /// Whole steps and evaluations, the second and later ones of each, are recorded once and then
  /// run as one, where program, device and communicator allow it; BadInput says what stands in the
  /// way. An inspection, and whatever is recorded by record(), runs one by one all the same.
  Status captureSteps();

  /// Load leaves out these of its instructions (per instruction of the entry), and reads no
  /// parameter or state into buffers that `places` says lie elsewhere: another program did.
  void leaveOut(std::vector<bool> instructions, const BufferPlaces &places);

  /// Begins loading: parameters and, unless it is kept, state into their buffers, rank values, then
  /// the entry "load" if there is one.
  void startLoad(bool keepsState = false);
  /// Begins one pass through the timetable. `skipped`: steps so far that changed nothing.
  void startStep(int64_t step, StepKind kind = StepKind::Whole, int64_t skipped = 0);
  /// Goes on until done or until every queue waits.
  Progress advance();
  /// Why advance() said Error: names rank, step, entry and instruction.
  const Status &status() const { return failure; }

  /// Whether the last whole step left the state as it was, because a guard was not finite.
  bool isHeld() const { return guardsHold.has_value() && !*guardsHold; }
  /// Whether something is running on the device: it is soon done, and nothing else tells of it.
  bool awaitsDevice() const;
  /// What an inspection found on this rank.
  const NonFiniteSearch &inspection() const { return search; }

  /// Records events from now on, in the order in which the instructions start. Where the device
  /// times them, they last as long as it says, up to when they were seen to be complete.
  void record(bool enabled);
  const std::vector<ExecutionEvent> &events() const { return recorded; }
  void clearEvents() { recorded.clear(); }
  /// Id of the instruction that ran or waits last, for reports about a stuck rank.
  std::string lastInstruction() const;

private:
  /// An instruction that was issued and is not known to be complete.
  struct Issued {
    int32_t index = 0;
    artifact::Queue queue{};
    bool isCommunication = false;
    bool isAhead = false; ///< issued before what it waits for was complete
    Token token = 0;
    size_t event = 0; ///< where it is recorded
  };
  struct QueueState {
    const std::vector<int32_t> *order = nullptr; ///< instructions of this queue
    size_t next = 0;
    int32_t awaited = -1;  ///< in the order's `after`: what `next` was seen to wait for
    int32_t issued = 0;    ///< that are not complete
    int32_t ahead = 0;     ///< of these, what the device puts in order
    int32_t complete = -1; ///< the last one that is; says nothing where they end in any order
  };

  const SharedProgram &shared;
  const artifact::Program &program;
  const artifact::RankTable &table;
  int32_t rank;
  Device &device;
  Communicator &communicator;
  ParameterSource &parameters;
  const Clock &clock;

  const SharedProgram::Order *running; ///< load or step
  bool hasBegun = false;
  bool mustReadParameters = false, keepsState = false;
  std::vector<bool> leftOutOfLoad;
  std::vector<bool> isHeldElsewhere; ///< per port; empty: none is
  int64_t step = -1;
  StepKind kind = StepKind::Whole;
  std::optional<bool> guardsHold; ///< once an instruction of the step wanted to commit
  NonFiniteSearch search;
  QueueState queues[artifact::kQueueCount];
  std::vector<Issued> issued;
  std::vector<uint8_t> hasEnded; ///< per instruction; only of queues that end in any order
  std::vector<uint8_t> isAhead;  ///< per instruction: issued to a device that puts it in order
  std::vector<Token> tokens;     ///< per instruction, of those
  std::vector<Token> awaitedTokens;
  size_t remaining = 0;
  const SharedProgram::Order *lastOrder = nullptr; ///< of what was issued last; null: nothing yet
  int32_t lastIndex = -1;
  Status failure;
  bool isRecording = false;
  std::vector<ExecutionEvent> recorded;

  std::unique_ptr<CapturedStep> captured; ///< null: steps are not captured
  bool isReplaying = false;

  const artifact::Instruction &at(int32_t index) const {
    return shared.instructionAt(*running, index);
  }
  Status readParameters();
  void begin();
  void writeControl(artifact::ControlWord word, int64_t value);
  /// Finds out what is complete of what was issued. Where this or the next fails, `failure` says
  /// why.
  bool completeIssued();
  /// Issues the next instructions of a queue that nothing holds back. True when some were left out
  /// or are complete already, on which others may wait.
  bool start(artifact::Queue queue);
  /// Where the sender came first, a message is here once it is asked for; if so, this says so
  /// before a computation that does not wait for it keeps the thread. Little waits for what is
  /// sent.
  bool completeLatest();
  bool isLeftOut(int32_t index) const;
  /// Whether the instruction is part of this kind of step.
  bool isActive(int32_t index);
  bool areGuardsFinite();
  /// Whether an instruction may be issued before what it waits for is complete.
  bool canRunAhead(const artifact::Instruction &instruction) const;
  bool isSatisfied(const SharedProgram::Order::Wait &earlier, bool runsAhead) const;
  Result<Token> issue(const artifact::Instruction &instruction, int32_t index,
                      bool &isCommunication);
  Progress replay();
  Status readParameter(const artifact::Port &port, const artifact::PortShard &shard, int32_t buffer,
                       int32_t slot);
  bool isComplete(const SharedProgram::Order::Wait &earlier) const {
    return artifact::endsInAnyOrder(earlier.queue)
               ? hasEnded[size_t(earlier.index)]
               : earlier.index <= queues[size_t(earlier.queue)].complete;
  }
  void markComplete(artifact::Queue queue, int32_t index);
  Result<bool> isDone(const Issued &instruction);
  void complete(const Issued &instruction);
  Progress fail(const Status &status);
};

} // namespace autopar::runtime
