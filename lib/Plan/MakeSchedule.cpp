// SPDX-License-Identifier: Apache-2.0
// The schedules, one generator each.
#include "autopar/Plan/Schedule.h"

#include <algorithm>
#include <functional>

namespace autopar {
namespace {

/// The rows of a mesh under schedules that have an order of forward rows, an order of backward rows
/// and a number of forward rows that come first; then they take turns, or run `together`. Weight
/// gradients that are apart follow at once.
std::vector<ScheduleRow> takeTurns(const std::vector<ScheduleRow> &forward,
                                   const std::vector<ScheduleRow> &backward, size_t first,
                                   bool splitsBackward, bool together = false) {
  std::vector<ScheduleRow> rows;
  size_t done = 0;
  auto goBack = [&] {
    ScheduleRow row = backward[done++];
    rows.push_back(row);
    row.phase = StagePhase::Weight;
    if (splitsBackward)
      rows.push_back(row);
  };
  for (size_t i = 0; i < forward.size(); ++i) {
    rows.push_back(forward[i]);
    if (i >= first && done < backward.size()) {
      rows.back().withNext = together && forward[i].microBatch != backward[done].microBatch;
      goBack();
    }
  }
  while (done < backward.size())
    goBack();
  return rows;
}

/// Micro-batches in groups of as many as there are meshes; each group passes through all stages of
/// a mesh before the next one starts.
std::vector<ScheduleRow> inGroups(const Schedule &schedule, int32_t mesh, StagePhase phase) {
  std::vector<ScheduleRow> rows;
  int32_t chunks = schedule.stages / schedule.meshes;
  for (int32_t first = 0; first < schedule.microBatches; first += schedule.meshes)
    for (int32_t chunk = 0; chunk < chunks; ++chunk)
      for (int32_t i = first; i < std::min(first + schedule.meshes, schedule.microBatches); ++i) {
        int32_t own = phase == StagePhase::Forward ? chunk : chunks - 1 - chunk;
        rows.push_back({own * schedule.meshes + mesh, i, phase});
      }
  return rows;
}

void gpipe(Schedule &schedule) {
  for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh) {
    auto forward = inGroups(schedule, mesh, StagePhase::Forward);
    schedule.rows.push_back(takeTurns(forward, inGroups(schedule, mesh, StagePhase::Backward),
                                      forward.size(), schedule.splitsBackward));
  }
}

/// `ahead`: forward rows that come first, for each mesh that follows. `together`: one more comes
/// first, so that the row that is to run together with a forward row does not wait for it.
void oneForwardOneBackward(Schedule &schedule, int32_t ahead, bool together = false) {
  int32_t chunks = schedule.stages / schedule.meshes;
  for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh) {
    int32_t behind = schedule.meshes - mesh - 1;
    int32_t first = ahead * behind + (chunks - 1) * schedule.meshes + (together ? 1 : 0);
    schedule.rows.push_back(takeTurns(inGroups(schedule, mesh, StagePhase::Forward),
                                      inGroups(schedule, mesh, StagePhase::Backward), size_t(first),
                                      schedule.splitsBackward, together));
  }
}

void plainOneByOne(Schedule &schedule) { oneForwardOneBackward(schedule, 1); }
void severalPerMesh(Schedule &schedule) { oneForwardOneBackward(schedule, 2); }
void twoTogether(Schedule &schedule) { oneForwardOneBackward(schedule, 2, /*together=*/true); }

/// What runs ahead is of use only if it is taken early: a round of two rows before it is needed.
void eagerOneByOne(Schedule &schedule) {
  schedule.receivesAhead = 3;
  oneForwardOneBackward(schedule, 2);
}

/// In unit time: first as many forward rows as 1f1b starts with, then backward rows before forward
/// ones, with as few micro-batches in flight as on the first mesh of 1f1b; weight gradients where
/// neither can go on.
void zeroBubble(Schedule &schedule) {
  int32_t count = schedule.microBatches, meshes = schedule.meshes;
  schedule.rows.resize(size_t(meshes));
  // Rows done by each mesh, per phase; `before` is how it was when the unit of time began.
  struct Done {
    int32_t forward = 0, backward = 0, weight = 0;
  };
  std::vector<Done> done(static_cast<size_t>(meshes));
  for (bool moved = true; moved;) {
    moved = false;
    std::vector<Done> before = done;
    for (int32_t mesh = 0; mesh < meshes; ++mesh) {
      Done &own = done[size_t(mesh)];
      bool mayGoBack = own.backward < own.forward &&
                       (mesh + 1 == meshes || before[size_t(mesh) + 1].backward > own.backward);
      bool mayGoOn = own.forward < count && own.forward - own.weight < meshes &&
                     (mesh == 0 || before[size_t(mesh) - 1].forward > own.forward);
      ScheduleRow row{mesh, 0, StagePhase::Forward};
      bool isStarting = own.forward - own.backward < meshes - mesh;
      if (mayGoBack && !(isStarting && mayGoOn))
        row = {mesh, own.backward++, StagePhase::Backward};
      else if (mayGoOn)
        row = {mesh, own.forward++, StagePhase::Forward};
      else if (own.weight < own.backward)
        row = {mesh, own.weight++, StagePhase::Weight};
      else
        continue;
      schedule.rows[size_t(mesh)].push_back(row);
      moved = true;
    }
  }
}

