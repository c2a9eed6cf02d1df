// SPDX-License-Identifier: Apache-2.0
#include "SimulatedNetwork.h"

#include <algorithm>
#include <cmath>

namespace autopar::runtime {
namespace {

/// Permutes have tags of their own, below those of messages.
int64_t permuteTag(int64_t number) { return -1 - number; }

autopar::CollectiveKind kindOf(artifact::CollectiveKind kind) {
  switch (kind) {
  case artifact::CollectiveKind::AllReduce:
    return autopar::CollectiveKind::AllReduce;
  case artifact::CollectiveKind::AllGather:
    return autopar::CollectiveKind::AllGather;
  case artifact::CollectiveKind::ReduceScatter:
    return autopar::CollectiveKind::ReduceScatter;
  case artifact::CollectiveKind::AllToAll:
    return autopar::CollectiveKind::AllToAll;
  case artifact::CollectiveKind::Broadcast:
    return autopar::CollectiveKind::Broadcast;
  }
  return autopar::CollectiveKind::AllReduce;
}

std::string describe(artifact::CollectiveKind kind, int64_t bytes) {
  return std::string(name(kindOf(kind))) + " of " + std::to_string(bytes) + " bytes";
}

using Direction = SimulatedNetwork::Direction;

class SimulatedCommunicator : public Communicator {
public:
  SimulatedCommunicator(SimulatedNetwork &network, int32_t rank) : network(network), self(rank) {}

