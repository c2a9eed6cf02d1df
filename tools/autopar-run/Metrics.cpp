// SPDX-License-Identifier: Apache-2.0
// Scalars of a step.
#include "Metrics.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace autopar::tools {

Result<Metrics> Metrics::open(const std::string &path, bool isRoot) {
  Metrics metrics;
  metrics.path = path;
  metrics.isRoot = isRoot;
  if (isRoot && !path.empty()) {
    metrics.file.open(path, std::ios::app);
    if (!metrics.file)
      return Status{StatusCode::CannotCreate, "cannot open " + path + ": " + std::strerror(errno)};
  }
  return metrics;
}

Status Metrics::collect(runtime::Session &session, int64_t step) {
  AUTOPAR_RETURN_IF_ERROR(session.collectOutputs());
  values.clear();
  if (!isRoot)
    return Status::ok();
  for (const runtime::TensorSpec &spec : session.outputs()) {
    if (!spec.shape.empty() || (spec.dtype != DataType::F32 && spec.dtype != DataType::F64))
      continue;
    auto data = session.output(spec.name);
    if (!data)
      return data.status();
    float narrow = 0;
    double value = 0;
    if (spec.dtype == DataType::F32) {
      std::memcpy(&narrow, *data, sizeof(narrow));
      value = double(narrow);
    } else {
      std::memcpy(&value, *data, sizeof(value));
    }
    if (!std::isfinite(value))
      return Status::badInput(
          "step " + std::to_string(step) + ": " + spec.name + " is " +
          (std::isnan(value) ? "NaN" : "infinite") +
          "; nothing after the last checkpoint was kept. A smaller learning rate or "
          "--clip-norm may help");
    values.emplace_back(spec.name, value);
  }
  return Status::ok();
}

Status Metrics::write(int64_t step, double ms, double samplesPerSecond) {
  if (!isRoot || path.empty())
    return Status::ok();
  nlohmann::ordered_json line = {{"step", step}};
  for (const auto &[name, value] : values)
    line[name] = value;
  line["ms"] = ms;
  line["samples_per_s"] = samplesPerSecond;
  file << line.dump() << "\n";
  return file.flush() ? Status::ok()
                      : Status::ioError("cannot write " + path + ": " + std::strerror(errno));
}

std::string Metrics::text() const {
  std::string text;
  for (const auto &[name, value] : values) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.4g", value);
    text += (text.empty() ? "" : "  ") + name + " " + number;
  }
  return text;
}

} // namespace autopar::tools
