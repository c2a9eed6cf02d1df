// SPDX-License-Identifier: Apache-2.0
// Time of one operation on one device. Source: the roofline model, Williams, Waterman, Patterson,
// "Roofline: an insightful visual performance model", CACM 52(4), 2009, with calibrated fractions
// of the two peaks and a floor for starting a kernel.
#include "autopar/Cost/CostModel.h"

#include <algorithm>

namespace autopar {

double opTimeUs(double flops, double bytes, DataType type, const DeviceType &device, Work work) {
  double compute = flops / (device.peakFor(type) * device.efficiencyOf(work));
  double memory = bytes / (device.memoryBytesPerSecond * device.memoryEfficiency);
  return device.launchUs + 1e6 * std::max(compute, memory);
}

double hostCopyUs(double bytes, const Link &hostLink) {
  return hostLink.latencyUs + 1e6 * bytes / hostLink.bytesPerSecond;
}

Result<double> instructionTimeUs(std::string_view key, double flops, double bytes, DataType type,
                                 const DeviceType &device, Work work) {
  if (!device.measured.list.empty() && !key.empty()) {
    auto measured = device.measured.timeUs(key);
    if (!measured)
      return measured.status();
    if (*measured)
      return **measured;
  }
  return opTimeUs(flops, bytes, type, device, work);
}

} // namespace autopar
