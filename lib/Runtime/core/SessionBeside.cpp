// SPDX-License-Identifier: Apache-2.0
// Sessions of one model in one process: what lasts is held once.
#include "SessionState.h"

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

std::vector<LastingValue> Session::State::lastingValues(const LocalRank &rank) const {
  LastingFacts facts;
  const Program &program = reader.programOfRank(rank.rank);
  facts.layoutOf = [&](const Pack &pack) { return rank.device->packedLayout(program, pack); };
  facts.replacedBy = [&](const Port &port) {
    bool covers = options.initializer && options.initializer->covers(port);
    return covers ? options.initializer->spelling() : "";
  };
  return artifact::lastingValues(reader, rank.rank, facts);
}

HeldElsewhere Session::State::findElsewhere(const LocalRank &rank) const {
  HeldElsewhere elsewhere;
  // Devices of two kinds, and parts of different numbers of ranks, have nothing in common.
  if (!beside || beside->reader.worldSize() != reader.worldSize() ||
      beside->reader.target().isCuda() != reader.target().isCuda())
    return elsewhere;
  const LocalRank &other = beside->ranks[size_t(&rank - ranks.data())];
  const Program &program = reader.programOfRank(rank.rank),
                &otherProgram = beside->reader.programOfRank(other.rank);
  std::map<std::string, int32_t> held;
  for (const LastingValue &value : beside->lastingValues(other))
    held.emplace(value.identity.hex(), value.buffer);
  for (const LastingValue &value : lastingValues(rank)) {
    auto found = held.find(value.identity.hex());
    if (found == held.end())
      continue;
    const Buffer &own = program.buffers[size_t(value.buffer)],
                 &its = otherProgram.buffers[size_t(found->second)];
    if (own.space == its.space && own.slots == 1 && its.slots == 1)
      elsewhere[value.buffer] = other.device->address(found->second, 0);
  }
  return elsewhere;
}

Status Session::State::prepareDevice(LocalRank &rank) {
  const Program &program = reader.programOfRank(rank.rank);
  const RankTable &table = reader.rank(rank.rank);
  rank.elsewhere = findElsewhere(rank);
  std::vector<bool> leftOut;
  BufferPlaces places(program);
  if (!rank.elsewhere.empty()) {
    leftOut = leftOutOfLoad(program, rank.elsewhere);
    places = BufferPlaces(program, rank.elsewhere, leftOut);
  }
  for (size_t space = 0; space < kSpaceCount; ++space)
    rank.arenaBytes[space] = places.arenaBytes(Space(space));
  AUTOPAR_RETURN_IF_ERROR(rank.device->prepare(program, places, table.rankValues));
  AUTOPAR_RETURN_IF_ERROR(connectDevices(rank));
  rank.executor = std::make_unique<Executor>(programs[size_t(table.rankClass)], table, rank.rank,
                                             *rank.device, rank.communicatorOfSteps(), *parameters);
  if (!rank.elsewhere.empty())
    rank.executor->leaveOut(std::move(leftOut), places);
  return Status::ok();
}

bool Session::sharesState(const std::string &wanted) const {
  return std::all_of(state->ranks.begin(), state->ranks.end(), [&](const LocalRank &rank) {
    const std::vector<Port> &ports = state->reader.programOfRank(rank.rank).ports;
    return std::all_of(ports.begin(), ports.end(), [&](const Port &port) {
      return port.role != Role::State || port.name != wanted ||
             rank.elsewhere.contains(port.buffer);
    });
  });
}

} // namespace autopar::runtime
