// SPDX-License-Identifier: Apache-2.0
// The semantic verifier of rank tables against the programs of their classes and against each
// other.
#include "VerifyBoxes.h"

#include <algorithm>
#include <optional>

namespace autopar::artifact {
namespace {

Status bad(const std::string &what) { return Status::badInput(what); }

class RanksVerifier {
public:
  RanksVerifier(const std::vector<RankTable> &ranks, const std::vector<const Program *> &programs)
      : ranks(ranks), programs(programs) {}

  Status run() {
    if (ranks.empty())
      return bad("no ranks");
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      AUTOPAR_RETURN_IF_ERROR(verify(int32_t(rank)).at("rank " + std::to_string(rank)));
    return verifyBoxes(ranks, programs);
  }

private:
  const std::vector<RankTable> &ranks;
  const std::vector<const Program *> &programs;

  /// An instruction that looks into the rank table.
  struct Use {
    const Entry *entry;
    const Instruction *instruction;
  };
  std::vector<std::optional<std::vector<Use>>> uses; ///< by class, once a rank of it was seen

  const std::vector<Use> &usesOf(int32_t rankClass) {
    uses.resize(programs.size());
    std::optional<std::vector<Use>> &known = uses[size_t(rankClass)];
    if (known)
      return *known;
    known.emplace();
    for (const Entry &entry : programs[size_t(rankClass)]->entries)
      for (const Instruction &instruction : entry.instructions)
        if (usesTable(instruction))
          known->push_back({&entry, &instruction});
    return *known;
  }
  static bool usesTable(const Instruction &instruction) {
    const Payload &payload = instruction.payload;
    if (auto *attention = std::get_if<Attention>(&payload))
      return attention->shardValue >= 0;
    return std::holds_alternative<Collective>(payload) ||
           std::holds_alternative<Permute>(payload) || std::holds_alternative<Send>(payload) ||
           std::holds_alternative<Recv>(payload) || std::holds_alternative<Read>(payload);
  }

  bool isRank(int32_t rank) const { return rank >= 0 && size_t(rank) < ranks.size(); }

  Status verify(int32_t rank) {
    const RankTable &table = ranks[size_t(rank)];
    if (table.rankClass < 0 || size_t(table.rankClass) >= programs.size())
      return bad("class " + std::to_string(table.rankClass) + " is out of range");
    const Program &program = *programs[size_t(table.rankClass)];
    for (size_t g = 0; g < table.groups.size(); ++g)
      AUTOPAR_RETURN_IF_ERROR(verifyGroup(rank, g).at("group " + std::to_string(g)));
    for (int32_t peer : table.peers)
      if (peer != kNobody && !isRank(peer))
        return bad("peer " + std::to_string(peer) + " is not a rank");
    for (size_t p = 0; p < table.permutations.size(); ++p)
      AUTOPAR_RETURN_IF_ERROR(verifyPermutation(rank, p).at("permutation " + std::to_string(p)));
    AUTOPAR_RETURN_IF_ERROR(verifyPorts(table, program));
    AUTOPAR_RETURN_IF_ERROR(verifyRankValues(table, program));
    for (const Use &use : usesOf(table.rankClass))
      if (Status status = verifyUse(table, program, *use.instruction); !status.isOk())
        return status.at(use.entry->placeOf(*use.instruction));
    return Status::ok();
  }

  Status verifyGroup(int32_t rank, size_t g) {
    const std::vector<int32_t> &members = ranks[size_t(rank)].groups[g].members;
    std::vector<int32_t> sorted = members;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.empty() || !isRank(sorted.front()) || !isRank(sorted.back()))
      return bad("members must be ranks of this world, at least one");
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return bad("a rank stands in the group twice");
    if (!std::binary_search(sorted.begin(), sorted.end(), rank))
      return bad("the rank itself is not a member");
    // Everybody agrees with the lowest member, so all agree.
    const std::vector<Group> &first = ranks[size_t(sorted.front())].groups;
    if (first.size() <= g || first[g].members != members)
      return bad("rank " + std::to_string(sorted.front()) +
                 " lists other members for the same group");
    return Status::ok();
  }

  Status verifyPermutation(int32_t rank, size_t p) {
    const Permutation &move = ranks[size_t(rank)].permutations[p];
    for (int32_t other : {move.sendTo, move.receiveFrom})
      if (other != -1 && !isRank(other))
        return bad(std::to_string(other) + " is not a rank");
    auto at = [&](int32_t other) {
      const auto &moves = ranks[size_t(other)].permutations;
      return p < moves.size() ? moves[p] : Permutation{};
    };
    if (move.sendTo != -1 && at(move.sendTo).receiveFrom != rank)
      return bad("rank " + std::to_string(move.sendTo) + " does not expect what this rank sends");
    if (move.receiveFrom != -1 && at(move.receiveFrom).sendTo != rank)
      return bad("rank " + std::to_string(move.receiveFrom) +
                 " does not send what this rank expects");
    return Status::ok();
  }

