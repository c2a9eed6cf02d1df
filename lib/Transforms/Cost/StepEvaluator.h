// SPDX-License-Identifier: Apache-2.0
// How long a step of kernels takes: walks over the kernels of each mesh, on queues that run beside
// each other. With stages, each row of the schedule is as long as a walk over its kernels says, in
// parts where something arrives behind its beginning or is sent before its end, and the event
// engine runs the rows (StepRows.cpp).
#pragma once

#include "HostTraffic.h"
#include "JoinedLaunches.h"
#include "KernelTime.h"
#include "MeshLinks.h"
#include "OverlappedCollectives.h"
#include "PartsInOrder.h"
#include "RecordedStep.h"
#include "RowProgram.h"
#include "RowsTogether.h"
#include "StepWork.h"

#include "autopar/Transforms/Target.h"

namespace mlir::autopar {

class StepEvaluator {
public:
  /// `memoryLimit`: bytes of a device; 0: what plans may use. `knownOf` a mesh: times of its
  /// kernels that earlier evaluations found, to be added to.
  StepEvaluator(StepOrder order, const ::autopar::Schedule &schedule,
                std::vector<::autopar::Mesh> meshes, const ::autopar::Cluster &cluster,
                Target target, int64_t memoryLimit,
                function_ref<KernelTime::Known &(size_t)> knownOf);

  /// Microseconds of the step; leaves what each operation takes in the function (EvaluateStep.h).
  ::autopar::Result<double> stepUs();
  /// What each mesh works in the rows of the step; empty without stages.
  ArrayRef<double> meshUs() const { return rowsUs; }
  /// The most that one of them waits in its rows.
  double rowWaitsUs() const;

private:
  /// The compute queue, the collectives, and the activations that go to the host and back of a
  /// mesh, as far as a walk has come.
  struct Queues {
    double computeUs = 0, collectiveUs = 0, toHostUs = 0, fromHostUs = 0;
    double busyUs = 0;    ///< of `computeUs`, in which something runs
    double rowsEndUs = 0; ///< until when its rows run
    double endUs() const { return std::max({computeUs, collectiveUs, toHostUs, fromHostUs}); }
  };
  /// A row by itself, or two together: how long that takes, and what they read or have made that is
  /// sent, by time.
  struct RowTime {
    struct Mark {
      double us;
      Operation *transfer;
      size_t row; ///< 0, or 1 of the second of two
      bool isSent;
      size_t number = 0; ///< in the order of the program
    };
    double us = 0, waitUs = 0; ///< the second: no kernel runs
    SmallVector<Mark> marks;
    /// Sums that go on beside it and beyond, how long they do, and how long their results take to
    /// be put in order.
    struct Behind {
      Operation *sum;
      double us, orderUs;
    };
    SmallVector<Behind> behind;
  };
  /// Collectives of before the rows that go on when the first one begins: for how long, and when
  /// what they make is there.
  struct Begun {
    double us = 0;
    DenseMap<Value, double> ready;
  };
  /// Sent once, before the rows.
  struct Early {
    TransferOp transfer;
    int32_t from;
    double atUs;
  };
  /// Stage, phase, whether it is of micro-batch 0, and whether sums go on beside it.
  using RowKey = std::tuple<int32_t, ::autopar::StagePhase, bool, bool>;

  void joinLaunches();
  void planHosts();

  // Walks.
  double readyUs(Operation *op) const;
  void visit(Operation *op, int32_t mesh, Queues &queues, bool isFirst);
  double putInOrder(Value value, double us, Queues &queues);
  void finishParts(Queues &queues);
  void copyActivation(Operation *op, int32_t mesh, double &queueUs);
  const MeshMessage &messageOf(int32_t from, int32_t to, TransferOp transfer);
  MeshMessage newMessage(int32_t from, int32_t to, TransferOp transfer);
  double guardsUs(int32_t mesh);
  double knownUs(Value metric, int32_t mesh);
  void walk(ArrayRef<Operation *> ops, std::vector<Queues> &queues);
  std::vector<Operation *> updatesLast(ArrayRef<Operation *> ops) const;
  void passOn(Operation *op);
  void copyState(Value value, bool isStored, std::vector<Queues> &queues);
  double endOf(const std::vector<Queues> &queues);

  // Rows of a schedule.
  const RowTime &timeOf(ArrayRef<::autopar::ScheduleRow> together);
  std::vector<RowsTogether::Place> orderOf(ArrayRef<::autopar::ScheduleRow> together, int32_t mesh);
  RowTime newTimeOf(ArrayRef<::autopar::ScheduleRow> together);
  double savedShare(int32_t mesh);
  ::autopar::Status runRows(std::vector<Queues> &queues);
  void goOnInRows(const std::vector<Queues> &queues);
  void goOnBehindRows(int32_t mesh, Queues &queues);
  bool endsWithSums(const ::autopar::ScheduleRow &row) const;
  void addRows(RowProgram &rows, int32_t mesh, ArrayRef<::autopar::ScheduleRow> together,
               double share);

  const ::autopar::Schedule &schedule;
  Target target;
  std::vector<::autopar::Mesh> meshes;
  func::FuncOp function;
  StepWork work;
  JoinedLaunches joined;
  MeshLinks meshLinks;
  DenseMap<Operation *, MeshMessage> messages;
  SmallVector<MeshOp> meshOps;                   ///< of the module
  std::vector<KernelTime> times;                 ///< per mesh
  std::vector<HostTraffic> hosts;                ///< per mesh
  std::vector<OverlappedCollectives> overlapped; ///< per mesh
  std::vector<char> isAlone; ///< per mesh: its devices move bytes of a node while idle only
  std::vector<Early> early;
  std::vector<Begun> begun;                              ///< per mesh
  DenseMap<Value, SmallVector<Operation *, 1>> arriving; ///< the transfers that bring a value
  std::map<SmallVector<RowKey, 2>, RowTime> rowTimes;
  std::map<std::pair<int32_t, int32_t>, double>
      linkUs;                    ///< from mesh to mesh: until when it is busy
  DenseMap<Value, double> ready; ///< microseconds after the walk's begin
  PartsInOrder late;             ///< what collectives have left to others
  std::vector<double> rowsUs;    ///< per mesh
  std::vector<double> waitsUs;   ///< the same: rows in which no kernel runs
  bool rowsAreOver = false;
  std::optional<RecordedStep> recorded;
  int64_t memoryBytes = 0; ///< that a device of the first mesh may use
};

} // namespace mlir::autopar
