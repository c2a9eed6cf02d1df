// SPDX-License-Identifier: Apache-2.0
// Walks programs in the order in which their instructions are issued.
#include "NcclPlan.h"

#include "NcclTypes.h"

#include <algorithm>
#include <map>
#include <set>

namespace autopar::runtime {

using namespace artifact;

namespace {

/// One end of a message.
struct End {
  int64_t bytes = 0;
  int32_t tag = 0;
  std::string where; ///< "rank 1, step[7] recv"
};
/// The ends of all messages of a kind from one rank to another, in their order.
using Ends = std::vector<End>;

/// Every instruction of what runs, with its slot: "load" first, then the timetable.
Status visit(const Program &program,
             const std::function<Status(const Entry &, size_t, int32_t slot)> &visitor) {
  auto visitEntry = [&](const Entry &entry, int32_t slot) -> Status {
    for (size_t i = 0; i < entry.instructions.size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(visitor(entry, i, slot));
    return Status::ok();
  };
  for (const Entry &entry : program.entries)
    if (entry.name == "load")
      AUTOPAR_RETURN_IF_ERROR(visitEntry(entry, 0));
  for (const TimetableRow &row : program.timetable)
    AUTOPAR_RETURN_IF_ERROR(visitEntry(program.entries[size_t(row.entry)], row.slot));
  return Status::ok();
}

std::string place(int32_t rank, const Entry &entry, size_t index, int32_t slot) {
  return "rank " + std::to_string(rank) + ", " + entry.name + "[" + std::to_string(index) + "] " +
         entry.instructions[index].idIn(slot);
}

/// What `rank` sends to `peer`, or receives from it.
Ends endsOf(const RankProgram &own, int32_t rank, int32_t peer, NcclUse::Kind kind, bool sends) {
  Ends ends;
  (void)visit(*own.program, [&](const Entry &entry, size_t i, int32_t slot) {
    const Payload &payload = entry.instructions[i].payload;
    if (auto *p = std::get_if<Permute>(&payload); p && kind == NcclUse::Kind::Moves) {
      const Permutation &move = own.table->permutations[size_t(p->permutation)];
      if ((sends ? move.sendTo : move.receiveFrom) == peer)
        ends.push_back({p->bytes, 0, place(rank, entry, i, slot)});
    }
    if (kind != NcclUse::Kind::Messages)
      return Status::ok();
    if (auto *p = std::get_if<Send>(&payload))
      if (sends && own.table->peers[size_t(p->peer)] == peer)
        ends.push_back({p->bytes, p->tag + slot, place(rank, entry, i, slot)});
    if (auto *p = std::get_if<Recv>(&payload))
      if (!sends && own.table->peers[size_t(p->peer)] == peer)
        ends.push_back({p->bytes, p->tag + slot, place(rank, entry, i, slot)});
    return Status::ok();
  });
  return ends;
}

std::string text(const End &end) {
  return end.where + " (tag " + std::to_string(end.tag) + ", " + std::to_string(end.bytes) +
         " bytes)";
}

Status disagree(int32_t from, int32_t to, const End *sent, const End *received) {
  return Status::badInput(
      "ranks " + std::to_string(from) + " and " + std::to_string(to) +
      " disagree about their messages: " + (sent ? text(*sent) + " is sent" : "nothing is sent") +
      ", " + (received ? text(*received) + " is received" : "nothing is received"));
}

/// Permutations have no tags: the order has to be the same.
Status checkMoves(int32_t from, int32_t to, const Ends &sent, const Ends &received) {
  for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i)
    if (i >= sent.size() || i >= received.size() || sent[i].bytes != received[i].bytes)
      return disagree(from, to, i < sent.size() ? &sent[i] : nullptr,
                      i < received.size() ? &received[i] : nullptr);
  return Status::ok();
}

/// Every message that is sent is received: the ends of each tag fit in their order.
Status checkTags(int32_t from, int32_t to, const Ends &sent, const Ends &received) {
  std::map<int32_t, std::pair<std::vector<const End *>, std::vector<const End *>>> byTag;
  for (const End &end : sent)
    byTag[end.tag].first.push_back(&end);
  for (const End &end : received)
    byTag[end.tag].second.push_back(&end);
  for (const auto &[tag, ends] : byTag)
    for (size_t i = 0; i < std::max(ends.first.size(), ends.second.size()); ++i) {
      const End *one = i < ends.first.size() ? ends.first[i] : nullptr;
      const End *other = i < ends.second.size() ? ends.second[i] : nullptr;
      if (!one || !other || one->bytes != other->bytes)
        return disagree(from, to, one, other);
    }
  return Status::ok();
}

/// Gives each tag the first communicator whose messages are then sent as they are received.
std::map<int32_t, int32_t> numberTags(const Ends &sent, const Ends &received) {
  std::map<int32_t, int32_t> numbers;
  std::vector<std::set<int32_t>> carried; ///< tags by communicator
  auto orderOf = [](const Ends &ends, const std::set<int32_t> &tags) {
    std::vector<int32_t> order;
    for (const End &end : ends)
      if (tags.count(end.tag))
        order.push_back(end.tag);
    return order;
  };
  for (const End &end : sent) {
    if (numbers.count(end.tag))
      continue;
    size_t number = 0;
    for (; number < carried.size(); ++number) {
      std::set<int32_t> tags = carried[number];
      tags.insert(end.tag);
      if (orderOf(sent, tags) == orderOf(received, tags))
        break;
    }
    if (number == carried.size())
      carried.emplace_back();
    carried[number].insert(end.tag);
    numbers[end.tag] = int32_t(number);
  }
  return numbers;
}

/// Adds the communicators that carry what goes from one rank to another.
Status addPair(const ProgramOfRank &programs, const NcclUse &pair, NcclPlan &plan) {
  int32_t from = pair.members[0], to = pair.members[1];
  Ends sent = endsOf(programs(from), from, to, pair.kind, true),
       received = endsOf(programs(to), to, from, pair.kind, false);
  if (pair.kind == NcclUse::Kind::Moves) {
    plan.uses.push_back(pair);
    return checkMoves(from, to, sent, received);
  }
  AUTOPAR_RETURN_IF_ERROR(checkTags(from, to, sent, received));
  int32_t most = 0;
  for (auto [tag, number] : numberTags(sent, received)) {
    plan.numbers[{from, to, tag}] = number;
    most = std::max(most, number);
  }
  for (int32_t number = 0; number <= most; ++number)
    plan.uses.push_back({pair.kind, pair.members, number});
  return Status::ok();
}

} // namespace

template <typename... Payloads>
static bool hasAny(const Program &program) {
  bool any = false;
  (void)visit(program, [&](const Entry &entry, size_t i, int32_t) {
    any |= (std::holds_alternative<Payloads>(entry.instructions[i].payload) || ...);
    return Status::ok();
  });
  return any;
}

bool communicates(const Program &program) {
  return hasAny<Collective, Permute, Send, Recv>(program);
}
bool sendsMessages(const Program &program) { return hasAny<Permute, Send, Recv>(program); }

Result<NcclPlan> planNccl(const ProgramOfRank &programs, int32_t rank) {
  NcclPlan plan;
  std::set<NcclUse> uses;
  RankProgram own = programs(rank);
  const RankTable &table = *own.table;
  Status status = visit(*own.program, [&](const Entry &entry, size_t i, int32_t slot) -> Status {
    const Instruction &instruction = entry.instructions[i];
    auto expectQueue = [&](Queue queue, const char *text) {
      return instruction.queue == queue
                 ? Status::ok()
                 : Status::badInput(place(rank, entry, i, slot) +
                                    " does not run on the queue for " + text +
                                    "; NCCL wants those of a kind in one order");
    };
    if (auto *p = std::get_if<Collective>(&instruction.payload)) {
      AUTOPAR_RETURN_IF_ERROR(expectQueue(Queue::Communication, "communication"));
      bool isReduced =
          p->kind == CollectiveKind::AllReduce || p->kind == CollectiveKind::ReduceScatter;
      if (isReduced && !cuda::ncclType(p->dtype))
        return Status::mismatch(place(rank, entry, i, slot) + ": NCCL does not reduce " +
                                std::string(name(p->dtype)));
      uses.insert({NcclUse::Kind::Group, table.groups[size_t(p->group)].members, 0});
      if (p->kind == CollectiveKind::AllToAll)
        plan.scratchBytes = std::max(plan.scratchBytes, p->count * byteSize(p->dtype));
    } else if (auto *p = std::get_if<Permute>(&instruction.payload)) {
      AUTOPAR_RETURN_IF_ERROR(expectQueue(Queue::Communication, "communication"));
      const Permutation &move = table.permutations[size_t(p->permutation)];
      if (move.sendTo >= 0 && move.sendTo != rank)
        uses.insert({NcclUse::Kind::Moves, {rank, move.sendTo}, 0});
      if (move.receiveFrom >= 0 && move.receiveFrom != rank)
        uses.insert({NcclUse::Kind::Moves, {move.receiveFrom, rank}, 0});
    } else if (auto *p = std::get_if<Send>(&instruction.payload)) {
      AUTOPAR_RETURN_IF_ERROR(expectQueue(Queue::Send, "sends"));
      uses.insert({NcclUse::Kind::Messages, {rank, table.peers[size_t(p->peer)]}, 0});
    } else if (auto *p = std::get_if<Recv>(&instruction.payload)) {
      AUTOPAR_RETURN_IF_ERROR(expectQueue(Queue::Receive, "receives"));
      uses.insert({NcclUse::Kind::Messages, {table.peers[size_t(p->peer)], rank}, 0});
    }
    return Status::ok();
  });
  AUTOPAR_RETURN_IF_ERROR(status);
  for (const NcclUse &use : uses)
    if (use.kind == NcclUse::Kind::Group)
      plan.uses.push_back(use);
    else
      AUTOPAR_RETURN_IF_ERROR(addPair(programs, use, plan));
  return plan;
}

} // namespace autopar::runtime