  /// The box must fit into the buffer that holds it.
  static Status fits(const PortShard &shard, const Buffer &buffer) {
    for (size_t d = 0; d < shard.extent.size(); ++d)
      if (d >= buffer.shape.size() || shard.extent[d] > buffer.shape[d])
        return bad("the box is larger than buffer " + buffer.name);
    return Status::ok();
  }

  Status verifyPorts(const RankTable &table, const Program &program) {
    if (table.ports.size() != program.ports.size())
      return bad("expected " + std::to_string(program.ports.size()) + " port shards, found " +
                 std::to_string(table.ports.size()));
    for (size_t i = 0; i < table.ports.size(); ++i) {
      const PortShard &shard = table.ports[i];
      const Port &port = program.ports[i];
      auto refuse = [&](const std::string &why) { return bad("port " + port.name + ": " + why); };
      if (shard.offset.size() != port.shape.size() || shard.extent.size() != port.shape.size())
        return refuse("the box has another rank than the tensor");
      if (shard.replica < 0)
        return refuse("negative replica number");
      for (size_t d = 0; d < port.shape.size(); ++d) {
        int64_t end = 0;
        if (shard.offset[d] < 0 || shard.extent[d] < 0 ||
            __builtin_add_overflow(shard.offset[d], shard.extent[d], &end) || end > port.shape[d])
          return refuse("the box lies outside the tensor in dim " + std::to_string(d));
      }
      if (port.buffer >= 0)
        if (Status status = fits(shard, program.buffers[size_t(port.buffer)]); !status.isOk())
          return status.at("port " + port.name);
    }
    return Status::ok();
  }

  static Status verifyRankValues(const RankTable &table, const Program &program) {
    if (program.rankValuesBuffer == -1)
      return table.rankValues.empty() ? Status::ok() : bad("rank values without a buffer for them");
    int64_t bytes = program.buffers[size_t(program.rankValuesBuffer)].bytes;
    return table.rankValues.size() <= size_t(bytes / 8)
               ? Status::ok()
               : bad("more rank values than their buffer holds");
  }

  Status verifyUse(const RankTable &table, const Program &program, const Instruction &instruction) {
    if (auto *p = std::get_if<Collective>(&instruction.payload))
      return verifyCollective(table, program, *p);
    if (auto *p = std::get_if<Permute>(&instruction.payload))
      return size_t(p->permutation) < table.permutations.size()
                 ? Status::ok()
                 : bad("permutation index is out of range");
    if (auto *p = std::get_if<Send>(&instruction.payload))
      return size_t(p->peer) < table.peers.size() ? Status::ok()
                                                  : bad("peer index is out of range");
    if (auto *p = std::get_if<Recv>(&instruction.payload))
      return size_t(p->peer) >= table.peers.size()     ? bad("peer index is out of range")
             : table.peers[size_t(p->peer)] == kNobody ? bad("receives from nobody")
                                                       : Status::ok();
    if (auto *p = std::get_if<Attention>(&instruction.payload); p && p->shardValue >= 0) {
      size_t at = size_t(p->shardValue);
      bool isPart = at < table.rankValues.size() && table.rankValues[at] >= 0 &&
                    table.rankValues[at] < p->parts;
      return isPart ? Status::ok()
                    : bad("its rank value " + std::to_string(at) + " is none of the " +
                          std::to_string(p->parts) + " parts of the rows");
    }
    if (auto *p = std::get_if<Read>(&instruction.payload))
      return fits(table.ports[size_t(p->port)], program.buffers[size_t(p->dst)]);
    return Status::ok();
  }

  static Status verifyCollective(const RankTable &table, const Program &program,
                                 const Collective &p) {
    if (size_t(p.group) >= table.groups.size())
      return bad("group index is out of range");
    int64_t n = int64_t(table.groups[size_t(p.group)].members.size());
    int64_t outCount = p.count;
    bool isSplit = p.kind == CollectiveKind::ReduceScatter || p.kind == CollectiveKind::AllToAll;
    if (isSplit && p.count % n != 0)
      return bad("the count " + std::to_string(p.count) +
                 " is not a multiple of the group's size " + std::to_string(n));
    if (p.kind == CollectiveKind::AllGather && __builtin_mul_overflow(p.count, n, &outCount))
      return bad("the output is too large");
    if (p.kind == CollectiveKind::ReduceScatter)
      outCount = p.count / n;
    auto bytes = checkedBytes({outCount}, p.dtype);
    if (!bytes || *bytes > program.buffers[size_t(p.output)].bytes)
      return bad("the output needs more bytes than buffer " +
                 program.buffers[size_t(p.output)].name + " has");
    return Status::ok();
  }
};

} // namespace

Status verifyRanks(const std::vector<RankTable> &ranks,
                   const std::vector<const Program *> &programs) {
  return RanksVerifier(ranks, programs).run();
}

} // namespace autopar::artifact
