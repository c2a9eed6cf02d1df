// SPDX-License-Identifier: Apache-2.0
// Which values of the forward pass the link to the host can store beside it, and fetch beside the
// backward pass, which is never shorter between two of them. The greedy choice: the dearest to
// compute again per byte first, where all that are taken can still be stored without keeping anyone
// waiting.
#include "RecomputeCut.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Cost/HostGroups.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace autopar {
namespace {

/// Operations of one row of the schedule, the last first. Times count back from its end.
struct Row {
  std::vector<double> startUs, endUs; ///< by operation
  std::vector<double> copyUs;         ///< by operation: of its value, if that is stored
  double afterUs = 0;
};

class HostChooser {
public:
  HostChooser(RecomputeProblem &problem, const DeviceType &device, int64_t hostBytes)
      : problem(problem), cut(problem), device(device), hostBytes(hostBytes) {
    for (int32_t row : problem.order)
      ++runsOf[row];
  }

  void run() {
    std::vector<Candidate> candidates = findCandidates();
    std::sort(candidates.begin(), candidates.end(), [](const auto &a, const auto &b) {
      double left = a.savedUs * b.copyUs, right = b.savedUs * a.copyUs;
      return left != right ? left > right : a.op < b.op;
    });
    for (const Candidate &one : candidates)
      if (one.hostBytes <= hostBytes && take(rows[problem.ops[one.op].row], one)) {
        hostBytes -= one.hostBytes;
        problem.ops[one.op].waitsOnHost = true;
        problem.ops[one.op].timeUs = one.trafficUs;
      }
  }

private:
  struct Candidate {
    int32_t op;
    size_t place;      ///< in its row
    double copyUs;     ///< of the link, one way, in a micro-batch
    double savedUs;    ///< of computing again, in a step
    double trafficUs;  ///< of the device's memory, in a step
    int64_t hostBytes; ///< of all micro-batches in flight
  };

  double runs(int32_t row) const {
    auto found = runsOf.find(row);
    return found == runsOf.end() ? 1 : static_cast<double>(found->second);
  }

  /// From the end of the forward pass on, so that each knows what is computed behind it.
  std::vector<Candidate> findCandidates() {
    std::vector<Candidate> candidates;
    for (auto i = static_cast<int32_t>(problem.ops.size()); i-- > 0;) {
      const RecomputeOp &op = problem.ops[i];
      if (op.isBackward || !op.mayRecompute)
        continue;
      Row &row = rows[op.row];
      row.endUs.push_back(row.afterUs);
      row.afterUs += op.timeUs / runs(op.row);
      row.startUs.push_back(row.afterUs);
      row.copyUs.push_back(0);
      Candidate one = candidateOf(i);
      one.place = row.endUs.size() - 1;
      if (one.copyUs > 0 && one.trafficUs < one.savedUs)
        candidates.push_back(one);
    }
    return candidates;
  }

  Candidate candidateOf(int32_t index) const {
    const RecomputeOp &op = problem.ops[index];
    Candidate one{index, 0, 0, op.timeUs, 0, 0};
    double bytes = 0;
    for (int32_t value : op.writes) {
      bool isKept = std::any_of(cut.readersOf(value).begin(), cut.readersOf(value).end(),
                                [&](int32_t reader) { return problem.ops[reader].isBackward; });
      int64_t own = problem.values[value].bytes;
      if (!isKept)
        continue;
      one.copyUs += hostCopyUs(static_cast<double>(own), device.hostLink);
      one.hostBytes += own * std::max<int64_t>(1, cut.waitsOf(value));
      bytes += static_cast<double>(own);
    }
    one.trafficUs =
        2 * bytes / (device.memoryBytesPerSecond * device.memoryEfficiency) * 1e6 * runs(op.row);
    return one;
  }

  /// Whether each value is stored before the second behind it is begun, its own among them: there
  /// its bytes are free in the program (lib/Transforms/Apply/HostCopies.h).
  bool take(Row &row, const Candidate &one) {
    row.copyUs[one.place] = one.copyUs;
    stored.clear();
    for (size_t i = row.copyUs.size(); i-- > 0;)
      if (row.copyUs[i] > 0)
        stored.push_back(i);
    double linkUs = std::numeric_limits<double>::infinity();
    for (size_t number = 0; number < stored.size(); ++number) {
      size_t i = stored[number];
      linkUs = std::min(linkUs, row.endUs[i]) - row.copyUs[i];
      double freeUs = number + kHostGroupsAhead < stored.size()
                          ? row.startUs[stored[number + kHostGroupsAhead]]
                          : 0;
      if (linkUs < freeUs) {
        row.copyUs[one.place] = 0;
        return false;
      }
    }
    return true;
  }

  RecomputeProblem &problem;
  RecomputeCut cut;
  const DeviceType &device;
  int64_t hostBytes;
  std::map<int32_t, int64_t> runsOf;
  std::map<int32_t, Row> rows;
  std::vector<size_t> stored; ///< places, in order
};

} // namespace

void letWaitOnHost(RecomputeProblem &problem, const DeviceType &device, int64_t hostBytes) {
  HostChooser(problem, device, hostBytes).run();
}

} // namespace autopar
