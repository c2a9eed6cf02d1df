// SPDX-License-Identifier: Apache-2.0
// The rows of a schedule and their messages as tasks of the event engine.
#pragma once

#include "MeshLinks.h"

#include "mlir/IR/Operation.h"

#include <map>
#include <utility>
#include <vector>

namespace mlir::autopar {

class RowProgram {
public:
  /// A transfer, and the micro-batch that it is of, or kOnce.
  using Sent = std::pair<Operation *, int32_t>;
  static constexpr int32_t kOnce = -1;
  struct Message {
    Sent sent;
    int32_t from, after; ///< a mesh and a task, which may be none
  };

  /// A queue per mesh. `isAlone`, of the meshes, outlives it: what computes there also moves bytes.
  RowProgram(const std::vector<char> &isAlone, size_t ports);

  int32_t addQueue(const Twine &name);
  int32_t addTask(int32_t queue, double us, const Twine &name);
  /// A message on its way behind those of its link, and behind `after`: the task at whose end all
  /// of it is there.
  int32_t send(int32_t from, int32_t to, const MeshMessage &message, ArrayRef<int32_t> after,
               const Twine &name);
  /// Makes a task of `mesh` wait for a message that arrives there. `isFirst` of those that do.
  void receive(int32_t task, int32_t arrival, int32_t mesh, const MeshMessage &message,
               bool isFirst);
  /// What a task waits for.
  void read(const Sent &sent, int32_t task) { readers[sent].push_back(task); }
  /// One of `messages` on its way; those of a link in their order.
  void carry(const Message &sent, int32_t to, const MeshMessage &message, const Twine &name);

  ::autopar::VirtualProgram program;
  std::vector<Message> messages; ///< those of a link in the order in which they are made

private:
  const std::vector<char> &isAlone;
  std::map<Sent, SmallVector<int32_t, 1>> readers;      ///< tasks
  std::map<std::pair<int32_t, int32_t>, int32_t> links; ///< queues
};

} // namespace mlir::autopar