struct Generator {
  std::string_view name;
  bool isInterleaved; ///< several stages per mesh
  bool splitsBackward;
  void (*generate)(Schedule &);
};

constexpr Generator kGenerators[] = {
    {"gpipe", false, false, gpipe},
    {"1f1b", false, false, plainOneByOne},
    {"eager-1f1b", false, false, eagerOneByOne},
    {"interleaved", true, false, severalPerMesh},
    {"zero-bubble", false, true, zeroBubble},
    {"interleaved-zero-bubble", true, true, severalPerMesh},
    {"overlapped-1f1b", false, false, twoTogether},
    {"overlapped-interleaved", true, false, twoTogether},
};

/// Rows of one phase, on all meshes together.
constexpr int64_t kMost = int64_t(1) << 24;

const Generator *find(std::string_view name) {
  for (const Generator &generator : kGenerators)
    if (generator.name == name)
      return &generator;
  return nullptr;
}

} // namespace

std::string scheduleNames() {
  std::string names;
  for (const Generator &generator : kGenerators)
    names += (names.empty() ? "" : ", ") + std::string(generator.name);
  return names;
}

bool isSchedule(std::string_view name) { return find(name); }

bool isInterleaved(std::string_view name) {
  const Generator *generator = find(name);
  return generator && generator->isInterleaved;
}

bool splitsBackward(std::string_view name) {
  const Generator *generator = find(name);
  return generator && generator->splitsBackward;
}

Result<Schedule> makeSchedule(std::string_view name, int64_t stages, int64_t meshes,
                              int64_t microBatches, bool trains) {
  const Generator *generator = find(name);
  if (!generator)
    return Status::badInput("there is no schedule '" + std::string(name) + "'; there are " +
                            scheduleNames());
  std::string place = "schedule '" + std::string(name) + "': ";
  if (stages < 1 || meshes < 1 || microBatches < 1 || stages % meshes)
    return Status::badInput(place + std::to_string(stages) + " stages on " +
                            std::to_string(meshes) + " meshes; expected a multiple");
  if (stages > kMost || microBatches > kMost || stages * microBatches > kMost)
    return Status::badInput(
        place + std::to_string(stages) + " stages with " + std::to_string(microBatches) +
        " micro-batches; expected a product of at most " + std::to_string(kMost));
  if ((stages > meshes) != generator->isInterleaved)
    return Status::badInput(
        place + (generator->isInterleaved
                     ? "needs several stages per mesh, got " + std::to_string(stages) +
                           " stages on " + std::to_string(meshes) + " meshes"
                     : "takes one stage per mesh, got " + std::to_string(stages) + " stages on " +
                           std::to_string(meshes) + " meshes; 'interleaved' takes several"));
  if (generator->isInterleaved && microBatches % meshes)
    return Status::badInput(place + "needs a number of micro-batches that " +
                            std::to_string(meshes) + " meshes divide, got " +
                            std::to_string(microBatches));
  Schedule schedule;
  schedule.name = name;
  schedule.stages = static_cast<int32_t>(stages);
  schedule.meshes = static_cast<int32_t>(meshes);
  schedule.microBatches = static_cast<int32_t>(microBatches);
  schedule.splitsBackward = generator->splitsBackward;
  generator->generate(schedule);
  schedule.trains = trains;
  if (!trains)
    for (std::vector<ScheduleRow> &rows : schedule.rows) {
      std::erase_if(rows, [](const ScheduleRow &row) { return row.phase != StagePhase::Forward; });
      for (ScheduleRow &row : rows)
        row.withNext = false;
    }
  // Where stages of a mesh wait for each other, receives must begin earlier.
  Status status = schedule.verify();
  while (!status.isOk() && size_t(schedule.receivesAhead) < schedule.rows.front().size()) {
    schedule.receivesAhead *= 2;
    status = schedule.verify();
  }
  AUTOPAR_RETURN_IF_ERROR(status);
  return schedule;
}

} // namespace autopar
