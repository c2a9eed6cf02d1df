// SPDX-License-Identifier: Apache-2.0
// The driver: every rank that can goes on, then time moves to the next thing that ends.
#include "autopar/Runtime/Simulation.h"

#include "SimulatedDevice.h"
#include "SimulatedNetwork.h"

#include <deque>
#include <map>

namespace autopar::runtime {
namespace {

class NoParameters : public ParameterSource {
public:
  bool holdsBytes() const override { return false; }
  Status read(const artifact::Port &, const artifact::PortShard &, void *,
              const std::vector<int64_t> &) override {
    return Status::ok();
  }
};

struct Rank {
  SimulatedDevice device;
  std::unique_ptr<Communicator> communicator;
  Executor executor;
  bool isDone = false;

  Rank(const SharedProgram &program, const artifact::RankTable &table, int32_t rank,
       InstructionTimes &times, SimulatedThreads *threads, SimulatedNetwork &network,
       VirtualClock &clock, ParameterSource &parameters)
      : device(rank, times, threads, clock), communicator(network.connect(rank)),
        executor(program, table, rank, device, *communicator, parameters, clock) {}
};

} // namespace

struct Simulation::State {
  artifact::Reader reader;
  Cluster cluster;
  VirtualClock clock;
  SimulatedThreads threads;
  SimulatedNetwork network;
  NoParameters parameters;
  std::map<std::string, InstructionTimes> times; ///< by device type
  std::vector<SharedProgram> programs;           ///< per class
  std::deque<Rank> ranks;

  State(artifact::Reader opened, Cluster given, bool record)
      : reader(std::move(opened)),
        cluster(std::move(given)), threads{std::vector<int64_t>(size_t(reader.worldSize()), 0)},
        network(cluster, reader.worldSize(), threads, clock) {
    for (int32_t rankClass = 0; rankClass < reader.classCount(); ++rankClass)
      programs.emplace_back(reader.program(rankClass));
    for (int32_t rank = 0; rank < reader.worldSize(); ++rank) {
      const artifact::RankTable &table = reader.rank(rank);
      const DeviceType &type = cluster.typeOfDevice(rank);
      InstructionTimes &typeTimes = times.try_emplace(type.name, type).first->second;
      ranks.emplace_back(programs[size_t(table.rankClass)], table, rank, typeTimes,
                         type.communicatesWhileIdle ? &threads : nullptr, network, clock,
                         parameters);
      ranks.back().executor.record(record);
    }
  }

  Status run();
  Status standstill() const;
};

/// Until all executors are done.
Status Simulation::State::run() {
  std::vector<int32_t> awake;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].isDone = false;
    awake.push_back(int32_t(rank));
  }
  for (size_t running = ranks.size(); running > 0;) {
    for (int32_t index : awake) {
      if (index == network.sleeper()) {
        network.advance();
        continue;
      }
      Rank &rank = ranks[size_t(index)];
      // It wakes again when it is free.
      if (rank.isDone || threads.freeNs[size_t(index)] > clock.nowNs())
        continue;
      switch (rank.executor.advance()) {
      case Progress::Error:
        return rank.executor.status();
      case Progress::Done:
        rank.isDone = true;
        --running;
        break;
      case Progress::Pending:
        break;
      }
    }
    if (running > 0 && !clock.advance(awake))
      return standstill();
    if (clock.nowNs() >= kHorizonNs)
      return Status::badInput("cluster \"" + cluster.name +
                              "\": a step takes longer than three years; check the rates, which "
                              "are per second, and the latencies, which are in microseconds");
  }
  return Status::ok();
}

Status Simulation::State::standstill() const {
  constexpr size_t kNamed = 4;
  std::string text;
  size_t waiting = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (!ranks[rank].isDone && waiting++ < kNamed)
      text += (text.empty() ? "" : ", ") + ("rank " + std::to_string(rank)) + " after " +
              ranks[rank].executor.lastInstruction();
  if (waiting > kNamed)
    text += " and " + std::to_string(waiting - kNamed) + " more";
  return Status::badInput(reader.path() + ": ranks wait for each other forever: " + text);
}

Simulation::Simulation(std::unique_ptr<State> state) : state(std::move(state)) {}
Simulation::~Simulation() = default;

Result<std::unique_ptr<Simulation>> Simulation::open(artifact::Reader reader, Cluster cluster,
                                                     bool record) {
  if (reader.worldSize() > cluster.deviceCount())
    return Status::mismatch(reader.path() + " was compiled for " +
                            std::to_string(reader.worldSize()) + " ranks, the cluster has " +
                            std::to_string(cluster.deviceCount()) +
                            " devices; simulate a larger cluster, or compile for this one");
  std::unique_ptr<Simulation> simulation(
      new Simulation(std::make_unique<State>(std::move(reader), std::move(cluster), record)));
  for (Rank &rank : simulation->state->ranks)
    rank.executor.startLoad();
  AUTOPAR_RETURN_IF_ERROR(simulation->state->run());
  for (Rank &rank : simulation->state->ranks)
    rank.device.clearBusy();
  return simulation;
}

Result<int64_t> Simulation::runStep(int64_t step) {
  int64_t begin = state->clock.nowNs();
  for (Rank &rank : state->ranks)
    rank.executor.startStep(step);
  AUTOPAR_RETURN_IF_ERROR(state->run());
  return state->clock.nowNs() - begin;
}

const artifact::Reader &Simulation::reader() const { return state->reader; }
const Cluster &Simulation::cluster() const { return state->cluster; }

std::vector<SimulatedRank> Simulation::ranks() const {
  std::vector<SimulatedRank> result;
  for (size_t rank = 0; rank < state->ranks.size(); ++rank)
    result.push_back({int32_t(rank), state->ranks[rank].device.busyNs(artifact::Queue::Compute),
                      state->reader.programOfRank(int32_t(rank)).arenaBytes[0]});
  return result;
}

int64_t Simulation::instructions() const {
  int64_t count = state->network.operations();
  for (const Rank &rank : state->ranks)
    count += rank.device.instructions();
  return count;
}

std::vector<RankEvents> Simulation::events() const {
  std::vector<RankEvents> result;
  for (size_t rank = 0; rank < state->ranks.size(); ++rank)
    result.push_back({int32_t(rank), &state->ranks[rank].executor.events()});
  return result;
}

} // namespace autopar::runtime
