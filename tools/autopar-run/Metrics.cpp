// SPDX-License-Identifier: Apache-2.0
// Scalars of a step.
#include "Metrics.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

namespace autopar::tools {

/// A line that a crash or a full disk cut off would hide the one behind it.
static void dropTornLine(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return;
  std::ifstream file(path, std::ios::binary);
  constexpr int64_t kLongest = 1 << 20;
  int64_t size = int64_t(std::filesystem::file_size(path, error)),
          begin = std::max<int64_t>(0, size - kLongest);
  std::string tail(size_t(size - begin), '\0');
  file.seekg(begin);
  file.read(tail.data(), std::streamsize(tail.size()));
  size_t end = tail.rfind('\n');
  if (file && (begin == 0 || end != std::string::npos))
    std::filesystem::resize_file(
        path, uintmax_t(end == std::string::npos ? 0 : begin + int64_t(end) + 1), error);
}

Result<Metrics> Metrics::open(const std::string &path, bool isRoot) {
  Metrics metrics;
  metrics.path = path;
  metrics.isRoot = isRoot;
  if (isRoot && !path.empty()) {
    dropTornLine(path);
    metrics.file.open(path, std::ios::app);
    if (!metrics.file)
      return Status{StatusCode::CannotCreate, "cannot open " + path + ": " + std::strerror(errno)};
  }
  return metrics;
}

Status Metrics::collect(runtime::Session &session) {
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
    values.emplace_back(spec.name, value);
  }
  return Status::ok();
}

void Metrics::setEvaluated(const std::vector<std::string> &names,
                           const std::vector<double> &means) {
  evaluated.clear();
  for (size_t i = 0; i < names.size(); ++i)
    evaluated.emplace_back("eval_" + names[i], means[i]);
  isNewlyEvaluated = true;
}

Status Metrics::write(int64_t step, double ms, double samplesPerSecond) {
  if (!isRoot || path.empty())
    return Status::ok();
  nlohmann::ordered_json line = {{"step", step}};
  for (const auto &[name, value] : values)
    line[name] = value;
  if (std::exchange(isNewlyEvaluated, false))
    for (const auto &[name, value] : evaluated)
      line[name] = value;
  line["ms"] = ms;
  line["samples_per_s"] = samplesPerSecond;
  file << line.dump() << "\n";
  return file.flush() ? Status::ok()
                      : Status::ioError("cannot write " + path + ": " + std::strerror(errno));
}

std::string Metrics::text() const {
  std::string text;
  auto add = [&](const std::string &name, double value) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.4g", value);
    text += (text.empty() ? "" : "  ") + name + " " + number;
  };
  for (const auto &[name, value] : values)
    add(name, value);
  for (const auto &[name, value] : evaluated)
    add(name, value);
  return text;
}

} // namespace autopar::tools
