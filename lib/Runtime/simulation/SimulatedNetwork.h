// SPDX-License-Identifier: Apache-2.0
// The network of a simulation: who waits for whom, and how long what they do together takes.
#pragma once

#include "SimulatedDevice.h"
#include "autopar/Cost/CostModel.h"
#include "autopar/Runtime/Communicator.h"
#include "autopar/VirtualTime/SharedLinks.h"
#include "autopar/VirtualTime/VirtualClock.h"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace autopar::runtime {

/// A collective begins when its last member arrives and takes what the cost model says of its
/// members' places. A message begins when both sides asked for it and the messages before it from
/// one to the other are through; those of other pairs that are under way at the same time share the
/// links of their ends, as in the planner's model. A rank that communicates only while it does not
/// compute takes part when it is free, and is not free until its part is done; of a message it is
/// the later side that moves the bytes.
class SimulatedNetwork {
public:
  SimulatedNetwork(const Cluster &cluster, int32_t worldSize, SimulatedThreads &threads,
                   VirtualClock &clock);

  /// The communicator of a rank; the network outlives it. Rank i stands on device i. Tokens are
  /// places of operations; an operation is forgotten when all its holders know that it is complete.
  std::unique_ptr<Communicator> connect(int32_t rank);

  int32_t worldSize() const { return size; }
  /// The one besides ranks whom the clock wakes: `advance` is to be called then.
  int32_t sleeper() const { return size; }
  /// Ends and begins the messages whose time has come; wakes the ranks of those that ended.
  void advance();
  int64_t operations() const { return started; }

  Result<Token> collective(int32_t rank, const CollectiveCall &call);
  Result<Token> permute(int32_t rank, int64_t bytes, int32_t sendTo, int32_t receiveFrom);
  enum class Direction : uint8_t { Send, Receive };
  Result<Token> message(int32_t rank, int32_t peer, Direction direction, int64_t tag,
                        int64_t bytes);
  Result<bool> test(Token token);
  void abort(const Status &reason) { aborted = aborted.isOk() ? reason : aborted; }

private:
  /// Complete when nothing is missing and its end has come.
  struct Operation {
    int32_t missing = 0; ///< parts whose end is not known yet
    int32_t holders = 0; ///< ranks that did not see it complete
    int64_t endNs = 0;
  };
  struct Meeting {
    size_t operation = 0;
    int32_t arrived = 0;
    artifact::CollectiveKind kind{};
    int64_t bytes = 0; ///< of the full side
    int32_t first = 0; ///< rank that came first
  };
  struct Group {
    std::vector<int32_t> members;
    MeshGroup place;
    std::deque<Meeting> open; ///< not all members have arrived
    uint64_t firstOpen = 0;   ///< number of the first of them
  };
  /// A group as a rank knows it.
  struct Membership {
    size_t group = 0;
    const void *list = nullptr; ///< that named it last
    uint64_t begun = 0;         ///< collectives
  };
  /// One side of a message whose other side did not ask yet.
  struct Side {
    size_t operation = 0;
    int64_t bytes = 0;
    int32_t rank = 0;
    Direction direction = Direction::Send;
  };
  /// Both sides asked for it.
  struct Message {
    MessageTime time;
    std::array<size_t, 2> operations{};
    std::array<int32_t, 2> ranks{};
  };
  /// From one rank to another.
  struct Channel {
    MeshGroup ends;
    SharedLinks::Path path{};
    std::deque<Message> messages;                ///< not all of their bytes have arrived
    bool isBusy = false;                         ///< the first is under way
    std::map<int64_t, std::deque<Side>> waiting; ///< by tag; all of the same side
  };

  const Cluster &cluster;
  int32_t size;
  SimulatedThreads &threads;
  VirtualClock &clock;
  Status aborted;
  int64_t started = 0;
  std::vector<Operation> pool;
  std::vector<size_t> unused; ///< places in the pool
  std::map<std::vector<int32_t>, size_t> groupOf;
  std::deque<Group> groups;
  std::vector<std::vector<Membership>> memberships; ///< by rank
  std::unordered_map<uint64_t, Channel> channels;
  SharedLinks links;
  std::vector<Channel *> underWay; ///< by flow
  int64_t wakesNs = -1;            ///< when the clock wakes the network next
  std::vector<int64_t> permutes;   ///< begun, by rank

  bool isAlone(int32_t rank, const MeshGroup &group) const;
  void interrupt(int32_t rank, double us);
  size_t newOperation(int32_t missing, int32_t holders);
  void settle(size_t operation, int64_t endNs, const std::vector<int32_t> &wake);
  Membership &membershipOf(int32_t rank, const std::vector<int32_t> &members);
  Channel &channelBetween(int32_t from, int32_t to);
  void beginNext(Channel &channel);
  void endFirst(Channel &channel);
  void sleep();
  Status meet(size_t operation, int32_t rank, int32_t peer, Direction direction, int64_t tag,
              int64_t bytes);
};

} // namespace autopar::runtime
