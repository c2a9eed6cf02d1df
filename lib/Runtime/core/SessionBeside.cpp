// SPDX-License-Identifier: Apache-2.0
// Sessions of one model in one process: what lasts is held once.
#include "SessionState.h"

#include "autopar/Artifact/CudaScratch.h"

#include <algorithm>

namespace autopar::runtime {

using namespace artifact;

Status Session::State::checkBeside() const {
  if (!beside)
    return Status::ok();
  std::string both = reader.path() + " beside " + beside->reader.path() + ": ";
  if (isDistributed != beside->isDistributed)
    return Status::badInput(both + "one has all ranks in this process, the other one of them");
  if (beside->hasFailed)
    return Status::badInput(both + "that session failed before; open a new one");
  return Status::ok();
}

/// Of what another session holds it says what that one says: weights are loaded there.
std::vector<LastingValue> Session::State::lastingValues(const LocalRank &rank) const {
  LastingFacts facts;
  const Program &program = reader.programOfRank(rank.rank);
  facts.layoutOf = [&](const Pack &pack) { return rank.device->packedLayout(program, pack); };
  facts.replacedBy = [&](const Port &port) {
    bool covers = options.initializer && options.initializer->covers(port);
    return covers ? options.initializer->identity() : "";
  };
  std::vector<LastingValue> values = artifact::lastingValues(reader, rank.rank, facts);
  if (rank.lent.empty())
    return values;
  std::map<int32_t, Digest> theirs;
  if (!beside->hasFailed)
    for (const LastingValue &value : beside->lastingValues(*rankBeside(rank)))
      theirs.emplace(value.buffer, value.identity);
  std::vector<LastingValue> known;
  for (LastingValue &value : values) {
    auto lent = rank.lent.find(value.buffer);
    auto its = lent == rank.lent.end() ? theirs.end() : theirs.find(lent->second);
    if (lent != rank.lent.end() && its == theirs.end())
      continue;
    if (lent != rank.lent.end())
      value.identity = its->second;
    known.push_back(value);
  }
  return known;
}

/// The rank of the session beside this one that is on the same device; null where there is none.
const LocalRank *Session::State::rankBeside(const LocalRank &rank) const {
  // Devices of two kinds, and parts of different numbers of ranks, have nothing in common.
  bool isAlike = beside && beside->reader.worldSize() == reader.worldSize() &&
                 beside->reader.target().isCuda() == reader.target().isCuda();
  return isAlike ? &beside->ranks[size_t(&rank - ranks.data())] : nullptr;
}

void Session::State::findElsewhere(LocalRank &rank) const {
  const LocalRank *other = rankBeside(rank);
  if (!other)
    return;
  const Program &program = reader.programOfRank(rank.rank),
                &otherProgram = beside->reader.programOfRank(other->rank);
  std::map<std::string, int32_t> held;
  for (const LastingValue &value : beside->lastingValues(*other))
    held.emplace(value.identity.hex(), value.buffer);
  for (const LastingValue &value : lastingValues(rank)) {
    auto found = held.find(value.identity.hex());
    if (found == held.end())
      continue;
    const Buffer &own = program.buffers[size_t(value.buffer)],
                 &its = otherProgram.buffers[size_t(found->second)];
    if (own.space == its.space && own.slots == 1 && its.slots == 1) {
      rank.elsewhere[value.buffer] = other->device->address(found->second, 0);
      rank.lent[value.buffer] = found->second;
    }
  }
}

/// What is offered of an arena.
static Workspace workspaceIn(void *arena, const ByteRange &range) {
  auto begin = uintptr_t(arena) + uintptr_t(range.offset);
  uintptr_t aligned =
      (begin + kCudaScratchAlignment - 1) / kCudaScratchAlignment * kCudaScratchAlignment;
  int64_t left = range.bytes - int64_t(aligned - begin);
  if (!arena || left <= 0)
    return {};
  return {reinterpret_cast<uint8_t *>(aligned), left};
}

Status Session::State::prepareDevice(LocalRank &rank) {
  const Program &program = reader.programOfRank(rank.rank);
  const RankTable &table = reader.rank(rank.rank);
  findElsewhere(rank);
  std::vector<bool> leftOut = leftOutOfLoad(program, rank.elsewhere);
  BufferPlaces places(program);
  if (const LocalRank *other = rankBeside(rank)) {
    BufferPlaces common(program, rank.elsewhere, leftOut, other->workspace);
    if (common.borrows() || !rank.elsewhere.empty())
      places = std::move(common);
    if (places.borrows())
      rank.workspace = other->workspace;
  }
  for (size_t space = 0; space < kSpaceCount; ++space)
    rank.arenaBytes[space] = places.arenaBytes(Space(space));
  AUTOPAR_RETURN_IF_ERROR(rank.device->prepare(program, places, table.rankValues));
  AUTOPAR_RETURN_IF_ERROR(connectDevices(rank));
  if (!places.borrows())
    rank.workspace = workspaceIn(rank.device->arena(), places.workspace());
  rank.executor = std::make_unique<Executor>(programs[size_t(table.rankClass)], table, rank.rank,
                                             *rank.device, rank.communicatorOfSteps(), *parameters);
  if (!rank.elsewhere.empty())
    rank.executor->leaveOut(std::move(leftOut), places);
  return Status::ok();
}

/// From now on inputs and outputs are this session's; those of others are gone.
void Session::State::takeTurn() {
  if (*turn == this)
    return;
  for (State *one : {*turn, this})
    if (one) {
      one->inputsGiven.clear();
      one->outputData.clear();
    }
  *turn = this;
}

bool Session::sharesState(const std::string &wanted) const {
  if (!tensorNamed(wanted, "state", state->states))
    return false;
  return std::all_of(state->ranks.begin(), state->ranks.end(), [&](const LocalRank &rank) {
    const std::vector<Port> &ports = state->reader.programOfRank(rank.rank).ports;
    return std::all_of(ports.begin(), ports.end(), [&](const Port &port) {
      return port.role != Role::State || port.name != wanted ||
             rank.elsewhere.contains(port.buffer);
    });
  });
}

} // namespace autopar::runtime