  int32_t rank() const override { return self; }
  int32_t worldSize() const override { return network.worldSize(); }
  Result<Token> collective(const CollectiveCall &call) override {
    return network.collective(self, call);
  }
  Result<Token> permute(const void *, void *, int64_t bytes, int32_t sendTo,
                        int32_t receiveFrom) override {
    return network.permute(self, bytes, sendTo, receiveFrom);
  }
  Result<Token> send(int32_t peer, int32_t tag, const void *, int64_t bytes) override {
    return network.message(self, peer, Direction::Send, uint32_t(tag), bytes);
  }
  Result<Token> receive(int32_t peer, int32_t tag, void *, int64_t bytes) override {
    return network.message(self, peer, Direction::Receive, uint32_t(tag), bytes);
  }
  Result<bool> test(Token token) override { return network.test(token); }
  /// Time moves elsewhere.
  void wait(std::chrono::microseconds) override {}
  void abort(const Status &reason) override { network.abort(reason); }

private:
  SimulatedNetwork &network;
  int32_t self;
};

} // namespace

SimulatedNetwork::SimulatedNetwork(const Cluster &cluster, int32_t worldSize,
                                   SimulatedThreads &threads, VirtualClock &clock)
    : cluster(cluster), size(worldSize), threads(threads), clock(clock),
      memberships(size_t(worldSize)), links(2 * size_t(worldSize) * cluster.levels.size()),
      permutes(size_t(worldSize), 0) {}

/// Whether a rank communicates in this group only while it does not compute.
bool SimulatedNetwork::isAlone(int32_t rank, const MeshGroup &group) const {
  return cluster.typeOfDevice(rank).communicatesWhileIdle && !group.spansNodes();
}

/// What a rank computes ends later, because it also moves bytes that a network carries.
void SimulatedNetwork::interrupt(int32_t rank, double us) {
  if (us > 0 && cluster.typeOfDevice(rank).communicatesWhileIdle)
    threads.occupy(rank, virtualNs(us), clock);
}

std::unique_ptr<Communicator> SimulatedNetwork::connect(int32_t rank) {
  return std::make_unique<SimulatedCommunicator>(*this, rank);
}

size_t SimulatedNetwork::newOperation(int32_t missing, int32_t holders) {
  if (unused.empty()) {
    unused.push_back(pool.size());
    pool.emplace_back();
  }
  size_t place = unused.back();
  unused.pop_back();
  pool[place] = {missing, holders, clock.nowNs()};
  return place;
}

/// The end of one more part is known.
void SimulatedNetwork::settle(size_t place, int64_t endNs, const std::vector<int32_t> &wake) {
  Operation &operation = pool[place];
  operation.endNs = std::max(operation.endNs, endNs);
  if (--operation.missing > 0)
    return;
  for (int32_t rank : wake)
    clock.wake(operation.endNs, rank);
}

Result<bool> SimulatedNetwork::test(Token token) {
  if (!aborted.isOk())
    return Status::peerLost(aborted.message());
  if (token == 0 || token > pool.size() || pool[token - 1].holders == 0)
    return Status::internal("unknown communication token");
  Operation &operation = pool[token - 1];
  if (operation.missing > 0 || operation.endNs > clock.nowNs())
    return false;
  if (--operation.holders == 0)
    unused.push_back(token - 1);
  return true;
}

SimulatedNetwork::Membership &SimulatedNetwork::membershipOf(int32_t rank,
                                                             const std::vector<int32_t> &members) {
  std::vector<Membership> &own = memberships[size_t(rank)];
  for (Membership &known : own)
    if (known.list == &members && groups[known.group].members == members)
      return known;
  auto [group, isNew] = groupOf.try_emplace(members, groups.size());
  if (isNew) {
    groups.emplace_back();
    groups.back().members = members;
    groups.back().place = meshGroup(cluster, std::vector<int64_t>(members.begin(), members.end()));
  }
  for (Membership &known : own)
    if (known.group == group->second) {
      known.list = &members;
      return known;
    }
  return own.emplace_back(Membership{group->second, &members, 0});
}

Result<Token> SimulatedNetwork::collective(int32_t rank, const CollectiveCall &call) {
  ++started;
  Membership &membership = membershipOf(rank, *call.members);
  Group &group = groups[membership.group];
  int32_t ranks = int32_t(group.members.size());
  int64_t bytes = call.count * byteSize(call.dtype);
  if (call.kind == artifact::CollectiveKind::AllGather)
    bytes *= ranks;
  uint64_t number = membership.begun++;
  if (number - group.firstOpen == group.open.size())
    group.open.push_back({newOperation(1, ranks), 0, call.kind, bytes, rank});
  Meeting &meeting = group.open[size_t(number - group.firstOpen)];
  if (meeting.kind != call.kind || meeting.bytes != bytes)
    return Status::badInput("rank " + std::to_string(rank) + " begins " +
                            describe(call.kind, bytes) + " where rank " +
                            std::to_string(meeting.first) + " of the same group began " +
                            describe(meeting.kind, meeting.bytes));
  size_t operation = meeting.operation;
  if (++meeting.arrived == ranks) {
    int64_t ns = virtualNs(collectiveTimeUs(kindOf(call.kind), double(bytes), group.place));
    int64_t end = clock.nowNs() + ns;
    double lossUs = computeLossUs(kindOf(call.kind), double(bytes), group.place);
    for (int32_t member : group.members)
      if (isAlone(member, group.place))
        end = std::max(end, threads.occupy(member, ns, clock));
      else
        interrupt(member, lossUs);
    settle(operation, end, group.members);
    // Members arrive in the order of their collectives, so the first is complete first.
    group.open.pop_front();
    ++group.firstOpen;
  }
  return Token(operation + 1);
}

SimulatedNetwork::Channel &SimulatedNetwork::channelBetween(int32_t from, int32_t to) {
  auto [found, isNew] =
      channels.try_emplace(uint64_t(uint32_t(from)) << 32 | uint64_t(uint32_t(to)));
  Channel &channel = found->second;
  if (isNew) {
    channel.ends = meshGroup(cluster, {std::min(from, to), std::max(from, to)});
    int64_t level = cluster.levelBetween(from, to), levels = int64_t(cluster.levels.size());
    channel.path[0].port = linkPort(from, level, levels, /*isOut=*/true);
    channel.path[1].port = linkPort(to, level, levels, /*isOut=*/false);
  }
  return channel;
}

/// Begins the first message of a channel where there is one, once the bytes before it are through.
void SimulatedNetwork::beginNext(Channel &channel) {
  if (channel.isBusy || channel.messages.empty())
    return;
  channel.isBusy = true;
  const Message &message = channel.messages.front();
  for (int32_t rank : message.ranks)
    interrupt(rank, message.time.lossUs);
  auto flow = size_t(links.begin(double(clock.nowNs()), 1e3 * message.time.bytesUs, channel.path));
  underWay.resize(std::max(underWay.size(), flow + 1));
  underWay[flow] = &channel;
}

/// The bytes of the first message are through; they arrive while the next ones are under way.
void SimulatedNetwork::endFirst(Channel &channel) {
  Message &message = channel.messages.front();
  int64_t endNs = clock.nowNs() + virtualNs(message.time.latencyUs);
  for (size_t side = 0; side < message.ranks.size(); ++side)
    settle(message.operations[side], endNs, {message.ranks[side]});
  channel.messages.pop_front();
  channel.isBusy = false;
}

void SimulatedNetwork::advance() {
  if (clock.nowNs() == wakesNs)
    wakesNs = -1;
  std::vector<Channel *> ended;
  // Times of the clock are whole.
  for (int32_t flow : links.finish(double(clock.nowNs()) + 0.5))
    ended.push_back(underWay[size_t(flow)]);
  for (Channel *channel : ended)
    endFirst(*channel);
  for (Channel *channel : ended)
    beginNext(*channel);
  sleep();
}

/// Until the next message ends.
void SimulatedNetwork::sleep() {
  double end = links.nextEnd();
  if (!std::isfinite(end))
    return;
  int64_t next = std::max<int64_t>(clock.nowNs(), std::llround(std::min(end, 2. * kHorizonNs)));
  if (wakesNs >= 0 && wakesNs <= next)
    return;
  wakesNs = next;
  clock.wake(next, sleeper());
}

/// One side of a message: waits for the other, or settles both.
Status SimulatedNetwork::meet(size_t operation, int32_t rank, int32_t peer, Direction direction,
                              int64_t tag, int64_t bytes) {
  int32_t from = direction == Direction::Send ? rank : peer;
  int32_t to = direction == Direction::Send ? peer : rank;
  Channel &channel = channelBetween(from, to);
  std::deque<Side> &waiting = channel.waiting[tag];
  if (waiting.empty() || waiting.front().direction == direction) {
    waiting.push_back({operation, bytes, rank, direction});
    return Status::ok();
  }
  Side other = waiting.front();
  waiting.pop_front();
  if (waiting.empty())
    channel.waiting.erase(tag);
  if (other.bytes != bytes)
    return Status::badInput("message " + std::to_string(tag) + " from rank " +
                            std::to_string(from) + " to rank " + std::to_string(to) + " has " +
                            std::to_string(bytes) + " bytes on rank " + std::to_string(rank) +
                            ", " + std::to_string(other.bytes) + " on the other side");
  MessageTime time = messageTime(double(bytes), channel.ends);
  if (from != to && !isAlone(rank, channel.ends)) {
    channel.messages.push_back({time, {operation, other.operation}, {rank, other.rank}});
    beginNext(channel);
    sleep();
    return Status::ok();
  }
  int64_t end = from == to ? clock.nowNs()
                           : threads.occupy(rank, virtualNs(time.latencyUs + time.bytesUs), clock);
  settle(operation, end, {rank});
  settle(other.operation, end, {other.rank});
  return Status::ok();
}

Result<Token> SimulatedNetwork::message(int32_t rank, int32_t peer, Direction direction,
                                        int64_t tag, int64_t bytes) {
  ++started;
  size_t operation = newOperation(1, 1);
  AUTOPAR_RETURN_IF_ERROR(meet(operation, rank, peer, direction, tag, bytes));
  return Token(operation + 1);
}

Result<Token> SimulatedNetwork::permute(int32_t rank, int64_t bytes, int32_t sendTo,
                                        int32_t receiveFrom) {
  ++started;
  int64_t tag = permuteTag(permutes[size_t(rank)]++);
  size_t operation = newOperation((sendTo >= 0) + (receiveFrom >= 0), 1);
  if (sendTo >= 0)
    AUTOPAR_RETURN_IF_ERROR(meet(operation, rank, sendTo, Direction::Send, tag, bytes));
  if (receiveFrom >= 0)
    AUTOPAR_RETURN_IF_ERROR(meet(operation, rank, receiveFrom, Direction::Receive, tag, bytes));
  return Token(operation + 1);
}

} // namespace autopar::runtime
